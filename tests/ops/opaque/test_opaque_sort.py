"""sort, argsort, topk, cumsum and searchsorted against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from relayvm.ops.core.tensor_types import int_range, is_float, numpy_dtype

from .opaque_kernels import run

DTYPES = ["float32", "float64", "int8", "int64", "uint8", "uint64", "bool"]


def order(data: np.ndarray, axis: int, is_ascend: bool) -> np.ndarray:
    """The stable order, NaN largest: descending is ascending of the mirrored ranks."""
    _, ranks = np.unique(data, return_inverse=True)
    ranks = ranks.reshape(data.shape)
    return np.argsort(ranks if is_ascend else -ranks, axis=axis, kind="stable")


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, int, bool]:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=20))
    few = {"f": st.sampled_from([0.0, 1.5, -2.0, np.nan, np.inf, -np.inf]), "b": st.booleans()}
    data = draw(arrays.arrays(dtype, shape, elements=few.get(dtype.kind), unique=False))
    return data, draw(st.integers(-len(shape), len(shape) - 1)), draw(st.booleans())


@settings(max_examples=80)
@given(cases())
def test_sort_and_argsort_are_stable_with_nan_largest(case: tuple[np.ndarray, int, bool]) -> None:
    data, axis, is_ascend = case
    expected = order(data, axis, is_ascend)
    positions = run("argsort", [data], axis=axis, is_ascend=is_ascend).outputs[0]
    assert positions.dtype == np.int32
    np.testing.assert_array_equal(positions, expected)
    values = run("sort", [data], axis=axis, is_ascend=is_ascend).outputs[0]
    np.testing.assert_array_equal(values, np.take_along_axis(data, expected, axis))


@settings(max_examples=80)
@given(cases(), st.integers(0, 20), st.sampled_from(["both", "values", "indices"]))
def test_topk_is_the_head_of_the_stable_order(case: tuple[np.ndarray, int, bool], k: int, ret_type: str) -> None:
    data, axis, is_ascend = case
    k = min(k, data.shape[axis])
    kept = k or data.shape[axis]  # less than 1 means all
    indices = np.take(order(data, axis, is_ascend), range(kept), axis)
    both = {"values": np.take_along_axis(data, indices, axis), "indices": indices}
    expected = list(both.values()) if ret_type == "both" else [both[ret_type]]
    attrs = {"axis": axis, "is_ascend": is_ascend, "ret_type": ret_type, "dtype": "int64"}
    for ran in (run("topk", [data], k=k, **attrs), run("dyn.topk", [data, np.array(k, np.int64)], **attrs)):
        assert ran.status == 0
        for result, wanted in zip(ran.outputs, expected, strict=True):
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 17, 33, 1000])
def test_sorting_as_machine_code(n: int) -> None:
    rng = np.random.default_rng(n)
    data = np.round(rng.standard_normal((2, n, 2)), 1).astype(np.float32)
    data[rng.random(data.shape) < 0.1] = np.nan
    for is_ascend in (True, False):
        expected = order(data, 1, is_ascend)
        np.testing.assert_array_equal(run("argsort", [data], axis=1, is_ascend=is_ascend, jit=True).outputs[0], expected)
        values = run("sort", [data], axis=1, is_ascend=is_ascend, jit=True).outputs[0]
        np.testing.assert_array_equal(values, np.take_along_axis(data, expected, 1))
    for k in {0, 1, n // 20, n // 2, n} & set(range(n + 1)):
        values, indices = run("dyn.topk", [data, np.array(k, np.int32)], axis=1, jit=True).outputs
        np.testing.assert_array_equal(indices, order(data, 1, False)[:, : k or n])
        np.testing.assert_array_equal(values, np.take_along_axis(data, indices.astype(np.int64), 1))


def extremes(dtype: str, n: int) -> np.ndarray:
    """Elements of every size and sign, the smallest, the largest, and many that are equal."""
    rng = np.random.default_rng(n)
    kind = numpy_dtype(dtype)
    if is_float(dtype):
        found = (rng.standard_normal(n) * 10.0 ** rng.integers(-3, 3, n)).astype(kind)
        special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0]).astype(kind)
    else:
        low, high = int_range(dtype)
        found = rng.integers(low, high, n, np.uint64 if low == 0 else np.int64, endpoint=True).astype(kind)
        special = np.array([low, high, 0, 1], np.uint64 if low == 0 else np.int64).astype(kind)
    return np.where(rng.random(n) < 0.3, rng.choice(special, n), found)


@pytest.mark.parametrize(
    ("dtype", "jit"),
    [
        ("float32", False),
        *((d, True) for d in sorted({*DTYPES, "float16", "bfloat16", "int16", "uint16", "int32", "uint32"})),
    ],
)
@pytest.mark.extensive(dtype=["float32"], jit=[True])
def test_many_keys_of_every_dtype(dtype: str, jit: bool) -> None:
    data = extremes(dtype, 500)
    exact = data.astype(np.float64) if is_float(dtype) else data
    for is_ascend in (True, False):
        expected = order(exact, 0, is_ascend)
        np.testing.assert_array_equal(run("argsort", [data], is_ascend=is_ascend, jit=jit).outputs[0], expected)
        (values,) = run("sort", [data], is_ascend=is_ascend, jit=jit).outputs
        assert values.tobytes() == data[expected].tobytes(), "the signs of zeros and of NaN are kept"
        for k in (7, 100):
            (found,) = run("topk", [data], k=k, is_ascend=is_ascend, ret_type="indices", jit=jit).outputs
            np.testing.assert_array_equal(found, expected[:k])


def test_every_element_is_better_than_those_before() -> None:
    data = np.arange(5000, dtype=np.float32)
    for column, is_ascend in ((data, False), (data[::-1].copy(), True)):
        values, indices = run("topk", [column], k=9, is_ascend=is_ascend, jit=True).outputs
        np.testing.assert_array_equal(indices, np.arange(4999, 4990, -1))
        np.testing.assert_array_equal(values, column[indices])


@pytest.mark.lengthy
def test_sorted_and_reversed_input_of_odd_length() -> None:
    up = np.arange(1001.0)
    end_in_nan, last_moves = np.append(up, [np.nan, np.nan]), np.append(up, 999.5)
    for data in (up, up[::-1].copy(), np.zeros(1001), end_in_nan, end_in_nan[::-1].copy(), last_moves):
        for is_ascend in (True, False):
            expected = order(data, 0, is_ascend)
            np.testing.assert_array_equal(run("sort", [data], is_ascend=is_ascend).outputs[0], data[expected])
            np.testing.assert_array_equal(run("argsort", [data], is_ascend=is_ascend).outputs[0], expected)
            np.testing.assert_array_equal(run("topk", [data], k=7, is_ascend=is_ascend).outputs[1], expected[:7])


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(
    ("dtype", "out"), [("float32", ""), ("int8", ""), ("int8", "int64"), ("bool", "int32"), ("int32", "float64")]
)
def test_cumsum(dtype: str, out: str, exclusive: bool) -> None:
    rng = np.random.default_rng(0)
    for shape in [(0,), (1,), (9,), (3, 4), (0, 3), (3, 0), (2, 3, 4)]:
        data = rng.integers(0, 5, shape).astype(dtype)
        for axis in (None, *range(-len(shape), len(shape))):
            wide = data.astype(out or dtype)
            expected = np.cumsum(wide, axis, dtype=wide.dtype) - (wide.reshape(-1 if axis is None else shape) if exclusive else 0)
            result = run("cumsum", [data], axis=axis, dtype=out, exclusive=exclusive).outputs[0]
            assert result.dtype == wide.dtype
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(
    ("dtype", "out"), [("float32", ""), ("int8", ""), ("int8", "int64"), ("bool", "int32"), ("float16", ""), ("int32", "float16")]
)
def test_cumprod(dtype: str, out: str, exclusive: bool) -> None:
    rng = np.random.default_rng(0)
    for shape in [(0,), (1,), (5,), (3, 4), (0, 3), (3, 0), (2, 3, 4)]:
        data = rng.integers(1, 3, shape).astype(dtype)
        for axis in (None, *range(-len(shape), len(shape))):
            wide = data.astype(out or dtype)
            exact = np.cumprod(wide.astype("float64"), axis)
            expected = (exact / wide.reshape(exact.shape) if exclusive else exact).astype("int64").astype(wide.dtype)
            with np.errstate(over="ignore"):
                result = run("cumprod", [data], axis=axis, dtype=out, exclusive=exclusive).outputs[0]
            np.testing.assert_array_equal(result, expected, strict=True)


def test_cumprod_as_machine_code_wraps() -> None:
    data = np.array([[100, 3, 3], [1, 2, 3]], np.int8)
    for axis in (0, 1, None):
        result = run("cumprod", [data], axis=axis, jit=True).outputs[0]
        np.testing.assert_array_equal(result, np.cumprod(data, axis, dtype=np.int8), strict=True)


def test_cumsum_as_machine_code_wraps() -> None:
    data = np.array([[100, 100, 100], [1, 2, 3]], np.int8)
    np.testing.assert_array_equal(run("cumsum", [data], axis=1, jit=True).outputs[0], np.cumsum(data, 1, dtype=np.int8))
    assert run("cumsum", [data], jit=True).outputs[0].tolist() == np.cumsum(data, dtype=np.int8).tolist()


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(right: bool, jit: bool) -> None:
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 9):
        for m in (0, 1, 7):
            sequence, values = np.sort(rng.integers(0, 6, (3, n))), rng.integers(-1, 7, (3, m))
            side = "right" if right else "left"
            expected = [np.searchsorted(s, v, side) for s, v in zip(sequence, values, strict=True)]
            result = run("searchsorted", [sequence, values], right=right, jit=jit).outputs[0]
            np.testing.assert_array_equal(result, np.array(expected).reshape(3, m))
            result = run("searchsorted", [sequence[0], values], right=right, jit=jit).outputs[0]
            np.testing.assert_array_equal(result, np.searchsorted(sequence[0], values, side))


def test_searchsorted_puts_nan_last() -> None:
    sequence, values = np.array([1.0, 2.0, np.nan, np.nan]), np.array([np.nan, np.inf])
    for side in ("left", "right"):
        result = run("searchsorted", [sequence, values], right=side == "right").outputs[0]
        np.testing.assert_array_equal(result, np.searchsorted(sequence, values, side))
