"""Every operator's shape function against numpy's result shapes: 60 drawn calls each.

Each call is evaluated three times: with every size and value known, with every size and value unknown through the program that
the machine runs, and with one name for equal sizes.  ``test_every_op`` holds the kernels against the same recipes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from relayvm.ops.core.op import Op, TypeRelError
from relayvm.ops.core.type_relation import shape_program
from relayvm.shape_funcs.symbolic.dim import RESULT, Dim, const, dim, postorder, sym
from relayvm.shape_funcs.symbolic.registry import ShapeError

from ..tiers import drawing
from .every_op import all_recipes  # noqa: F401  (declares)
from .every_op.drawing import Draw
from .every_op.recipe import Call, dtypes_of, flags_of, group_of, known_shapes, operators, recipe_of

pytestmark = pytest.mark.many

EXAMPLES = 60


def dims_of(op: Op, made: Call, shared: bool) -> list[tuple[Dim, ...]]:
    """Names for the sizes; those that the operator must know stay."""

    def name(k: int, axis: int, size: int, flag: bool) -> Dim:
        if flag or (k, axis) in made.fixed:
            return dim(size)
        return sym(f"s{size}" if shared else f"d{k}_{axis}")

    flags = flags_of(op, made)
    return [
        tuple(name(k, axis, n, flag) for axis, n in enumerate(x.shape))
        for k, (x, flag) in enumerate(zip(made.flat, flags, strict=True))
    ]


def agree(shapes: Sequence[Sequence[Any]], made: Call, trimmed: set[int]) -> None:
    """Sizes are numpy's; the first axis of a result in ``trimmed`` is at most the declared bound."""
    wanted = [w.shape for w in made.wanted]  # type: ignore[union-attr]
    assert [len(s) for s in shapes] == [len(w) for w in wanted]
    for k, (shape, numpys) in enumerate(zip(shapes, wanted, strict=True)):
        for axis, (ours, theirs) in enumerate(zip(shape, numpys, strict=True)):
            assert ours >= theirs if k in trimmed and axis == 0 else ours == theirs, (shapes, wanted)


def bound(d: Dim) -> int:
    """A known size, or the most that the kernel may report."""
    known = const(d.args[0] if d.op == RESULT else d)
    assert known is not None, d
    return known


def check(op: Op, made: Call) -> None:
    try:
        known = known_shapes(op, made)
        programs = [shape_program(group_of(op, made, dims_of(op, made, shared))) for shared in (False, True)]
        ran = [p.program.run(list(made.flat)) for p in programs]
    except (TypeRelError, ShapeError) as error:
        assert isinstance(made.wanted, str) and made.wanted in error.message, f"refused: {error.message}"
        return
    if isinstance(made.wanted, str):
        return  # the shapes fit; the kernel refuses a value
    trimmed = {k for k, s in enumerate(known) if any(d.op == RESULT for d in postorder(s))}
    agree([[bound(d) for d in s] for s in known], made, trimmed)
    for shapes in ran:
        agree(shapes, made, trimmed)


@pytest.mark.drawn
@pytest.mark.parametrize("op", operators(), ids=lambda op: op.name)
def test_shapes(op: Op) -> None:
    own, (dtype, *_) = recipe_of(op.name), dtypes_of(op.name)

    @drawing(EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(st.binary(min_size=48, max_size=48))
    def example(choices: bytes) -> None:
        made = own.make(Draw(dtype, None, choices), op.name)
        try:
            check(op, made)
        except Exception as error:
            error.add_note(f"{op.name}: {[(x.shape, x.dtype.name) for x in made.flat]} {made.attrs}")
            raise

    example()
