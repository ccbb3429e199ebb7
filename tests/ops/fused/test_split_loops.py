"""Split loops: a concatenation has a loop for each part, along the last axis one after another, and numpy's elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.ops.codegen import kernel_source
from relayvm.ops.codegen.cpu.split_loops import MAX_GUARDED, MAX_SEGMENTS
from relayvm.ops.core.group import Node
from relayvm.ops.core.op import NoAttrs
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.defs.axes.reduce import ReduceAttrs
from relayvm.ops.defs.movement.transform import AxisAttrs, TransposeAttrs
from relayvm.shape_funcs.symbolic.dim import dim, sym

from .run_group import call, compiled, evaluate, group_of, of_small_results, one_call, plain


def parts(*widths, rows=3):
    return tuple(np.random.default_rng(w).standard_normal((rows, w)).astype("float32") for w in widths)


@pytest.mark.split(2)
@pytest.mark.parametrize("run", [plain, compiled])
@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize(
    "widths", [(3, 5), (4,), (0, 3, 0), (1, 1, 1, 40), (0, 0), tuple(range(MAX_SEGMENTS)), tuple(range(MAX_SEGMENTS + 3))]
)
@pytest.mark.extensive(static=[False])
def test_every_number_of_parts(widths, static, run):
    xs = parts(*widths)
    ours = call("concatenate", [xs], AxisAttrs(-1), static, run)
    np.testing.assert_array_equal(ours, np.concatenate(xs, -1), strict=True)


def test_no_element_is_chosen():
    for static in (True, False):
        text = kernel_source(one_call("concatenate", [parts(3, 5, 7)], AxisAttrs(1), static)).text
        assert " else " not in text and text.count("for i1 in range(") == 3 and text.count("move_run(") == (0 if static else 3)


@pytest.mark.split(2)
@pytest.mark.parametrize("run", [plain, compiled])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("widths", [(3, 5), (0, 3, 0), (1, 0, 0, 2), (0, 0), (1,) * (MAX_GUARDED + 1)])
def test_parts_along_an_outer_axis(widths, axis, run):
    xs = tuple(np.random.default_rng(w).standard_normal((2, 2, 3)).astype("float32").repeat(w, axis) for w in widths)
    for static in (True, False):
        ours = call("concatenate", [xs], AxisAttrs(axis), static, run)
        np.testing.assert_array_equal(ours, np.concatenate(xs, axis), strict=True)
    text = of_small_results(kernel_source(one_call("concatenate", [xs], AxisAttrs(axis))).text)
    runs = len(widths) if len(widths) <= MAX_GUARDED else 0
    assert text.count("move_run(") == runs and text.count("for i2 in range(") == max(runs, 1)


def test_many_parts_are_chosen_element_by_element():
    text = kernel_source(one_call("concatenate", [parts(*[2] * (MAX_SEGMENTS + 1))], AxisAttrs(1), True)).text
    assert text.count("for i1 in range(") == 1


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 3), st.booleans())
def test_within_an_expression(widths, rows, unknown):
    xs = parts(*widths, rows=rows)
    y = np.float32(2) * np.ones((rows, sum(widths)), "float32")
    tensors = [Tensor("float32", (dim(rows), sym(f"d{k}") if unknown else dim(w))) for k, w in enumerate([*widths, sum(widths)])]
    n = len(xs)
    nodes = [
        Node("concatenate", AxisAttrs(1), (tuple(range(n)),), ()),
        Node("multiply", NoAttrs(), (n + 1, n), ()),
        Node("concatenate", AxisAttrs(1), ((n + 2, n + 1),), ()),
    ]
    whole = np.concatenate(xs, 1)
    status, (ours,) = evaluate(group_of(tensors, nodes), [*xs, y])
    assert status == 0
    np.testing.assert_array_equal(ours, np.concatenate([whole * y, whole], 1), strict=True)


@pytest.mark.parametrize("run", [plain, compiled])
@pytest.mark.parametrize("name", ["sum", "max", "prod", "mean"])
def test_reduced_along_no_axis(name, run):
    xs = parts(3, 5)
    tensors = [Tensor("float32", (dim(3), sym(f"d{k}"))) for k in range(2)]
    nodes = [Node("concatenate", AxisAttrs(1), ((0, 1),), ()), Node(name, ReduceAttrs(axis=(0, 1), exclude=True), (2,), ())]
    status, (ours,) = evaluate(group_of(tensors, nodes), list(xs), run)
    assert status == 0
    np.testing.assert_array_equal(ours, np.concatenate(xs, 1), strict=True)


@pytest.mark.parametrize("sizes", [("a", "b"), (4, 5), ("a", 5)])
def test_axes_behind_the_concatenated_one_are_a_single_run(sizes):
    # rows of 5 elements one by one take three times as long
    shape = tuple(dim(s) if isinstance(s, int) else sym(s) for s in sizes)
    tensors = [Tensor("float32", (sym("n"), dim(channels), *shape)) for channels in (2, 3)]
    group = group_of(tensors, [Node("concatenate", AxisAttrs(1), ((0, 1),), ())])
    text = of_small_results(kernel_source(group).text)
    assert "for i3 in" not in text and text.count("for i2 in range(") == 2
    xs = [np.random.default_rng(c).standard_normal((2, c, 4, 5)).astype("float32") for c in (2, 3)]
    status, (ours,) = evaluate(group, xs)
    assert status == 0
    np.testing.assert_array_equal(ours, np.concatenate(xs, 1), strict=True)


def test_axes_of_an_operand_in_another_order_are_loops():
    shapes = (sym("n"), dim(2), sym("a"), sym("b")), (sym("n"), dim(3), sym("b"), sym("a"))
    tensors = [Tensor("float32", shape) for shape in shapes]
    nodes = [
        Node("transpose", TransposeAttrs((0, 1, 3, 2)), (1,), ()),
        Node("concatenate", AxisAttrs(1), ((0, 2),), ()),
    ]
    xs = [np.random.default_rng(0).standard_normal(s).astype("float32") for s in ((2, 2, 4, 5), (2, 3, 5, 4))]
    status, (ours,) = evaluate(group_of(tensors, nodes), xs)
    assert status == 0
    np.testing.assert_array_equal(ours, np.concatenate([xs[0], xs[1].swapaxes(2, 3)], 1), strict=True)
