"""Fused groups: random programs of a few operators against numpy, both as generated; and properties of the source."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.codegen import fits, kernel_source
from relayvm.ops.codegen.loop_nest.inlining import TooComplex
from relayvm.ops.core.group import Group, Literal, Node
from relayvm.ops.core.op import NoAttrs, get
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.defs.arithmetic.creation import ArangeAttrs
from relayvm.ops.defs.arithmetic.elementwise import CastAttrs
from relayvm.ops.defs.axes.reduce import ReduceAttrs
from relayvm.ops.defs.movement.indexing import TakeAttrs
from relayvm.ops.defs.movement.transform import AxisAttrs, DynSliceAttrs, SliceAttrs, SplitAttrs, TransposeAttrs
from relayvm.ops.native import memory
from relayvm.ops.native.status import DIVISION_BY_ZERO
from relayvm.shape_funcs.symbolic.dim import dim, sym

from .run_group import compiled, evaluate, group_of, of_small_results, plain

NONE = NoAttrs()


def node(op, *args, attrs=None):
    return Node(op, attrs or get(op).attrs(), args, ())


def params(*shapes, dtype="float32"):
    return [Tensor(dtype, tuple(sym(d) if isinstance(d, str) else dim(d) for d in s)) for s in shapes]


def check(group, arrays, expected, run=plain):
    status, outputs = evaluate(group, arrays, run)
    assert status == 0
    for ours, theirs in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6, strict=True)


# ---- random programs -------------------------------------------------------------------------------------------------

#: The operators of a program: on values of rank 2, numpy's function and ours.
STEPS = {
    "add": (2, lambda x, y: x + y, NONE),
    "multiply": (2, lambda x, y: x * y, NONE),
    "maximum": (2, np.maximum, NONE),
    "tanh": (1, np.tanh, NONE),
    "transpose": (1, lambda x: x.T, TransposeAttrs()),
    "concatenate": (2, lambda x, y: np.concatenate([x, y], 0), AxisAttrs(0)),
    "strided_slice": (1, lambda x: x[::-1, -2:], SliceAttrs((-1, -2), (-99, 99), (-1, 1))),
    "take": (1, lambda x: x.take([2, 0, 5], 0, mode="clip"), TakeAttrs(0)),
}
FOLDS = {None: None, "sum": np.sum, "max": np.max, "mean": np.mean}


@st.composite
def programs(draw):
    """Steps ``(name, argument positions)`` over three parameters, and how the last value is folded."""
    steps, shapes = [], [draw(st.sampled_from([(3, 4), (1, 4), (3, 1), (0, 4), (1, 1), (3, 3)])) for _ in range(3)]
    values = [np.random.default_rng(k).standard_normal(s).astype("float32") for k, s in enumerate(shapes)]
    arrays = list(values)
    for _ in range(draw(st.integers(1, 9))):
        name = draw(st.sampled_from(sorted(STEPS)))
        arity, function, _ = STEPS[name]
        picked = tuple(draw(st.integers(0, len(values) - 1)) for _ in range(arity))
        try:
            value = function(*(values[p] for p in picked))
        except (ValueError, IndexError):  # shapes that do not fit
            continue
        if value.size <= 600:
            steps.append((name, picked))
            values.append(value)
    fold = draw(st.sampled_from([f for f in FOLDS if f != "max" or values[-1].size]))
    attrs = ReduceAttrs(draw(st.sampled_from([None, (0,), (1,)])), draw(st.booleans()))
    return arrays, steps, values[-1], fold, attrs, draw(st.booleans())


def fused(arrays, steps, fold, attrs, static):
    """The group of a program; without ``static``, equal sizes have equal names as fusion would give them."""
    shapes = [x.shape if static else tuple(f"d{k}{a}" for a in range(2)) for k, x in enumerate(arrays)]
    nodes, indices = [], len(arrays)
    numbers = {k: k for k in range(len(arrays))}
    for position, (name, picked) in enumerate(steps, len(arrays)):
        args = tuple(numbers[p] for p in picked)
        args = (args,) if name == "concatenate" else (*args, indices) if name == "take" else args
        nodes.append(node(name, *args, attrs=STEPS[name][2]))
        numbers[position] = indices + 1 + len(nodes) - 1
    if fold is not None:
        last = nodes[-1] if nodes else None
        nodes.append(node(fold, indices + len(nodes) if last else 0, attrs=attrs))
    return group_of([*params(*shapes), Tensor("int32", (dim(3),))], nodes)


@settings(max_examples=250)
@given(programs())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_fused_programs(program):
    arrays, steps, expected, fold, attrs, static = program
    if not steps:
        return
    if fold is not None:
        with np.errstate(all="ignore"):
            expected = FOLDS[fold](expected.astype("float64"), axis=attrs.axis, keepdims=attrs.keepdims)
    group = fused(arrays, steps, fold, attrs, static)
    indices = np.array([2, 0, 5], "int32")
    status, (ours,) = evaluate(group, [*arrays, indices])
    if status == 0:
        np.testing.assert_allclose(ours, np.asarray(expected, "float32"), rtol=1e-5, atol=1e-5, strict=True)
    else:
        # a row taken from a tensor without rows
        assert status == 1 and any(name == "take" for name, _ in steps) and any(0 in x.shape for x in arrays)


# ---- one program each ----------------------------------------------------------------------------------------------------


def test_one_flat_loop_where_all_operands_have_the_shape_of_the_result():
    group = group_of(params(("n", "m"), ("n", "m"), ()), [node("add", 0, 1), node("multiply", 3, 2), node("exp", 4)])
    text = of_small_results(kernel_source(group).text)
    assert text.count("for ") == 1 and text.count("if ") == 1  # it asks for threads
    x, y = np.ones((2, 3), "float32"), np.full((2, 3), 0.5, "float32")
    check(group, [x, y, np.float32(2)], [np.exp((x + y) * 2)])


def test_sizes_that_are_equal_by_chance_choose_the_flat_loop():
    group = group_of(params(("a", "b"), ("c", "d")), [node("add", 0, 1)])
    text = of_small_results(kernel_source(group).text)
    assert text.count("for ") == 3 and " == " in text
    for shapes in [((2, 3), (2, 3)), ((2, 1), (1, 3)), ((1, 3), (2, 3)), ((0, 3), (1, 1))]:
        x, y = (np.random.default_rng(0).standard_normal(s).astype("float32") for s in shapes)
        check(group, [x, y], [x + y])


def test_a_long_chain_and_a_ladder_of_diamonds():
    chain = [node("tanh", 0)] + [node("add", k, 0) for k in range(1, 200)]
    x = np.array([0.1, -0.2, 0.3], "float32")
    expected = np.tanh(x)
    for _ in range(199):
        expected = expected + x
    status, (ours,) = evaluate(group_of(params(("n",)), chain), [x])
    assert status == 0
    np.testing.assert_allclose(ours, expected, rtol=1e-4)
    ladder = group_of(params(("n",)), [node("add", k, k) for k in range(63)])
    assert len(of_small_results(kernel_source(ladder).text).splitlines()) < 100
    check(ladder, [x], [x * np.float32(2**63)])


def test_what_both_sides_of_a_choice_need_is_written_once():
    nodes = [node("tanh", 0), node("negative", 1), node("exp", 1), node("stack", (2, 3), attrs=AxisAttrs(0))]
    group = group_of(params(("n",)), nodes)
    text = kernel_source(group).text
    assert text.count("tanh") == text.count("for i1 in range(") == 2, "once in the loop of each side"
    x = np.array([0.5, -2], "float32")
    check(group, [x], [np.stack([-np.tanh(x), np.exp(np.tanh(x))])])


@pytest.mark.lengthy
def test_elements_at_too_many_places_are_refused():
    nodes, last = [], 0
    for _ in range(20):
        count = 1 + len(nodes)
        nodes += [
            node("strided_slice", last, attrs=SliceAttrs((-5,), (-1,))),
            node("strided_slice", last, attrs=SliceAttrs((-4,), (9999,))),
            node("multiply", count, count + 1),
        ]
        last = count + 2
    with pytest.raises(TooComplex, match="fuse fewer"):
        kernel_source(group_of(params(("n",)), nodes))
    assert not fits(group_of(params(("n",)), nodes)) and fits(group_of(params(("n",)), nodes[:6]))


def test_a_choice_reads_only_the_side_it_takes():
    group = group_of(params(("n", 2), ("m", 2)), [node("concatenate", (0, 1), attrs=AxisAttrs(0)), node("negative", 2)])
    x, y = np.ones((2, 2), "float32"), np.zeros((3, 2), "float32")
    inputs = [x, y]
    with memory.watch() as announce:
        for a in inputs:
            announce(a.ctypes.data, a.nbytes)
    check(group, inputs, [-np.concatenate(inputs)])


def test_reduction_of_what_is_computed_on_the_way():
    group = group_of(
        params(("n", "m"), ("m",)), [node("subtract", 0, 1), node("multiply", 2, 2), node("mean", 3, attrs=ReduceAttrs(1))]
    )
    x, y = np.random.default_rng(1).standard_normal((3, 5)).astype("float32"), np.arange(5, dtype="float32")
    check(group, [x, y], [((x - y) ** 2).mean(1)])


def test_sizes_from_run_time_values():
    slice_ = node("dyn.strided_slice", 0, 1, 2, 3)
    group = group_of([*params(("n",)), *params((1,), (1,), (1,), dtype="int64")], [slice_, node("sum", 4, attrs=ReduceAttrs())])
    x = np.arange(10, dtype="float32")
    for begin, end, stride in [(2, 9, 3), (-1, 0, -2), (5, 5, 1)]:
        three = [np.array([v]) for v in (begin, end, stride)]
        check(group, [x, *three], [np.asarray(x[begin:end:stride].sum(), "float32")])


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_arange_that_nobody_stores(dtype):
    nodes = [node("arange", 1, 0, 2, attrs=ArangeAttrs(dtype)), node("sum", 3, attrs=ReduceAttrs())]
    group = group_of(
        params((), dtype=dtype),
        nodes,
        [Literal(dtype, 0.0 if dtype == "float32" else 0), Literal(dtype, 2.0 if dtype == "float32" else 2)],
    )
    for stop in (0, 1, 7):
        check(group, [np.array(stop, dtype)], [np.arange(0, stop, 2, dtype).sum(dtype=dtype)])


def test_several_results():
    group = group_of(params((6, "n")), [node("exp", 0), node("split", 1, attrs=SplitAttrs(3))], results=[2, 3, 4])
    x = np.random.default_rng(2).standard_normal((6, 2)).astype("float32")
    check(group, [x], np.split(np.exp(x), 3))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_literals():
    special = [Literal("float32", v) for v in (float("inf"), float("-inf"), float("nan"), -0.0, 0.1)]
    nodes = [node("minimum", 0, 1), node("maximum", 6, 2), node("add", 7, 5), node("divide", 8, 4)]
    group = group_of(params(("n",)), nodes, special)
    x = np.array([1, -1], "float32")
    check(group, [x], [(x + np.float32(0.1)) / np.float32(-0.0)])
    # 0 and -0 are two literals
    zeros = [Literal("float32", 0.0), Literal("float32", -0.0)]
    both = group_of(params(("n",)), [node("divide", 0, 1), node("divide", 0, 2), node("subtract", 3, 4)], zeros)
    check(both, [x], [np.array([np.inf, -np.inf], "float32")])


def test_a_status_inside_a_group():
    nodes = [node("divide", 0, 1), node("cast", 2, attrs=CastAttrs("float32")), node("sum", 3, attrs=ReduceAttrs())]
    group = group_of(params(("n",), ("n",), dtype="int32"), nodes)
    x = np.array([4, 9, 7], "int32")
    assert evaluate(group, [x, np.array([1, 0, 1], "int32")])[0] == DIVISION_BY_ZERO
    check(group, [x, np.array([2, 2, -2], "int32")], [np.float32(3)])


def test_equal_groups_have_equal_text():
    def make():
        return group_of(params(("n", "m"), ("k", "m")), [node("add", 0, 1), node("sum", 2, attrs=ReduceAttrs(1))])

    assert kernel_source(make()) == kernel_source(make())


def test_a_view_has_no_kernel():
    group = Group(tuple(params(("n",))), (), (node("nn.batch_flatten", 0),), (1,))
    with pytest.raises(AssertionError, match="without a kernel"):
        kernel_source(group)


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (33, 65)])
def test_machine_code_of_a_fused_group(shape):
    nodes = [
        node("subtract", 0, 1),
        node("multiply", 4, 4),
        node("concatenate", (5, 2), attrs=AxisAttrs(1)),
        node("take", 6, 3, attrs=TakeAttrs(1)),
        node("sum", 7, attrs=ReduceAttrs(1)),
    ]
    group = group_of([*params(("n", "m"), ("k",), ("n", "j")), Tensor("int32", (sym("i"),))], nodes)
    rng = np.random.default_rng(3)
    n, m = shape
    x, y, z = (rng.standard_normal(s).astype("float32") for s in ((n, m), (m,), (n, 3)))
    at = rng.integers(-2, m + 9, 20).astype("int32")
    expected = np.concatenate([(x - y) ** 2, z], 1).take(at, 1, mode="clip").sum(1, dtype="float64").astype("float32")
    check(group, [x, y, z, at], [expected], compiled)


def test_an_empty_folded_axis_gives_every_element_of_the_result():
    # sum over axis 0 of a slice whose bounds are read at run time: they are hoisted, and nothing may be read ahead
    data = np.zeros((0, 2, 3), np.float32)
    bounds = [np.array(v, np.int64) for v in ([0, 0, 0], [0, 2, 3], [1, 1, 1])]
    group = group_of(
        [Tensor("float32", (sym("d0"), dim(2), dim(3))), *(Tensor("int64", (dim(3),)) for _ in range(3))],
        [Node("dyn.strided_slice", DynSliceAttrs(), (0, 1, 2, 3), ()), Node("sum", ReduceAttrs(axis=(0,)), (4,), ())],
    )
    for run in (plain, compiled):
        status, (total,) = evaluate(group, [data, *bounds], run)
        assert status == 0
        np.testing.assert_array_equal(total, np.zeros((2, 3), np.float32))
