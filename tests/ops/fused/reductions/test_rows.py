"""Groups that use the results of their reductions: one kernel each, checked against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.ops.codegen import kernel_source
from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.ops.defs.axes.reduce import ReduceAttrs
from relayvm.ops.native.status import EMPTY_REDUCTION

from ..run_group import compiled, evaluate, group_of, of_small_results, plain
from ..test_loops import node, params
from .row_groups import CASES, kernels, needs_elements


def check(name, shape, run=plain, apart=False, seed=0):
    case = CASES[name]
    arrays = case.arrays(shape, seed)
    group, names = case.group(apart)
    status, (ours,) = evaluate(group, [arrays[n] for n in names], run)
    assert status == 0
    expected = case.numpy(arrays)
    assert ours.shape == expected.shape
    np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=2e-5)


def shape_of(name, n, m):
    return (n, 2, m) if CASES[name].rank == 3 else (n, m)


@pytest.mark.parametrize("name", CASES)
def test_each_is_one_kernel_and_right(name):
    for n, m in [(3, 5), (1, 1), (2, 17), (0, 3)]:
        check(name, shape_of(name, n, m))


def test_sizes_that_are_equal_only_at_run_time():
    check("layer norm of gelu", (3, 5), apart=True)


def test_an_operand_that_is_repeated():
    case = CASES["layer norm of gelu"]
    group, names = case.group(apart=True)
    arrays = case.arrays((3, 4))
    for other in ({"o0": arrays["o0"][:1]}, {"o0": arrays["o0"][:, :1]}, {"v0": arrays["v0"][:1]}):
        given = arrays | other
        status, (ours,) = evaluate(group, [given[n] for n in names])
        assert status == 0
        np.testing.assert_allclose(ours, case.numpy(given), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_rows_without_elements(name):
    group, names = CASES[name].group()
    arrays = CASES[name].arrays(shape_of(name, 2, 0))
    status, (ours,) = evaluate(group, [arrays[n] for n in names])
    if needs_elements(group):
        assert status == EMPTY_REDUCTION
    else:
        assert status == 0 and (ours.size == 0 or (ours == CASES[name].numpy(arrays)).all())


@pytest.mark.optimized
@pytest.mark.split(2)
@pytest.mark.parametrize("name", CASES)
def test_machine_code(name):
    check(name, shape_of(name, 7, 133), compiled, seed=1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_rounded_once_at_the_end(dtype):
    text = (
        f'def @main(%x: Tensor[(?n, ?m), {dtype}]) {{ let %y = cast(%x, dtype="float32");'
        " let %e = exp(subtract(%y, max(%y, axis=[-1], keepdims=True)));"
        f' cast(divide(%e, sum(%e, axis=[-1], keepdims=True)), dtype="{dtype}") }}'
    )
    ((group, _),) = kernels(text)
    x = np.random.default_rng(0).standard_normal((3, 9)).astype(numpy_dtype(dtype))
    status, (ours,) = evaluate(group, [x])
    wide = np.exp(x.astype("float64"))
    expected = (wide / wide.sum(-1, keepdims=True)).astype(numpy_dtype(dtype))
    assert status == 0
    np.testing.assert_allclose(ours.astype("float64"), expected.astype("float64"), rtol=1e-2)
    assert "alloc" in kernel_source(group).text  # what is kept is no half


def test_memory_is_gone_through_once():
    text = of_small_results(kernel_source(CASES["layer norm of gelu"].group()[0]).text)
    assert text.count("gelu_float32(") == 1 and "alloc" not in text


#: Values that two passes need: whether the row of the result holds them, and what they are.
HELD = {
    "add(%x, %y)": (True, lambda x, y: x + y),
    "exp(add(%x, %y))": (True, lambda x, y: np.exp(x + y)),
    "multiply(%x, 2f)": (False, lambda x, y: 2 * x),
    "%x": (False, lambda x, y: x),
}


@pytest.mark.parametrize("value", HELD)
def test_the_row_of_the_result_holds_a_value_of_several_rows(value):
    held, expected = HELD[value]
    text = f"def @main(%x: Tensor[(?n, ?m), float32], %y: Tensor[(?n, ?m), float32]) {{ let %v = {value};" + (
        " subtract(%v, sum(%v, axis=[-1], keepdims=True)) }"
    )
    ((group, names),) = kernels(text)
    lines = of_small_results(kernel_source(group).text).splitlines()
    reads = [sum(line.strip().startswith("v") and f"= {array}[" in line for line in lines) for array in ("x0", "x1")]
    assert reads == ([1, 1] if held else [0, 2])  # of the result and of x
    arrays = {"x": np.float32([[1, 2, 4], [8, 16, 32]]) / 16, "y": np.float32([[3, 1, 0], [2, 5, 7]]) / 16}
    status, (ours,) = evaluate(group, [arrays[n] for n in names])
    v = expected(**arrays)
    assert status == 0
    np.testing.assert_allclose(ours, v - v.sum(-1, keepdims=True), rtol=1e-6)


def test_a_status_frees_what_the_kernel_allocated():
    text = (
        "def @main(%x: Tensor[(?n, ?m), int32], %y: Tensor[(?n, ?m), int32]) {"
        ' let %q = tanh(cast(divide(%x, %y), dtype="float32"));'
        ' cast(divide(%q, sum(%q, axis=[-1], keepdims=True)), dtype="int32") }'
    )
    ((group, names),) = kernels(text)
    assert names == ["x", "y"]
    source = kernel_source(group).text.splitlines()
    returns = [k for k, line in enumerate(source) if line.strip().startswith("return ") and "9" in line]
    assert returns and all(source[k - 1].strip() == "free(rows)" for k in returns)
    x = np.ones((2, 3), "int32")
    assert evaluate(group, [x, 0 * x])[0] == 9 and evaluate(group, [x, x])[0] == 0


@pytest.mark.parametrize(
    ("body", "count"),
    [
        # along another axis than the last, over all elements, over different axes, into another shape
        ("subtract(%x, mean(%x, axis=[0], keepdims=True))", 2),
        ("subtract(%x, mean(%x))", 2),
        # over no axis at all
        ("subtract(%x, mean(%x, axis=[]))", 2),
        ("subtract(subtract(%x, mean(%x, axis=[1], keepdims=True)), mean(%x, axis=[0], keepdims=True))", 2),
        ("transpose(subtract(%x, mean(%x, axis=[1], keepdims=True)))", 2),
        ("add(broadcast_to(sum(%x, axis=[1], keepdims=True), shape=[2, 3, 4]), 1f)", 2),
        # used elsewhere
        ("let %m = mean(%x, axis=[1], keepdims=True); (subtract(%x, %m), %m)", 2),
    ],
)
def test_what_stays_apart(body, count):
    found = kernels(f"def @main(%x: Tensor[(?n, ?m), float32]) {{ {body} }}")
    assert len(found) == count


@settings(max_examples=15)
@given(st.integers(1, 4), st.integers(1, 40), st.integers(0, 5), st.sampled_from(sorted(CASES)))
def test_many_sizes(n, m, seed, name):
    check(name, shape_of(name, n, m), seed=seed)


@pytest.mark.parametrize("run", [plain, compiled])
def test_a_reduction_of_which_only_the_size_is_read(run):
    nodes = [node("max", 0, attrs=ReduceAttrs((1,))), node("broadcast_to_like", 1, 2)]
    group = group_of([*params(("n", "m"), (1,))], nodes)
    status, (result,) = evaluate(group, [np.ones((3, 4), "float32"), np.full(1, 7, "float32")], run)
    assert status == 0 and (result == np.full(3, 7)).all()
