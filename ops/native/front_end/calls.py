"""LLVM code of calls: of native functions, instructions, twins, functions of numbers, and functions of static values."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from ..inlining import is_shared
from ..user_function import is_kernel, wrong_parameters
from . import arrays
from .expressions import Expressions, value_of
from .math_functions import number_function
from .values import static_values
from .values.machine_types import (
    INT64,
    VOID,
    Array,
    Lent,
    Pointer,
    Record,
    Static,
    Tuple,
    Type,
    Value,
    Vector,
    Words,
    decayed,
    function_type,
    is_number,
    items,
    known,
    tuple_of,
)
from .values.scalars import Outside, cast
from .vectors import lanewise
from .vectors.emission import Emission


class Calls(Expressions):
    """The code of the calls of one function."""

    def _Call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("view", "astype"):
            return self._view(node, node.func.value, node.func.attr)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            return self._flat(node, self.value(node.func.value))
        called = self.value(node.func)
        if isinstance(called.type, Pointer) and not node.keywords:
            return self._by_pointer(called, called.type.kinds, [decayed(self.value(a)) for a in node.args])
        if not isinstance(called.type, Static) or any(isinstance(a, ast.Starred) for a in node.args):
            raise Outside(f"the call {ast.unparse(node)}")
        function = called.type.value
        argument = (
            self._lendable if getattr(function, "__native__", None) == "generic" and not is_shared(function) else self.value
        )
        arguments = [argument(a) for a in node.args]
        named = {k.arg: argument(k.value) for k in node.keywords if k.arg}
        if len(named) != len(node.keywords):
            raise Outside(f"the call {ast.unparse(node)}")
        try:
            return self._called(function, arguments, named)
        except Outside as error:
            raise Outside(f"{error}, in {ast.unparse(node)}") from None

    def _lendable(self, node: ast.expr) -> Value:
        """An argument; of a list with a name its places, so that the called function may assign its items."""
        kind = self.variables.types.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(node, ast.Name) and isinstance(kind, Tuple) and kind.is_list:
            return Value(Lent(kind), tuple(self.variables.lend(node.id)))
        return self.value(node)

    def _called(self, function: Any, arguments: list[Value], named: dict[str, Value]) -> Value:
        kind = getattr(function, "__native__", None)
        if kind in ("function", "generic"):
            return self.call_native(function, _bound(function, arguments, named))
        if isinstance(function, type) and issubclass(function, tuple) and hasattr(function, "_fields"):
            return _named_tuple(function, arguments, named)
        if named:
            raise Outside("named arguments")
        if kind == "instruction":
            made = function.__emission__(Emission(self), *arguments)
            return VOID if made is None else made
        if kind == "static":
            given = tuple(map(static_values.given, arguments))
            self.computed.append((function, given, function(*given)))
            return static_values.static(self.computed[-1][2])
        if kind == "record":
            return Value(Record(function.dtype), (self.word(*arguments),))
        if kind == "array":
            return self._array_at(function, *arguments)
        if kind == "twin":
            from .values.machine_forms import machine_form

            made = machine_form(function)(self, *map(decayed, arguments))
            return VOID if made is None else made
        if function is len:
            return self._length(*arguments)
        if (folded := static_values.folded(function, *arguments)) is not None:
            return folded
        emit = number_function(function)
        if emit is None:
            raise Outside(f"a call of {getattr(function, '__name__', function)}")
        return emit(self.builder, [decayed(argument) for argument in arguments])

    def _by_pointer(self, called: Value, kinds: tuple[Type, ...], arguments: list[Value]) -> Value:
        """Call a function by its address."""
        b = self.builder
        arguments = [cast(b, a, INT64) if is_number(a.type) and k == INT64 else a for a, k in zip(arguments, kinds, strict=True)]
        if tuple(a.type for a in arguments) != kinds:
            raise Outside(f"arguments of {[a.type for a in arguments]} instead of {kinds}")
        function = b.inttoptr(called.scalar, function_type(kinds).as_pointer())
        b.call(function, [part for a in arguments for part in a.parts])
        return VOID

    def _array_at(self, view: Any, address: Value, shape: Value) -> Value:
        sizes = items(shape) if isinstance(shape.type, Tuple) else [shape]
        if len(sizes) != view.rank:
            raise Outside(f"{len(sizes)} sizes of {view.rank}")
        words = [self.word(size) for size in sizes]
        return arrays.array_at(self.builder, view.dtype, self.word(address), words, view.stored)

    def _length(self, thing: Value) -> Value:
        if isinstance(thing.type, Array):
            return Value(INT64, (thing.parts[1],))
        if isinstance(thing.type, (Tuple, Words)):
            return known(len(thing.type.items) if isinstance(thing.type, Tuple) else thing.type.length)
        if isinstance(thing.type, Vector):
            return known(thing.type.lanes)
        raise Outside(f"the length of {thing.type}")

    def _flat(self, node: ast.Call, array: Value) -> Value:
        """All elements of an array as one axis."""
        size = arrays.attribute(self.builder, array, "size") if isinstance(array.type, Array) else None
        if size is None or not isinstance(array.type, Array) or [ast.unparse(a) for a in node.args] != ["-1"]:
            raise Outside(f"the call {ast.unparse(node)}")
        return Value(Array(array.type.dtype, 1), (array.parts[0], size.scalar))

    def _view(self, node: ast.Call, of: ast.expr, name: str) -> Value:
        viewed, (dtype,) = self.value(of), (self.value(a) for a in node.args)
        if not isinstance(dtype.type, Static):
            raise Outside(f"the dtype of {ast.unparse(node)}")
        thing = dtype.type.value
        if isinstance(viewed.type, Vector):
            return (lanewise.converted if name == "astype" else lanewise.viewed_as)(self.builder, viewed, thing)
        if not isinstance(viewed.type, Array) or name == "astype":
            raise Outside(f"the call {ast.unparse(node)}")
        return arrays.viewed_as(self.builder, viewed, np.dtype(thing).name)


def _named_tuple(made: Any, arguments: list[Value], named: dict[str, Value]) -> Value:
    """A named tuple: its fields are arguments of the functions that take it."""
    given = dict(zip(made._fields, arguments, strict=False)) | named
    if given.keys() != set(made._fields) or len(arguments) + len(named) != len(made._fields):
        raise Outside(f"the fields of {made.__name__}")
    return tuple_of([given[name] for name in made._fields], made._fields)


def _bound(function: Any, arguments: list[Value], named: dict[str, Value]) -> list[Value]:
    """The arguments of a call in the order of the parameters, with defaults."""
    code = function.__code__
    parameters = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(parameters[::-1], (function.__defaults__ or ())[::-1], strict=False))
    given = dict(zip(parameters, arguments, strict=False)) | named
    missing = [name for name in parameters if name not in given and name not in defaults]
    if missing or len(arguments) > len(parameters) or not named.keys() <= set(parameters):
        if is_kernel(function):
            raise wrong_parameters(function, len(arguments), named)
        raise Outside(f"the arguments of {function.__name__}")
    return [given[name] if name in given else value_of(defaults[name]) for name in parameters]
