"""Trims of upper bounds that may move rows: trims whose result lives on, alone in the bound's storage."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from relayvm.compiler.ir.anf import operands
from relayvm.compiler.ir.expr import Call, Expr, Function, If, Let, Var
from relayvm.compiler.lowering.pipeline import lowering
from relayvm.compiler.memory.liveness import EXTERNAL, Liveness, Storage
from relayvm.compiler.memory.shrink_bounds import shrinkable_trims
from relayvm.compiler.settings.config import Config
from relayvm.compiler.text.parser import parse
from relayvm.ops.defs.machine import machine_ops

from ...programs import HEADER

FOUND = "let %r = argwhere(greater(%x, 0f));"


def main(body: str, functions: str = "", after: str = "plan_memory", **config: str) -> Function:
    """``@main`` of this body over two vectors, after a pass."""
    text = f"{HEADER}{functions}\ndef @main(%x: Tensor[(?n), float32], %y: Tensor[(?m), float32]) {{ {body} }}"
    mod = dict(lowering(parse(text), Config.of(fuse="off", **config), "cpu"))[after]
    assert parse(mod.astext()).astext() == mod.astext()
    return mod["main"]


def trims(function: Function) -> list[Call]:
    """The trims of a function, in order."""
    found, pending = [], [function.body]
    while pending:
        chain = pending.pop()
        while isinstance(chain, Let):
            if isinstance(chain.value, Call) and chain.value.op is machine_ops.TRIM:
                found.append(chain.value)
            if isinstance(chain.value, If):
                pending += [chain.value.false_branch, chain.value.true_branch]
            chain = chain.body
    return found


COUNT = "def @count(%i: Tensor[(?, 1), int32], Inline=0) -> int32 { sum(%i) }"


@pytest.mark.parametrize(
    ("body", "lives_on"),
    [
        (f"{FOUND} %r", True),
        (f"{FOUND} (%y, (%r,))", True),
        (f"{FOUND} squeeze(%r, axis=[1])", True),
        (f"{FOUND} let %s = squeeze(%r, axis=[1]); take(%x, %s, axis=0)", True),
        (f"{FOUND} let %z = reverse(%y, axis=0); (sum(%r), %z)", True),
        (f"{FOUND} let %s = sum(%r); let %w = reverse(%y, axis=0); (%s, %w)", False),
        (f"{FOUND} let %z = sum(%y); let %s = sum(%r); (%s, %z)", False),
        (f"{FOUND} let %z = sum(reverse(%y, axis=0)); let %s = sum(%r); (%s, %z)", True),
        (f"{FOUND} sum(%r)", False),
        (f"{FOUND} @count(%r)", True),
        (f"{FOUND} let %c = @count(argwhere(%y)); let %s = sum(%r); (%c, %s)", True),
        (f"let %i = if (less(sum(%y), 1f)) {{ {FOUND} %r }} else {{ argwhere(%y) }}; %i", True),
    ],
)
def test_rows_move_where_they_live_on(body: str, lives_on: bool) -> None:
    assert trims(main(body, COUNT))[0].attrs.release == lives_on


def test_without_a_plan_nothing_moves() -> None:
    function = main(f"{FOUND} %r", after="manifest_lifetimes", plan="off")
    assert [t.attrs.release for t in trims(function)] == [False]


def liveness_of(body: str) -> tuple[Liveness, Call]:
    """The liveness of ``@main`` before planning, and its trim."""

    def read(call: Call) -> Sequence[Expr]:
        return () if call.op in (machine_ops.SHAPE_OF, machine_ops.SHAPE_FUNC) else operands(call)

    function = main(body, after="manifest_alloc")
    (trim,) = trims(function)
    return Liveness(function, read), trim


def bound_and_others(liveness: Liveness, trim: Call) -> tuple[Storage, list[Storage]]:
    (bound,) = liveness.storages_of(trim.args[0])
    return liveness.storages[bound], [s for s in liveness.storages.values() if s.var is not bound]


def test_a_result_may_lie_in_the_bound_or_elsewhere() -> None:
    liveness, trim = liveness_of(f"let %z = reverse(%y, axis=0); {FOUND} (%r, %z)")
    (bound,) = liveness.storages_of(trim.args[0])
    assert bound is not EXTERNAL
    results = [v for v in liveness.bound if liveness.storages_of(v) == {bound, EXTERNAL}]
    assert [v.name for v in results] == ["r"]


@pytest.mark.parametrize("which", range(4))
def test_rows_stay_where_something_else_in_the_storage_is_used_later(which: int) -> None:
    liveness, trim = liveness_of(f"let %z = reverse(%y, axis=0); {FOUND} let %w = reverse(%x, axis=0); (%r, %z, %w)")
    apart: dict[Var, Var] = {s: s for s in liveness.storages}
    assert shrinkable_trims(liveness, apart) == [trim]
    bound, others = bound_and_others(liveness, trim)
    at = next(number for number, call in liveness.trims if call is trim)
    other = others[which]
    together = {**apart, other.var: bound.var}
    # the flags and the count are dead, %z is alive and %w is still to come
    assert shrinkable_trims(liveness, together) == ([trim] if other.last < at else [])
    assert {s.last < at for s in others} == {True, False}
