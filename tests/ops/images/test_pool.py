"""Pooling against plain numpy: windows by their definition, in both layouts, at sizes of 0 and 1."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import HALVES, TensorType, numpy_dtype
from relayvm.ops.core.type_relation import relate
from relayvm.ops.native.status import EMPTY_REDUCTION
from relayvm.shape_funcs.defs.convolution.conv import data_layouts, sides

from ..opaque.opaque_kernels import run

DTYPES = ["float32", "float64", "int8", "int64", "uint8", "uint64"]


def least(dtype: Any) -> Any:
    return -math.inf if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).min


def pooled(data: np.ndarray, kind: str, case: dict[str, Any]) -> np.ndarray:
    """Channels before space; every window as a list of positions along each axis."""
    rank = data.ndim - 2
    before, after = sides(case["padding"], rank)
    axes = []
    for k, n in enumerate(data.shape[2:]):
        size, stride, dilation = case["pool_size"][k], case["strides"][k], case["dilation"][k]
        span = n + before[k] + after[k] - (size - 1) * dilation - 1
        count = (math.ceil(span / stride) if case["ceil_mode"] else span // stride) + 1
        axes.append([[i * stride + j * dilation - before[k] for j in range(size)] for i in range(count)])
    out = np.zeros((*data.shape[:2], *map(len, axes)), data.dtype)
    for at in np.ndindex(*out.shape[2:]):
        window = [[p for p in axes[k][i] if 0 <= p < data.shape[2 + k]] for k, i in enumerate(at)]
        taken = [data[(slice(None), slice(None), *p)] for p in itertools.product(*window)]
        if kind == "max":
            value = np.max(taken, axis=0) if taken else least(data.dtype)
        else:
            count = math.prod(case["pool_size"]) if case["count_include_pad"] else max(1, len(taken))
            value = np.sum(taken, axis=0, dtype=np.float64) / count if taken else 0
        out[(slice(None), slice(None), *at)] = value
    return out


def shared(data: np.ndarray, kind: str, sizes: tuple[int, ...]) -> np.ndarray:
    """Adaptive pooling by its definition."""
    out = np.zeros((*data.shape[:2], *sizes), data.dtype)
    for at in np.ndindex(*sizes):
        ends = [(i * n // m, math.ceil((i + 1) * n / m)) for i, n, m in zip(at, data.shape[2:], sizes, strict=True)]
        part = data[(slice(None), slice(None), *(slice(*e) for e in ends))]
        axes = tuple(range(2, data.ndim))
        out[(..., *at)] = part.max(axes) if kind == "max" else part.mean(axes, dtype=np.float64)
    return out


def check(name: str, data: np.ndarray, expected: np.ndarray, last: bool, out_last: bool, jit: bool = False, **attrs: Any) -> None:
    layouts = data_layouts(data.ndim - 2)
    given_data = np.moveaxis(data, 1, -1) if last else data
    (result,), status, _ = run(name, [given_data], jit=jit, layout=layouts[last], out_layout=layouts[out_last], **attrs)
    assert status == 0
    wanted = np.moveaxis(expected, 1, -1) if out_last else expected
    assert result.shape == wanted.shape and result.dtype == wanted.dtype
    np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-6)


def elements(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype.startswith("float"):
        data = rng.standard_normal(shape).astype(dtype)
        data[rng.random(shape) < 0.05] = np.nan
        return data
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, dict[str, Any]]:
    rank = draw(st.sampled_from([1, 2, 2, 3]))

    def per_axis(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(count))

    size, dilation, padding = per_axis(1, 3), per_axis(1, 2), per_axis(0, 3, 2 * rank)
    strides = per_axis(1, 3)
    # the padded data is shorter than the window by no more than a stride
    smallest = [(size[k] - 1) * dilation[k] + 1 - padding[k] - padding[rank + k] - strides[k] for k in range(rank)]
    shape = (*per_axis(0, 2, 2), *(max(0, n + draw(st.integers(0, 5))) for n in smallest))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    attrs = {"pool_size": size, "strides": strides, "dilation": dilation, "padding": padding}
    attrs |= {"ceil_mode": draw(st.booleans()), "count_include_pad": draw(st.booleans())}
    return elements(rng, shape, draw(st.sampled_from(DTYPES))), attrs


@settings(max_examples=120)
@given(cases(), st.booleans(), st.booleans())
def test_windows(case: tuple[np.ndarray, dict[str, Any]], last: bool, out_last: bool) -> None:
    data, attrs = case
    rank = data.ndim - 2
    if data.dtype.kind == "f":
        check(f"nn.avg_pool{rank}d", data, pooled(data, "avg", attrs), last, out_last, **attrs)
    expected = pooled(data, "max", attrs)
    del attrs["count_include_pad"]
    check(f"nn.max_pool{rank}d", data, expected, last, out_last, **attrs)


@settings(max_examples=60)
@given(st.data(), st.sampled_from([1, 2, 3]), st.booleans(), st.booleans())
def test_windows_that_share_the_data(data: st.DataObject, rank: int, last: bool, out_last: bool) -> None:
    shape = tuple(data.draw(st.integers(0, 2)) for _ in range(2)) + tuple(data.draw(st.integers(1, 7)) for _ in range(rank))
    sizes = tuple(data.draw(st.integers(1, 5)) for _ in range(rank))
    x = elements(np.random.default_rng(data.draw(st.integers(0, 10**6))), shape, data.draw(st.sampled_from(DTYPES)))
    for kind in ("max", "avg") if x.dtype.kind == "f" else ("max",):
        check(f"nn.adaptive_{kind}_pool{rank}d", x, shared(x, kind, sizes), last, out_last, output_size=sizes)
        check(f"nn.adaptive_{kind}_pool{rank}d", x, x.copy(), last, out_last)
        if rank == 2:
            check(f"nn.global_{kind}_pool2d", x, shared(x, kind, (1, 1)), last, out_last)


@pytest.mark.parametrize("last", [False, True])
def test_as_machine_code(last: bool) -> None:
    rng = np.random.default_rng(1)
    attrs = {"pool_size": (3, 2), "strides": (2, 3), "dilation": (1, 2), "padding": (1, 0, 2, 3), "ceil_mode": True}
    for shape in [(2, 3, 11, 12), (0, 2, 9, 9), (1, 1, 1, 1)]:
        data = elements(rng, shape, "float32")
        case = {**attrs, "count_include_pad": False}
        check("nn.max_pool2d", data, pooled(data, "max", case), last, last, jit=True, **attrs)
        check("nn.avg_pool2d", data, pooled(data, "avg", case), last, last, jit=True, **case)
        for kind in ("max", "avg"):
            check(f"nn.adaptive_{kind}_pool2d", data, shared(data, kind, (3, 4)), last, last, jit=True, output_size=(3, 4))


@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_any_length_as_machine_code(dtype: str) -> None:
    """Rows longer and shorter than vectors; windows whose rows or columns are all outside the data; strides 1, 2 and 3."""
    rng = np.random.default_rng(3)
    for size, strides, padding, dilation in [
        ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
        ((2, 5), (1, 1), (3, 6, 0, 5), (2, 1)),
        ((3, 2), (1, 3), (1, 0, 2, 4), (1, 3)),
        ((1, 4), (1, 2), (0, 3, 0, 2), (1, 1)),
        ((2, 1), (2, 2), (0, 2, 1, 3), (1, 2)),
    ]:
        attrs = {"pool_size": size, "strides": strides, "padding": padding, "dilation": dilation, "ceil_mode": True}
        for shape in [(1, 2, 1, 1), (2, 3, 2, 70), (1, 2, 33, 7), (1, 1, 3, 300), (1, 2, 70, 17), (2, 2, 0, 9), (1, 2, 5, 0)]:
            data = elements(rng, shape, dtype)
            with np.errstate(invalid="ignore"):
                expected = pooled(data, "max", {**attrs, "count_include_pad": False})
            check("nn.max_pool2d", data, expected, False, False, jit=True, **attrs)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("size", "stride"), [(3, 2), (2, 2), (3, 1), (3, 3), (7, 2)])
def test_of_equal_elements_the_first_stays(dtype: str, size: int, stride: int) -> None:
    """Zeros of both signs are equal: the rows of a column are compared first, then the columns; of NaNs the last one stays."""
    rng, word = np.random.default_rng(5), f"uint{8 * np.dtype(dtype).itemsize}"
    numbers = np.array([0.0, -0.0, -1.0, np.nan, -np.nan, -np.inf, np.inf], dtype)
    given = rng.choice(numbers, (1, 2, 13, 75), p=[0.3, 0.3, 0.3, 0.02, 0.02, 0.03, 0.03])

    def chosen(elements: list[np.ndarray]) -> np.ndarray:
        largest = elements[0]
        for value in elements[1:]:
            largest = np.where((value > largest) | np.isnan(value), value, largest)
        return largest

    counts = [(n + 2 - size) // stride + 1 for n in given.shape[2:]]
    padded = np.pad(given, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    rows, columns = (range(0, n * stride, stride) for n in counts)
    of_rows = np.stack([chosen([padded[:, :, y + t] for t in range(size) if 1 <= y + t <= 13]) for y in rows], 2)
    wanted = np.stack([chosen([of_rows[..., x + t] for t in range(size)]) for x in columns], 3)
    (found,), *_ = run("nn.max_pool2d", [given], jit=True, pool_size=size, strides=stride, padding=1)
    np.testing.assert_array_equal(found.view(word), wanted.view(word))


@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_the_least_integer_as_machine_code(dtype: str) -> None:
    """``ceil_mode`` makes windows behind the data: they have no element."""
    data = elements(np.random.default_rng(2), (1, 1, 2), dtype)
    (result,), _, _ = run("nn.max_pool1d", [data], jit=True, strides=2, ceil_mode=True)
    assert result.tolist() == [[[data[0, 0, 0], np.iinfo(dtype).min]]]


def test_nothing_has_no_largest_element_and_no_mean() -> None:
    empty = np.zeros((2, 3, 0, 4), np.float32)
    assert run("nn.global_max_pool2d", [empty]).status == EMPTY_REDUCTION
    with np.errstate(invalid="ignore"):
        assert np.isnan(run("nn.global_avg_pool2d", [empty]).outputs[0]).all()
    assert run("nn.global_max_pool2d", [empty[:0]]).status == 0


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "attrs", "message"),
    [
        ("nn.max_pool2d", (1, 2, 8), "float32", {}, "the data must have 4 dimensions, not 3"),
        ("nn.max_pool2d", (1, 2, 8, 8), "bool", {}, "data is bool; supported: "),
        ("nn.avg_pool2d", (1, 2, 8, 8), "int64", {}, "data is int64; supported: "),
        ("nn.max_pool2d", (1, 2, 7, 8), "int8", {"pool_size": 9}, "along H the window covers 9 elements, the padded data has 7"),
        ("nn.max_pool2d", (1, 2, 8, 8), "int8", {"pool_size": 0}, "pool_size must be at least 1, not 0"),
        ("nn.max_pool3d", (1, 2, 8, 8, 8), "int8", {"strides": (1, 2)}, "strides must have 1 or 3 numbers, not 2"),
        ("nn.max_pool3d", (1, 2, 8, 8, 8), "int8", {"padding": (1, 2)}, "padding must have 1, 3 or 6 numbers, not 2"),
        ("nn.max_pool1d", (1, 2, 8), "int8", {"layout": "NCHW"}, "layout must be 'NCW' or 'NWC', not 'NCHW'"),
        ("nn.avg_pool1d", (1, 2, 8), "float32", {"out_layout": "CNW"}, "out_layout must be 'NCW' or 'NWC', not 'CNW'"),
        ("nn.adaptive_avg_pool1d", (1, 2, 8), "float32", {"output_size": (1, 2)}, "output_size must have 1 number, not 2"),
        ("nn.adaptive_max_pool2d", (1, 2, 8, 8), "int8", {"output_size": 0}, "output_size must be at least 1, not 0"),
        ("nn.global_avg_pool2d", (1, 2, 8, 8), "float32", {"layout": "HWNC"}, "layout must be 'NCHW' or 'NHWC', not 'HWNC'"),
    ],
)
def test_what_is_refused(name: str, shape: Any, dtype: str, attrs: dict[str, Any], message: str) -> None:
    op = get(name)
    with pytest.raises(TypeRelError) as refused:
        relate(op, [TensorType.of(shape, dtype)], op.attrs(**attrs))
    assert refused.value.message.startswith(f"{name}: {message}")


# ---- dtypes that only store ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "jit"), [("float16", False), ("bfloat16", False), ("bfloat16", True)])
def test_halves_round_once(dtype: str, jit: bool) -> None:
    """Sums of small whole numbers are exact, so the one rounding of the mean is all there is."""
    data = np.random.default_rng(5).integers(-9, 9, (1, 2, 7, 8)).astype(numpy_dtype(dtype))
    attrs = {"pool_size": (3, 2), "strides": (2, 3), "dilation": (1, 2), "padding": (1, 0, 1, 1), "ceil_mode": True}
    wide = data.astype(np.float32)
    for kind in ("max", "avg"):
        case = {**attrs, "count_include_pad": False}
        (result,), status, _ = run(f"nn.{kind}_pool2d", [data], jit=jit, **(case if kind == "avg" else attrs))
        assert status == 0 and np.array_equal(result, pooled(wide, kind, case).astype(data.dtype))
        (result,), status, _ = run(f"nn.adaptive_{kind}_pool2d", [data], jit=jit, output_size=(3, 5))
        assert status == 0 and np.array_equal(result, shared(wide, kind, (3, 5)).astype(data.dtype))


@settings(max_examples=60)
@given(cases(), st.sampled_from(HALVES), st.booleans(), st.booleans())
def test_the_largest_half(case: tuple[np.ndarray, dict[str, Any]], dtype: str, last: bool, out_last: bool) -> None:
    data, attrs = case[0].astype(np.float32), case[1]
    with np.errstate(over="ignore"):
        halves = (data if case[0].dtype.kind == "f" else data % 100).astype(numpy_dtype(dtype))
    expected, rank = pooled(halves.astype(np.float32), "max", attrs), data.ndim - 2
    del attrs["count_include_pad"]
    given_data, layouts = np.moveaxis(halves, 1, -1) if last else halves, data_layouts(rank)
    layout = {"layout": layouts[last], "out_layout": layouts[out_last]}
    (result,), status, _ = run(f"nn.max_pool{rank}d", [given_data], **layout, **attrs)
    assert status == 0 and result.dtype == halves.dtype
    np.testing.assert_array_equal(result.astype(np.float32), np.moveaxis(expected, 1, -1) if out_last else expected)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_largest_half_as_machine_code(dtype: str) -> None:
    attrs = {"pool_size": (3, 2), "strides": (2, 1), "padding": (1, 0, 1, 1)}
    for shape in [(2, 3, 33, 17), (1, 2, 1, 1), (0, 2, 9, 9), (1, 1, 5, 70)]:
        data = elements(np.random.default_rng(7), shape, "float32").astype(numpy_dtype(dtype))
        case = {**attrs, "dilation": (1, 1), "ceil_mode": False, "count_include_pad": False}
        expected = pooled(data.astype(np.float32), "max", case)
        (result,), status, _ = run("nn.max_pool2d", [data], jit=True, **attrs)
        assert status == 0
        np.testing.assert_array_equal(result.astype(np.float32), expected)
