"""LLVM code of expressions."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir

from ..user_function import is_kernel, wrong_parameters
from . import arrays, scalars
from .machine_types import (
    BOOL,
    INT64,
    NOTHING,
    UINT8,
    VOID,
    Array,
    Record,
    Static,
    Tuple,
    Value,
    Words,
    is_number,
    items,
    joined_type,
    llvm_parts,
    scalar_type,
    tuple_of,
)
from .math_functions import number_function
from .scalars import Outside
from .variables import Variables, convert, unusable


def value_of(thing: Any) -> Value:
    """The value of a Python object: a constant, a tuple of constants, or an object known at compile time."""
    if isinstance(thing, (bool, int, float)):
        return scalars.literal(thing)
    if isinstance(thing, np.generic) and thing.dtype.kind in "biuf":
        return scalars.constant(scalar_type(thing.dtype.name), thing.item())
    if isinstance(thing, tuple):
        return tuple_of([value_of(each) for each in thing])
    if isinstance(thing, bytes):
        return tuple_of([scalars.constant(UINT8, each) for each in thing])
    return VOID if thing is None else Value(Static(thing), ())


class Expressions:
    """The code of the expressions of one function.

    ``call(function, arguments)`` emits a call of a native function.
    """

    def __init__(self, function: ir.Function, names: dict[str, Any], local: frozenset[str], call: Callable[..., Value]) -> None:
        self.function, self.names, self.local, self._call = function, names, local, call
        entry = function.append_basic_block("entry")
        self.start = function.append_basic_block("start")
        self.variables = Variables(ir.IRBuilder(entry))
        self.builder = ir.IRBuilder(self.start)

    @property
    def module(self) -> ir.Module:
        """The module that the function is in."""
        return self.function.module

    def stack(self, kind: ir.Type) -> Any:
        """The pointer to an object on the stack, the same each time the code runs."""
        return self.variables.allocate.alloca(kind)

    def word(self, value: Value) -> Any:
        """A number as a word."""
        return arrays.word(self.builder, value)

    def call_native(self, function: Callable[..., Any], arguments: list[Value]) -> Value:
        """Call a native function."""
        return self._call(self, function, arguments)

    def block(self, name: str) -> ir.Block:
        """A new block of the function."""
        return self.function.append_basic_block(name)

    # ---- by node -----------------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """The value of an expression."""
        emit = getattr(self, f"_{type(node).__name__}", None)
        if emit is None:
            raise Outside(f"the expression {ast.unparse(node)}")
        result: Value = emit(node)
        return result

    def _Constant(self, node: ast.Constant) -> Value:
        return value_of(node.value)

    def _Name(self, node: ast.Name) -> Value:
        if node.id in self.variables.types:
            return self.variables.get(self.builder, node.id)
        if node.id in self.local:
            raise unusable(node.id)
        if node.id in self.names:
            return value_of(self.names[node.id])
        if hasattr(builtins, node.id):
            return value_of(getattr(builtins, node.id))
        raise Outside(f"the unknown name {node.id}")

    def _Tuple(self, node: ast.Tuple) -> Value:
        return tuple_of([self.value(item) for item in node.elts])

    def _BinOp(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left.type, Tuple) and isinstance(right.type, Tuple):
            return tuple_of([*items(left), *items(right)])
        return scalars.binary(self.builder, type(node.op), left, right)

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:
        return scalars.unary(self.builder, type(node.op), self.value(node.operand))

    def _BoolOp(self, node: ast.BoolOp) -> Value:
        return self._until([partial(self.value, n) for n in node.values], isinstance(node.op, ast.Or))

    def _until(self, values: Sequence[Callable[[], Value]], found: bool) -> Value:
        """The first value whose truth is ``found``, else the last; later values are not computed."""
        first = values[0]()
        if len(values) == 1:
            return first
        b, short, rest, end = self.builder, self.block("short"), self.block("rest"), self.block("end")
        ends = (short, rest) if found else (rest, short)
        b.cbranch(scalars.truth(b, first).scalar, *ends)
        b.position_at_end(rest)
        second = self._until(values[1:], found)
        return self._merge([(short, first), (b.block, second)], end)

    def _merge(self, ways: list[tuple[Any, Value]], end: Any) -> Value:
        """The value of one of two ways that meet in the block ``end``."""
        b, (one, other) = self.builder, (value for _, value in ways)
        kind = joined_type(one.type, other.type)
        if kind is None:
            raise Outside(f"one value of {one.type} and {other.type}")
        parts = []
        for block, value in ways:
            b.position_at_end(block)
            parts.append(convert(b, value, kind).parts)
            b.branch(end)
        b.position_at_end(end)
        joined = []
        for number, part in enumerate(llvm_parts(kind)):
            node = b.phi(part)
            for (block, _), values in zip(ways, parts, strict=True):
                node.add_incoming(values[number], block)
            joined.append(node)
        return Value(kind, tuple(joined))

    def _IfExp(self, node: ast.IfExp) -> Value:
        b = self.builder
        yes, no, end = self.block("yes"), self.block("no"), self.block("end")
        b.cbranch(scalars.truth(b, self.value(node.test)).scalar, yes, no)
        ways = []
        for block, arm in ((yes, node.body), (no, node.orelse)):
            b.position_at_end(block)
            value = self.value(arm)
            ways.append((b.block, value))
        return self._merge(ways, end)

    def _Compare(self, node: ast.Compare) -> Value:
        values = [self.value(node.left)]

        def compare(op: ast.cmpop, right: ast.expr) -> Value:
            values.append(self.value(right))
            return self._comparison(op, values[-2], values[-1])

        ways = [partial(compare, op, right) for op, right in zip(node.ops, node.comparators, strict=True)]
        return self._until(ways, found=False)

    def _comparison(self, op: ast.cmpop, left: Value, right: Value) -> Value:
        b = self.builder
        if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right.type, Tuple):
            found = scalars.constant(BOOL, 0)
            for item in items(right):
                found = Value(BOOL, (b.or_(found.scalar, scalars.compare(b, ast.Eq, left, item).scalar),))
            return found if isinstance(op, ast.In) else scalars.unary(b, ast.Not, found)
        if isinstance(op, (ast.Is, ast.IsNot)) and NOTHING in (left.type, right.type):
            return scalars.literal((left.type == right.type) == isinstance(op, ast.Is))
        return scalars.compare(b, type(op), left, right)

    # ---- attributes and elements -------------------------------------------------------------------------------------------

    def _Attribute(self, node: ast.Attribute) -> Value:
        inner = node.value
        if node.attr == "data" and isinstance(inner, ast.Attribute) and inner.attr == "ctypes":
            return arrays.address_of(self.builder, self._array(inner.value))
        base = self.value(inner)
        if isinstance(base.type, Record):
            return arrays.load_field(self.builder, base, node.attr)
        if isinstance(base.type, Array):
            found = arrays.attribute(self.builder, base, node.attr)
            if found is not None:
                return found
        if isinstance(base.type, Static) and isinstance(base.type.value, (types.ModuleType, np.dtype)):
            thing = getattr(base.type.value, node.attr, None)
            if thing is not None:
                return value_of(thing)
        raise Outside(f"the attribute {ast.unparse(node)}")

    def _array(self, node: ast.expr) -> Value:
        value = self.value(node)
        if not isinstance(value.type, Array):
            raise Outside(f"{ast.unparse(node)} instead of an array")
        return value

    def indices(self, node: ast.expr) -> list[Value]:
        """The indices of an element."""
        index = self.value(node)
        return items(index) if isinstance(index.type, Tuple) else [index]

    def _Subscript(self, node: ast.Subscript) -> Value:
        base = self.value(node.value)
        if isinstance(node.slice, ast.Slice):
            if node.slice.step is not None:
                raise Outside(f"the step of {ast.unparse(node)}")
            ends = [None if end is None else self.value(end) for end in (node.slice.lower, node.slice.upper)]
            if isinstance(base.type, Tuple):
                known = [None if end is None else scalars.known_integer(end) for end in ends]
                return tuple_of(items(base)[known[0] : known[1]])
            return arrays.part_of(self.builder, base, *ends)
        return self.element(base, self.indices(node.slice))

    def element(self, base: Value, indices: list[Value]) -> Value:
        """An element of an array, an array field, or a tuple."""
        if isinstance(base.type, Array):
            return arrays.load_element(self, base, indices)
        if isinstance(base.type, Words):
            (index,) = indices
            return Value(INT64, (self.builder.load(arrays.word_pointer(self.builder, base, index)),))
        if isinstance(base.type, Tuple) and len(indices) == 1:
            return self._item(base, indices[0])
        raise Outside(f"an element of {base.type}")

    def _item(self, base: Value, index: Value) -> Value:
        """An item of a tuple; the index is known, or all items have one type."""
        each, known = items(base), scalars.known_integer(index)
        if known is not None:
            if not -len(each) <= known < len(each):
                raise Outside(f"item {known} of {len(each)}")
            return each[known]
        kind = each[0].type
        if not is_number(kind) or any(item.type != kind for item in each):
            raise Outside("an item of a tuple of different types by an index that is not known")
        b, at = self.builder, self.word(index)
        found = each[0].scalar
        for number, item in enumerate(each[1:], 1):
            is_this = b.or_(b.icmp_signed("==", at, at.type(number)), b.icmp_signed("==", at, at.type(number - len(each))))
            found = b.select(is_this, item.scalar, found)
        return Value(kind, (found,))

    # ---- calls -------------------------------------------------------------------------------------------------------------

    def _Call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "view":
            return self._view(node, node.func.value)
        called = self.value(node.func)
        if not isinstance(called.type, Static) or any(isinstance(a, ast.Starred) for a in node.args):
            raise Outside(f"the call {ast.unparse(node)}")
        function = called.type.value
        arguments = [self.value(a) for a in node.args]
        named = {k.arg: self.value(k.value) for k in node.keywords if k.arg}
        if len(named) != len(node.keywords):
            raise Outside(f"the call {ast.unparse(node)}")
        try:
            return self._called(function, arguments, named)
        except Outside as error:
            raise Outside(f"{error}, in {ast.unparse(node)}") from None

    def _called(self, function: Any, arguments: list[Value], named: dict[str, Value]) -> Value:
        kind = getattr(function, "__native__", None)
        if kind in ("function", "generic"):
            return self.call_native(function, _bound(function, arguments, named))
        if named:
            raise Outside("named arguments")
        if kind == "record":
            return Value(Record(function.dtype), (self.word(*arguments),))
        if kind == "array":
            return self._array_at(function, *arguments)
        if kind == "twin":
            from .machine_forms import machine_form

            made = machine_form(function)(self, *arguments)
            return VOID if made is None else made
        if function is len:
            return self._length(*arguments)
        emit = number_function(function)
        if emit is None:
            raise Outside(f"a call of {getattr(function, '__name__', function)}")
        return emit(self.builder, arguments)

    def _array_at(self, view: Any, address: Value, shape: Value) -> Value:
        sizes = items(shape) if isinstance(shape.type, Tuple) else [shape]
        if len(sizes) != view.rank:
            raise Outside(f"{len(sizes)} sizes of {view.rank}")
        return arrays.array_at(self.builder, view.dtype, self.word(address), [self.word(size) for size in sizes])

    def _length(self, thing: Value) -> Value:
        if isinstance(thing.type, Array):
            return Value(INT64, (thing.parts[1],))
        if isinstance(thing.type, (Tuple, Words)):
            return scalars.literal(len(thing.type.items) if isinstance(thing.type, Tuple) else thing.type.length)
        raise Outside(f"the length of {thing.type}")

    def _view(self, node: ast.Call, of: ast.expr) -> Value:
        array, (dtype,) = self._array(of), (self.value(a) for a in node.args)
        if not isinstance(dtype.type, Static):
            raise Outside(f"the dtype of {ast.unparse(node)}")
        thing = dtype.type.value
        return arrays.viewed_as(self.builder, array, np.dtype(thing).name)


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
