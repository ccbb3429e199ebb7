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

from ..static_values import static_range
from . import arrays
from .llvm.instructions import Builder
from .values import scalars, static_values
from .values.machine_types import (
    BOOL,
    INT64,
    NOTHING,
    UINT8,
    VOID,
    Array,
    Known,
    Record,
    Static,
    Tuple,
    Value,
    Vector,
    Words,
    decayed,
    is_number,
    items,
    joined_type,
    known,
    llvm_parts,
    scalar_type,
    tuple_of,
)
from .values.scalars import Outside
from .variables import Variables, convert, unusable
from .vectors import lanewise


def value_of(thing: Any) -> Value:
    """The value of a Python object: a constant, a tuple of constants, or an object known at compile time."""
    if isinstance(thing, (bool, int, float)):
        return scalars.literal(thing)
    if isinstance(thing, np.generic) and thing.dtype.kind in "biuf":
        return scalars.constant(scalar_type(thing.dtype.name), thing.item())
    if isinstance(thing, tuple):
        return tuple_of([value_of(each) for each in thing], getattr(thing, "_fields", ()))
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
        self.variables = Variables(Builder(entry))
        self.builder = Builder(self.start)
        self._emissions: dict[type[ast.expr], Callable[..., Value]] = {}
        #: The calls that the compiler has made: functions, arguments and results.
        self.computed: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = []

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
        emit = self._emissions.get(type(node))
        if emit is None:
            emit = getattr(self, f"_{type(node).__name__}", None)
            if emit is None:
                raise Outside(f"the expression {ast.unparse(node)}")
            self._emissions[type(node)] = emit
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
        return tuple_of(self._elements(node.elts))

    def _List(self, node: ast.List) -> Value:
        return tuple_of(self._elements(node.elts), is_list=True)

    def _elements(self, nodes: list[ast.expr]) -> list[Value]:
        """The values of the items of a tuple or a list, those of others among them."""
        found = []
        for node in nodes:
            found += self.unrolled(node.value) if isinstance(node, ast.Starred) else [self.value(node)]
        return found

    def _ListComp(self, node: ast.ListComp) -> Value:
        (loop, *others), types = node.generators, self.variables.types
        if others or loop.ifs or not isinstance(loop.target, ast.Name):
            raise Outside(f"the list {ast.unparse(node)}")
        if loop.target.id in types:
            raise Outside(f"the name {loop.target.id} of an item and of a variable")
        found = []
        for item in self.unrolled(loop.iter):
            self.variables.set(self.builder, loop.target.id, item)
            found.append(self.value(node.elt))
        types.pop(loop.target.id, None)
        self.variables.forget(loop.target.id)
        return tuple_of(found, is_list=True)

    def unrolled(self, node: ast.expr) -> list[Value]:
        """The values of the variable of an unrolled loop."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and self.names.get(node.func.id) is static_range:
            return [known(n) for n in range(*(static_values.given(self.value(bound)) for bound in node.args))]
        each = self.value(node)
        if not isinstance(each.type, Tuple):
            raise Outside(f"a loop over {ast.unparse(node)}")
        return items(each)

    def _BinOp(self, node: ast.BinOp) -> Value:
        return self.binary(type(node.op), self.value(node.left), self.value(node.right))

    def binary(self, op: type[ast.operator], left: Value, right: Value) -> Value:
        """The result of a binary operator on numbers, vectors, tuples and lists."""
        if isinstance(left.type, Tuple):
            count = static_values.known_word(right)
            if op is ast.Mult and left.type.is_list and count is not None:
                return tuple_of(items(left) * count, is_list=True)
            if op is ast.Add and isinstance(right.type, Tuple) and left.type.is_list == right.type.is_list:
                return tuple_of([*items(left), *items(right)], is_list=left.type.is_list)
        if lanewise.is_vector(left, right):
            return lanewise.binary(self.builder, op, left, right)
        return static_values.folded(op, left, right) or scalars.binary(self.builder, op, left, right)

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:
        op, operand = type(node.op), self.value(node.operand)
        if lanewise.is_vector(operand):
            return lanewise.unary(self.builder, op, operand)
        return static_values.folded(op, operand) or scalars.unary(self.builder, op, operand)

    def taken(self, test: Value) -> bool | None:
        """Whether a static condition holds; None for one of run time."""
        return bool(static_values.known_word(test)) if isinstance(test.type, Known) else None

    def _BoolOp(self, node: ast.BoolOp) -> Value:
        return self._until([partial(self.value, n) for n in node.values], isinstance(node.op, ast.Or))

    def _until(self, values: Sequence[Callable[[], Value]], found: bool) -> Value:
        """The first value whose truth is ``found``, else the last; later values are not computed."""
        first = values[0]()
        if len(values) == 1 or self.taken(first) is found:
            return first
        if self.taken(first) is not None:
            return self._until(values[1:], found)
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
        b, test = self.builder, self.value(node.test)
        if (taken := self.taken(test)) is not None:
            return self.value(node.body if taken else node.orelse)
        yes, no, end = self.block("yes"), self.block("no"), self.block("end")
        b.cbranch(scalars.truth(b, test).scalar, yes, no)
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
        if lanewise.is_vector(left, right):
            return lanewise.compare(b, type(op), left, right)
        return static_values.folded(type(op), left, right) or scalars.compare(b, type(op), left, right)

    # ---- attributes and elements -------------------------------------------------------------------------------------------

    def _Attribute(self, node: ast.Attribute) -> Value:
        inner = node.value
        if node.attr == "data" and isinstance(inner, ast.Attribute) and inner.attr == "ctypes":
            return arrays.address_of(self.builder, self._array(inner.value))
        if (
            isinstance(inner, ast.Name)
            and isinstance(kind := self.variables.types.get(inner.id), Tuple)
            and node.attr in kind.names
        ):
            return self.variables.get_item(self.builder, inner.id, kind.names.index(node.attr))  # no other item is read
        base = self.value(inner)
        if isinstance(base.type, Record):
            return arrays.load_field(self.builder, base, node.attr)
        if isinstance(base.type, Array):
            found = arrays.attribute(self.builder, base, node.attr)
            if found is not None:
                return found
        if isinstance(base.type, Tuple) and node.attr in base.type.names:
            return items(base)[base.type.names.index(node.attr)]
        if isinstance(base.type, Vector) and (found := lanewise.attribute(base, node.attr)) is not None:
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

    def register(self, node: ast.expr, index: ast.expr) -> tuple[str, int] | None:
        """The variable that is a list or a tuple, and the static index of one of its items, in range; None for all else."""
        kind = self.variables.types.get(node.id) if isinstance(node, ast.Name) else None
        if not isinstance(node, ast.Name) or not isinstance(kind, Tuple) or isinstance(index, ast.Slice):
            return None
        at = static_values.known_word(self.value(index))
        return (node.id, at % len(kind.items)) if at is not None and -len(kind.items) <= at < len(kind.items) else None

    def _Subscript(self, node: ast.Subscript) -> Value:
        if (place := self.register(node.value, node.slice)) is not None:
            return self.variables.get_item(self.builder, *place)
        base = self.value(node.value)
        if isinstance(node.slice, ast.Slice):
            if isinstance(base.type, Vector):
                bounds = (node.slice.lower, node.slice.upper, node.slice.step)
                ends = [None if n is None else static_values.given(self.value(n)) for n in bounds]
                return lanewise.part(self.builder, base, slice(*ends))
            if node.slice.step is not None:
                raise Outside(f"the step of {ast.unparse(node)}")
            ends = [None if end is None else self.value(end) for end in (node.slice.lower, node.slice.upper)]
            if isinstance(base.type, Tuple):
                within = [None if end is None else scalars.known_integer(end) for end in ends]
                return tuple_of(items(base)[within[0] : within[1]])
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
        if isinstance(base.type, Vector) and len(indices) == 1:
            return lanewise.lane(self.builder, base, indices[0])
        raise Outside(f"an element of {base.type}")

    def _item(self, base: Value, index: Value) -> Value:
        """An item of a tuple; the index is known, or all items have one type."""
        each, at_known = items(base), scalars.known_integer(index)
        if at_known is not None:
            if not -len(each) <= at_known < len(each):
                raise Outside(f"item {at_known} of {len(each)}")
            return each[at_known]
        each = [decayed(item) for item in each]
        kind = each[0].type
        if not is_number(kind) or any(item.type != kind for item in each):
            raise Outside("an item of a tuple of different types by an index that is not known")
        b, at = self.builder, self.word(index)
        found = each[0].scalar
        for number, item in enumerate(each[1:], 1):
            is_this = b.or_(b.icmp_signed("==", at, at.type(number)), b.icmp_signed("==", at, at.type(number - len(each))))
            found = b.select(is_this, item.scalar, found)
        return Value(kind, (found,))
