"""Scattering of few updates on the emulated GPU against numpy: duplicates, indices out of range, sizes around the bound."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.ops.codegen.cuda import opaque_cuda
from relayvm.ops.core.group import Node
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import DTYPES, HALVES, Tensor, is_float, numpy_dtype
from relayvm.ops.core.type_relation import build_group
from relayvm.ops.kernels.scatter.few_cuda import FEW
from relayvm.ops.native.status import INDEX_OUT_OF_RANGE, OK
from relayvm.shape_funcs.symbolic.dim import dim, sym

from ...emulator import emulator
from ...emulator.session import Session
from .on_gpu import _Steps, run, source_of

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

MODES = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def scattered(data: np.ndarray, indices: np.ndarray, updates: np.ndarray, mode: str) -> np.ndarray:
    """The result of one loop over the updates; sums of halves are float32."""
    out = data.astype(np.float32) if data.dtype.name in HALVES else data.copy()
    for k in range(indices.shape[1]):
        at = tuple(indices[:, k])
        out[at] = updates[k] if mode == "update" else MODES[mode](out[at], updates[k].astype(out.dtype))
    return out.astype(data.dtype)


#: Elements in front of data, updates and result: an address is then no multiple of 16.
Away = tuple[int, int, int]
ALIGNED: Away = (0, 0, 0)


class _Counted(Session):
    """A session that counts launches, on an emulated GPU and on a real GPU."""

    launches = 0

    def launch(self, *args: Any, **kwargs: Any) -> None:
        self.launches += 1
        super().launch(*args, **kwargs)


def on_gpu(
    data: np.ndarray, indices: np.ndarray, updates: np.ndarray, mode: str, is_over: bool, away: Away = ALIGNED
) -> tuple[int, Any, int]:
    """Status, result, and number of kernels of ``scatter_nd`` over unknown sizes; ``is_over``: written over the data."""
    kinds = (data, indices, updates)
    shapes = [a.shape for a in kinds]
    dims = [tuple(sym(f"d{k}_{i}") for i in range(len(s))) for k, s in enumerate(shapes)]
    dims[1] = (dim(len(indices)), *dims[1][1:])
    params = tuple(Tensor(a.dtype.name, d) for a, d in zip(kinds, dims, strict=True))
    group = build_group(params, (), (Node("scatter_nd", get("scatter_nd").attrs(mode), (0, 1, 2), ()),), [3])
    with _Counted() as gpu:

        def put(a: np.ndarray, before: int) -> int:
            return gpu.put(np.concatenate([np.zeros(before, a.dtype), a.reshape(-1)])) + before * a.itemsize

        first, others = put(data, away[0]), [gpu.put(indices), put(updates, away[1])]
        out = first if is_over else put(np.zeros_like(data), away[2])
        steps = _Steps(gpu, opaque_cuda.source(group), [first, *others, out], [*dims, dims[0]], [*shapes, shapes[0]])
        status = steps.run(is_checked=True)
        return status, gpu.get(out, data.shape, data.dtype), gpu.launches


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    numbers = rng.standard_normal(shape) * 4 if is_float(dtype) else rng.integers(0, 100, shape)
    return numbers.astype(numpy_dtype(dtype))


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """Rows, number of updates, and the shape of an update."""
    rows, count = draw(st.integers(0, 5)), draw(st.sampled_from([0, 1, 2, FEW - 1, FEW, FEW + 1]))
    return rows, count if rows else 0, draw(st.integers(0, 3)), draw(st.sampled_from([0, 1, 5, 16, 48]))


CASES = [*(("update", dtype) for dtype in DTYPES), *((mode, "float32") for mode in MODES), ("add", "bfloat16"), ("add", "int8")]


@pytest.mark.thinned(3)
@pytest.mark.split(2)
@pytest.mark.extensive(dtype=("float32", "uint8", "bfloat16"))
@pytest.mark.parametrize("mode, dtype", CASES)
@settings(max_examples=25)
@given(sizes=sizes(), seed=st.integers(0, 9), is_over=st.booleans(), away=st.tuples(*[st.integers(0, 1)] * 3))
def test_updates_are_applied_in_order(
    mode: str, dtype: str, sizes: tuple[int, int, int, int], seed: int, is_over: bool, away: Away
) -> None:
    rows, count, *inner = sizes
    rng = np.random.default_rng(seed)
    data, updates = numbers(rng, (rows, *inner), dtype), numbers(rng, (count, *inner), dtype)
    indices = rng.integers(-rows, max(rows, 1), (1, count))
    status, result, kernels = on_gpu(data, indices, updates, mode, is_over, away)
    assert status == OK
    assert kernels == 1 or count > FEW or (count == 0 and data.size == 0)
    np.testing.assert_array_equal(result, scattered(data, indices, updates, mode))


@pytest.mark.parametrize("count", [1, FEW - 1, FEW, FEW + 1])
def test_an_index_out_of_range_is_refused(count: int) -> None:
    """Few updates write nothing then, even over the data; updates without elements are refused, too."""
    data, updates = np.ones((3, 8), np.float32), np.zeros((count, 8), np.float32)
    for bad in (3, -4, 2**40):
        indices = np.zeros((1, count), np.int64)
        indices[0, count - 1] = bad
        status, result, _ = on_gpu(data, indices, updates, "update", True)
        assert status == INDEX_OUT_OF_RANGE
        if count <= FEW:
            np.testing.assert_array_equal(result, data)
        assert on_gpu(data[:, :0], indices, updates[:, :0], "update", False)[0] == INDEX_OUT_OF_RANGE
    assert on_gpu(data[:0], np.zeros((1, count), np.int64), updates, "update", False)[0] == INDEX_OUT_OF_RANGE


@pytest.mark.thinned(2)
@pytest.mark.extensive
@pytest.mark.spread("is_over")
@pytest.mark.parametrize("is_over", [False, True])
@pytest.mark.parametrize("mode", ["update", "add"])
def test_threads_with_several_units(mode: str, is_over: bool) -> None:
    """More units than threads of the largest grid: a thread copies and writes several, and the first of an update is any."""
    rng = np.random.default_rng(1)
    width = 90_001
    for inner in (width, width - 1):
        data, updates = (rng.integers(0, 250, (n, inner, 1)).astype(np.uint8) for n in (70, 3))
        for indices in (np.array([[1, -1, 1]]), np.array([[68, 67, 68]])):
            status, result, kernels = on_gpu(data, indices, updates, mode, is_over)
            assert (status, kernels) == (OK, 1)
            np.testing.assert_array_equal(result, scattered(data, indices, updates, mode))


@pytest.mark.parametrize("away", list(itertools.product((0, 1), repeat=3)))
@pytest.mark.parametrize("is_over", [False, True])
def test_packs_are_aligned(away: Away, is_over: bool) -> None:
    data, updates, indices = np.arange(96, dtype=np.float32).reshape(6, 16), -np.ones((2, 16), np.float32), np.array([[4, 1]])
    status, result, kernels = on_gpu(data, indices, updates, "update", is_over, away)
    assert (status, kernels) == (OK, 1)
    np.testing.assert_array_equal(result, scattered(data, indices, updates, "update"))


def test_tuples_of_several_coordinates() -> None:
    rng = np.random.default_rng(2)
    data, updates = rng.standard_normal((3, 4, 8)).astype(np.float32), rng.standard_normal((30, 8)).astype(np.float32)
    indices = np.stack([rng.integers(-3, 3, 30), rng.integers(-4, 4, 30)])
    for mode in ("update", "max"):
        np.testing.assert_array_equal(on_gpu(data, indices, updates, mode, False)[1], scattered(data, indices, updates, mode))


def test_only_the_needed_kernels_are_compiled() -> None:
    def kernels(count: int) -> set[str]:
        given = [np.zeros((4, 8), np.float32), np.zeros((1, count), np.int64), np.zeros((count, 8), np.float32)]
        return {step.entry for step in source_of("scatter_nd", given, static=True).steps}

    assert kernels(FEW) == {"few"}
    assert "few" not in kernels(FEW + 1)


@pytest.mark.parametrize("reduction", ["update", "add", "mean"])
def test_elements_around_the_bound(reduction: str) -> None:
    rng = np.random.default_rng(3)
    data = rng.standard_normal(7)
    for count in (FEW - 1, FEW, FEW + 1):
        indices, updates = rng.integers(-7, 7, count), rng.standard_normal(count)
        wanted = data.copy()
        for at, update in zip(indices, updates, strict=True):
            wanted[at] = update if reduction == "update" else wanted[at] + update
        if reduction == "mean":
            wanted /= 1 + np.bincount(indices % 7, minlength=7)
        np.testing.assert_array_equal(run("scatter_elements", [data, indices, updates], reduction=reduction).outputs[0], wanted)
