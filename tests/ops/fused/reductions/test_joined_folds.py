"""Folded axes that operands have as runs are one loop: against numpy, for operands with and without such runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.ops.codegen import kernel_source

from .... import tiers
from ..run_group import evaluate
from .row_groups import kernels

#: Second operands: their declared shape, their shape, and whether the kernel has one loop over the folded axes.
OPERANDS = {
    "alike": ("(?n, ?c, ?h, ?w)", lambda n, c, h, w: (n, c, h, w), True),
    "alike, perhaps broadcast": ("(?a, ?b, ?d, ?e)", lambda n, c, h, w: (n, c, h, w), True),
    "broadcast": ("(?a, ?b, ?d, ?e)", lambda n, c, h, w: (1, c, 1, w), True),
    "of a channel": ("(?c, 1, 1)", lambda n, c, h, w: (c, 1, 1), True),
    "of a column": ("(?w,)", lambda n, c, h, w: (w,), False),
    "of a picture": ("(?h, ?w)", lambda n, c, h, w: (h, w), True),
    "turned": ("(?w, ?h)", lambda n, c, h, w: (w, h), False),
}
#: Functions of both operands that fold the last two axes: their text and numpy's function.
FOLDS = {
    "mean(%v, axis=[2, 3])": lambda v: v.mean((2, 3)) if v.size else np.full(v.shape[:2], np.nan, v.dtype),
    "argmax(%v, axis=[2, 3])": lambda v: v.reshape(*v.shape[:2], v.shape[2] * v.shape[3]).argmax(-1),
    "subtract(%v, sum(%v, axis=[2, 3], keepdims=True))": lambda v: v - v.sum((2, 3), keepdims=True),
}


def group_of(operand: str, fold: str):
    declared, _, _ = OPERANDS[operand]
    second = "transpose(%y, axes=[1, 0])" if operand == "turned" else "%y"
    text = f"def @main(%x: Tensor[(?n, ?c, ?h, ?w), float32], %y: Tensor[{declared}, float32]) {{ let %v = add(%x, {second});"
    ((group, names),) = kernels(f"{text} {fold} }}")
    return group, names


@pytest.mark.drawn
@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("operand", OPERANDS)
def test_the_law_of_a_fold(operand, fold):
    group, names = group_of(operand, fold)

    @tiers.drawing(25)
    @given(st.tuples(*[st.integers(0, 3)] * 2, *[st.integers(0 if "sum" in fold else 1, 5)] * 2))
    def check(sizes):
        random = np.random.default_rng(sum(sizes))
        x, y = (random.integers(-9, 9, shape).astype("float32") for shape in (sizes, OPERANDS[operand][1](*sizes)))
        status, (ours,) = evaluate(group, [{"x": x, "y": y}[n] for n in names])
        assert status == 0
        expected = FOLDS[fold](x + (y.T if operand == "turned" else y))
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)
        assert ours.shape == expected.shape

    check()


@pytest.mark.parametrize("operand", OPERANDS)
def test_loops(operand):
    group, _ = group_of(operand, "mean(%v, axis=[2, 3])")
    loops = [line.strip().split()[1] for line in kernel_source(group).text.splitlines() if line.strip().startswith("for ")]
    assert loops[:3] == ["i0", "i1", "i2"] and (loops[3:4] != ["i3"]) is OPERANDS[operand][2]  # of the first nest
