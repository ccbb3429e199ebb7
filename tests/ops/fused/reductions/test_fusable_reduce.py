"""Every reduction against numpy, over every combination of axes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from relayvm.ops.core.op import REGISTRY, OpPattern
from relayvm.ops.defs.axes.reduce import ArgReduceAttrs, ReduceAttrs
from relayvm.ops.native.status import EMPTY_REDUCTION

from ..run_group import call, compiled, evaluate, one_call, plain

pytestmark = pytest.mark.many

SHAPES = [(), (1,), (7,), (2, 3), (3, 1, 4), (2, 2, 3, 2)]
FOLDS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean, "variance": np.var}
LOGIC = {"all": np.all, "any": np.any}
POSITIONS = {"argmax": np.argmax, "argmin": np.argmin}


def every_axis(rank):
    """None, and every set of axes."""
    return [None, *(c for n in range(1, rank + 1) for c in itertools.combinations(range(rank), n))]


def data(shape, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 5, shape) > 0
    return rng.integers(-4, 5, shape).astype(dtype) if dtype != "float32" else rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FOLDS)
def test_folds(name, shape):
    x = data(shape)
    for axis, keepdims in itertools.product(every_axis(x.ndim), [False, True]):
        expected = np.asarray(FOLDS[name](x.astype("float64"), axis=axis, keepdims=keepdims), "float32")
        ours = call(name, [x], ReduceAttrs(axis, keepdims))
        assert ours.shape == expected.shape and ours.dtype == expected.dtype
        np.testing.assert_allclose(ours, expected, rtol=2e-7, atol=0)


@pytest.mark.parametrize("name", LOGIC)
def test_logic(name):
    for shape in [*SHAPES, (0,), (2, 0), (0, 2)]:
        x = data(shape, "bool", 3)
        for axis in every_axis(x.ndim):
            np.testing.assert_array_equal(call(name, [x], ReduceAttrs(axis)), LOGIC[name](x, axis=axis))


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16"])
def test_positions(name, dtype):
    for shape in [(1,), (9,), (3, 4), (2, 3, 2)]:
        x = np.abs(data(shape, dtype)).astype(dtype)
        for axis in range(x.ndim):
            ours = call(name, [x], ArgReduceAttrs(axis))
            np.testing.assert_array_equal(ours, POSITIONS[name](x, axis=axis).astype("int32"), strict=True)
        np.testing.assert_array_equal(call(name, [x], ArgReduceAttrs()), POSITIONS[name](x).astype("int32"), strict=True)
        last = x.size - 1 - POSITIONS[name](x.reshape(-1)[::-1])
        assert call(name, [x], ArgReduceAttrs(select_last_index=True)) == last


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("last", [False, True])
def test_positions_among_equal_elements_and_nan(name, last):
    rng = np.random.default_rng(7)
    for n in [1, 7, 8, 9, 17, 40]:
        for values in ([0, 1], [1, np.nan], [-np.inf, np.nan], [-np.inf], [np.inf], [0, 1, 2, np.inf]):
            x = rng.choice(values, (3, n)).astype("float32")
            flipped = x[:, ::-1] if last else x
            expected = POSITIONS[name](flipped, axis=1)
            expected = n - 1 - expected if last else expected
            np.testing.assert_array_equal(call(name, [x], ArgReduceAttrs(1, select_last_index=last)), expected)
            whole = POSITIONS[name](x.reshape(-1)[::-1] if last else x)
            ours = call(name, [x], ArgReduceAttrs(select_last_index=last))
            assert ours == (x.size - 1 - whole if last else whole)


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("last", [False, True])
def test_positions_in_rows_of_several_blocks(name, last):
    x = np.random.default_rng(8).integers(-50, 50, (40, 600)).astype("float32")
    x[np.arange(20), np.arange(20) * 30] = np.nan  # in one block; the others have none
    expected = POSITIONS[name](x[:, ::-1] if last else x, axis=1)
    expected = x.shape[1] - 1 - expected if last else expected
    np.testing.assert_array_equal(call(name, [x], ArgReduceAttrs(1, select_last_index=last)), expected)


def test_nan_is_the_largest_and_the_smallest():
    x = np.array([1, np.nan, 5, np.nan, -np.inf], "float32")
    for name in POSITIONS:
        assert call(name, [x], ArgReduceAttrs(0)) == 1
        assert call(name, [x], ArgReduceAttrs(0, select_last_index=True)) == 3
    assert np.isnan(call("max", [x], ReduceAttrs())) and np.isnan(call("min", [x], ReduceAttrs()))
    assert call("max", [np.full(3, -np.inf, "float32")], ReduceAttrs()) == -np.inf


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64", "float64"])
def test_dtypes(dtype):
    x = np.abs(data((5, 7), dtype)).astype(dtype) * np.array(30, dtype)
    for name in ("sum", "prod", "max", "min"):
        expected = getattr(np, name)(x, axis=1) if name in ("max", "min") else getattr(np, name)(x, axis=1, dtype=dtype)
        np.testing.assert_array_equal(call(name, [x], ReduceAttrs(1)), expected, strict=True)


def test_exclude_and_negative_axes():
    x = data((2, 3, 4))
    np.testing.assert_allclose(call("sum", [x], ReduceAttrs(1, exclude=True)), x.sum((0, 2)), rtol=1e-5)
    np.testing.assert_allclose(call("sum", [x], ReduceAttrs(-1)), x.sum(-1), rtol=1e-5)
    np.testing.assert_array_equal(call("sum", [x], ReduceAttrs(())), x)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 0)])
def test_empty_axes(shape):
    x = np.zeros(shape, "float32")
    for axis in every_axis(x.ndim):
        np.testing.assert_array_equal(call("sum", [x], ReduceAttrs(axis)), x.sum(axis))
        np.testing.assert_array_equal(call("prod", [x], ReduceAttrs(axis)), x.prod(axis))
        with np.errstate(all="ignore"):
            assert np.isnan(call("mean", [x], ReduceAttrs(axis))).all()
            assert np.isnan(call("variance", [x], ReduceAttrs(axis))).all()
        for name, attrs in [("max", ReduceAttrs(axis)), ("min", ReduceAttrs(axis)), ("argmax", ArgReduceAttrs(axis))]:
            status, (out,) = evaluate(one_call(name, [x], attrs), [x])
            folded = [shape[a] for a in (range(x.ndim) if axis is None else axis)]
            assert status == (EMPTY_REDUCTION if out.size and 0 in folded else 0)


def test_sums_of_float32_accumulate_in_float64():
    x = np.full(4097, 0.1, "float32")
    x[0] = 1e8
    assert call("sum", [x], ReduceAttrs()) == np.float32(x.astype("float64").sum())


def test_every_reduction_is_tested():
    declared = {n for n, op in REGISTRY.items() if op.pattern is OpPattern.COMM_REDUCE}
    assert declared == {"unbiased_variance", *FOLDS, *LOGIC, *POSITIONS}


@pytest.mark.optimized
@pytest.mark.parametrize("name", ["sum", "variance", "max", "argmin", "any"])
def test_machine_code(name):
    x = data((37, 41), "bool" if name == "any" else "float32")
    attrs = (ArgReduceAttrs if name == "argmin" else ReduceAttrs)(1)
    expected = {**FOLDS, **LOGIC, **POSITIONS}[name](x.astype("float64"), axis=1)
    np.testing.assert_allclose(call(name, [x], attrs, run=compiled), expected, rtol=1e-6)


@pytest.mark.parametrize("run", [plain, compiled])
@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("last", [False, True])
def test_positions_in_long_rows(name, last, run):
    """Rows that are scanned block by block: the extreme in any part, several of them, NaN, and nothing but."""
    low, high = (-np.inf, 9) if name == "argmax" else (np.inf, -9)
    x = np.abs(data((8, 700)) % 1) if name == "argmax" else -np.abs(data((8, 700)) % 1)
    x[1, [10, 300, 690]] = high
    x[2, [255, 256]] = high
    x[3, [5, 699]], x[3, 350] = np.nan, high
    x[4, 600] = np.nan
    x[5] = low
    x[6] = np.nan
    x[7] = np.sort(x[7])
    expected = POSITIONS[name](x, axis=1)
    if last:
        backwards = x[:, ::-1]
        expected = 699 - POSITIONS[name](backwards, axis=1)
    attrs = ArgReduceAttrs(1, select_last_index=last)
    np.testing.assert_array_equal(call(name, [x], attrs, run=run), expected)


@pytest.mark.optimized  # only LLVM's passes give loops the form of vectors
@pytest.mark.parametrize("name", ["max", "sum", "argmin"])
def test_known_and_unknown_lengths_of_short_rows_agree(name):
    """Rows below, of and above some vectors, with the extreme and NaN in the last elements, which may be masked lanes."""
    attrs = (ArgReduceAttrs if name == "argmin" else ReduceAttrs)(1)
    for length in (1, 16, 37, 80, 128):
        x = data((5, length))
        x[1, -1], x[2, -1], x[3, 0], x[4] = -9, np.nan, np.nan, 0
        known, unknown = (call(name, [x], attrs, static, run=compiled) for static in (True, False))
        expected = {**FOLDS, **POSITIONS}[name](x.astype("float64"), axis=1)
        np.testing.assert_allclose(known, expected, rtol=1e-6)
        if name != "sum":  # known lengths may be added in another order
            np.testing.assert_array_equal(known, unknown, strict=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("run", [plain, compiled])
def test_variance_of_columns(dtype, run):
    """Columns far from 0, that begin with an outlier, of equal elements, infinite ones, NaN, and too large to square."""
    x = data((65, 7)).astype(dtype)
    far, huge = (1e4, 1e30) if dtype == "float32" else (1e9, 1e200)
    x[:, 1] += far
    x[0, 2] = far
    x[:, 3] = far
    x[40, 4] = np.inf
    x[7, 5] = np.nan
    x[:, 6] = np.where(np.arange(65) % 2, huge, -huge)
    with np.errstate(all="ignore"):
        expected = x.astype("float64").var(0).astype(dtype)
    ours = call("variance", [x], ReduceAttrs(0), run=run)
    np.testing.assert_allclose(ours, expected, rtol=1e-6)
