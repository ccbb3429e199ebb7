"""Loops: functions that call themselves, with states of any type and values collected round by round.

let %loop = fn (%i: int64, %more: bool, %state: Tensor[(?, 4), float32], %collected: Tensor[(?, 3), int32]) -> (...) {
  if (and(%i < %trips, %more)) { ...; %loop(%i + 1, %more1, %state1, concatenate((%collected, %row))) }
  else { (%state, %collected) }
};
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.tensor_types import FuncType, TensorType, TupleType, Type, numpy_dtype
from ...shape_funcs.symbolic.dim import ANY, POLY, Dim, dim, fresh
from ...shape_funcs.symbolic.dim import const as known_size
from ..builder.build import const
from ..builder.operator_functions import operators as relay
from ..ir.expr import Call, Expr, Function, Tuple, TupleGetItem, Var, type_of
from ..ir.visitor import free_vars
from ..type_inference.function_signature import declare
from ..type_inference.type_match import TypeMismatch, join, map_dims
from .node import LengthChanges, Node
from .scope import Scope

#: The most conversions of a body until the types of its states do not change.
MAX_CONVERSIONS = 24


@frozen
class Round:
    """The values after a round: whether there is one more (None: always), the states, and the values to collect."""

    more: Expr | None
    states: Sequence[Expr]
    collected: Sequence[Expr] = ()


#: The body of a loop: a node in the scope of the body, the number of the round, whether it runs, and the states.
Body = Callable[[Node, Expr, Expr, Sequence[Expr]], Round]


def loop(node: Node, trips: Expr | None, more: Expr | None, states: Sequence[Expr], body: Body) -> tuple[list[Expr], list[Expr]]:
    """The states after the last round, and the collected values, each stacked along a new first axis.

    ``trips``: the most rounds, an int64; ``more``: whether there is a first round; None for no limit and for always.
    Raises ModelError for a state whose dtype or rank changes, LengthChanges for a sequence that gets longer or shorter.
    """
    trips = None if trips is None else node.bind(relay.reshape(trips, []))
    states = [node.bind(s) for s in states]
    types: list[Type] = [_open(type_of(s)) for s in states]
    collected: list[Type] | None = None
    for _ in range(MAX_CONVERSIONS):
        made = _Loop(node, trips, types, collected, body)
        if made.settled:
            first = const(True) if more is None else relay.reshape(more, [])
            return made.call(first, states)
        types, collected = made.wanted, made.collected
    raise node.error("the shapes of its states do not settle")


def _open(ty: Type) -> Type:
    """The type with ``?`` for each size that is no number."""
    return map_dims(ty, lambda d: d if known_size(d) is not None else ANY)


def _merged(node: Node, before: Type, after: Type, what: str) -> Type:
    try:
        return join(before, _open(after), lambda: ANY)
    except TypeMismatch as mismatch:
        lengths = [len(t.fields) for t in (before, after) if isinstance(t, TupleType)]
        if len(set(lengths)) == 2:
            raise LengthChanges.of(node, f"{what} has {lengths[0]} tensors before a round and {lengths[1]} after it") from None
        raise node.error(f"{what} is {before} before a round and {after} after it: {mismatch}") from None


class _Loop:
    """One conversion of a loop with states of given types.

    ``settled``: whether the body gives these types again; otherwise ``wanted`` and ``collected`` are the types to try next.
    """

    def __init__(
        self, node: Node, trips: Expr | None, types: Sequence[Type], collected: Sequence[Type] | None, body: Body
    ) -> None:
        self.node, self.types = node, list(types)
        self.function = Var(node.scope.values.names("loop"), span=node.span)
        outer = replace(node, scope=Scope(node.scope.values))
        self.index, self.more = self._param("round", TensorType((), "int64")), self._param("more", TensorType((), "bool"))
        self.states = [self._param("state", t) for t in types]
        inner = replace(node, scope=Scope(node.scope.values))
        made = body(inner, self.index, self.more, self.states)
        made_states, rows = ([inner.bind(e) for e in values] for values in (made.states, made.collected))
        after = [type_of(s) for s in made_states]
        self.rows = [node.type(r) for r in rows]
        self.wanted = [_merged(node, b, a, f"state {k}") for k, (b, a) in enumerate(zip(types, after, strict=True))]
        self.collected = [_merged(node, c, _row(node, r), "a collected value") for c, r in
                          zip(collected or [_row(node, r) for r in rows], rows, strict=True)]  # fmt: skip
        self.settled = self.wanted == self.types and self.collected == list(collected or [])
        if self.settled:
            self._finish(outer, inner, trips, made, made_states, rows)

    def _param(self, hint: str, ty: Type) -> Var:
        return Var(self.node.scope.values.names(hint), ty, span=self.node.span, ty=declare(ty, {}, None, fresh))

    def _finish(
        self, outer: Node, inner: Node, trips: Expr | None, made: Round, states: Sequence[Expr], rows: Sequence[Expr]
    ) -> None:
        """The function of the loop."""
        stacks = [self._param("collected", t) for t in self.collected]
        self.result = TupleType((*self.wanted, *self.collected))
        params = (self.index, self.more, *self.states, *stacks)
        self.type = FuncType(tuple(p.annotation or type_of(p) for p in params), self.result)
        following = [inner.bind(self._appended(inner, s, r)) for s, r in zip(stacks, rows, strict=True)]
        again = inner.bind(relay.add(self.index, const(1, "int64")))
        more = inner.bind(const(True) if made.more is None else relay.reshape(made.more, []))
        result = declare(self.result, {}, None, fresh)
        call = Call(self.function, (again, more, *states, *following), span=self.node.span, ty=result)
        next_round = inner.scope.chain(inner.scope.add(call, "next"))
        last = Scope(self.node.scope.values)
        end = last.chain(last.bind(Tuple((*self.states, *stacks)), self.node.span))
        wanted: Expr = self.more
        if trips is not None:
            wanted = relay.logical_and(self.more, relay.less(self.index, trips))
        body = outer.scope.chain(outer.conditional(wanted, next_round, end))
        self.value = Function(params, body, self.result, span=self.node.span, ty=self.type)

    def _appended(self, node: Node, stack: Expr, row: Expr) -> Expr:
        """The stack with one more row."""
        row = node.bind(relay.expand_dims(row, 0))
        if all(known_size(d) is not None for d in node.shape(stack)[1:]):
            return node.bind(relay.concatenate([stack, row], 0))
        # the sizes of an empty stack are not those of its rows
        is_first = relay.equal(self.index, const(0, "int64"))
        return node.choose(is_first, lambda _: row, lambda inner: relay.concatenate([stack, row], 0))

    def _empty_stacks(self, states: Sequence[Expr]) -> list[Expr]:
        """Stacks without rows, with the sizes of the row of a first round: sums and products of sizes around; any other is 0."""
        node, sizes = self.node, dict[Dim, Expr]()
        captured = [(v, v.ty) for v in free_vars(self.value)]
        of_states = [(initial, type_of(s)) for initial, s in zip(states, self.states, strict=True)]
        for value, ty in (*captured, *of_states):
            for axis, d in enumerate(ty.shape if isinstance(ty, TensorType) else ()):
                if known_size(d) is None and d not in sizes:
                    sizes[d] = relay.take(relay.shape_of(value, dtype="int64"), const(axis, "int64"), axis=0)
        return [_empty(node, row, sizes) for row in self.rows]

    def call(self, more: Expr, states: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
        """The values after the loop that begins with these states."""
        node = self.node
        node.scope.bindings.append((self.function, self.value))
        empty = [node.bind(stack) for stack in self._empty_stacks(states)]
        args = (node.bind(const(0, "int64")), node.bind(more), *states, *empty)
        result = declare(self.result, {}, None, fresh)
        whole = node.scope.add(Call(self.function, args, span=node.span, ty=result), "after")
        values = [node.bind(TupleGetItem(whole, k)) for k in range(len(self.result.fields))]
        return values[: len(states)], values[len(states) :]


def _row(node: Node, value: Expr) -> Type:
    """The type of the stack of a collected value: any number of rows."""
    ty = node.type(value)
    return _open(TensorType((ANY, *ty.shape), ty.dtype))


def _empty(node: Node, row: TensorType, sizes: Mapping[Dim, Expr]) -> Expr:
    """A stack without rows of this type; ``sizes``: the values of sizes that are not known."""
    lead = [_size(d, sizes) for d in (dim(0), *row.shape)]
    known = [known_size(d) if value is None else None for d, value in zip((dim(0), *row.shape), lead, strict=True)]
    if lead.count(None) == len(lead):
        empty: Expr = relay.zeros([n or 0 for n in known], row.dtype)
        return empty
    parts = [const(n or 0, "int64") if value is None else value for n, value in zip(known, lead, strict=True)]
    zero = const(np.zeros((), numpy_dtype(row.dtype)))
    stacked: Expr = relay.full(zero, node.bind(relay.stack(parts, 0)), row.dtype)
    return stacked


def _size(d: Dim, sizes: Mapping[Dim, Expr]) -> Expr | None:
    """The value of a size from the values of others; None for a number, and for a size that does not follow."""
    if d in sizes or d.op != POLY:
        return sizes.get(d)
    total: Expr = const(0, "int64")
    for coefficient, atoms in d.args:
        factors = [sizes.get(a) for a in atoms]
        if None in factors:
            return None
        total = relay.add(total, reduce(relay.multiply, factors, const(coefficient, "int64")))
    return total
