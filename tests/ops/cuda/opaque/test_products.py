"""Matrix products and softmax on the emulated GPU, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.dtype_rules import FLOATS, NUMBERS
from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.ops.kernels.matmul import library_products

from ....emulator import emulator
from ..on_gpu import run, source_of, steps_of

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

TOLERANCE = {"float32": 1e-5, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1e-2}


def small(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return rng.integers(0 if dtype[0] == "u" else -4, 5, shape).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("implementation", ["lt", "gemm"])
@pytest.mark.extensive(dtype=("float32", "bfloat16", "int8"))
@pytest.mark.parametrize("dtype", NUMBERS)
def test_dense_at_every_size(dtype: str, implementation: str) -> None:
    if implementation == "lt" and dtype not in FLOATS:
        pytest.skip("cuBLASLt adds products of integers in int32 only")
    rng = np.random.default_rng(1)
    for m, n, k in [(0, 3, 2), (3, 0, 2), (3, 17, 0), (1, 1, 1), (3, 17, 5), (70, 65, 33), (1, 130, 7)]:
        data, weight = small(rng, (m, k), dtype), small(rng, (n, k), dtype)
        (result,), status, _ = run("nn.dense", [data, weight], implementation=implementation)
        assert status == 0 and result.dtype == data.dtype
        exact = data.astype(np.int64) @ weight.astype(np.int64).T  # small enough for every dtype but the narrow integers
        np.testing.assert_array_equal(result, exact.astype(result.dtype))


@pytest.mark.split(2)
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("dtype", "implementation"), [("float32", "lt"), ("float32", "gemm"), ("int64", "gemm")])
def test_products_and_their_transposes(transpose_a: bool, transpose_b: bool, dtype: str, implementation: str) -> None:
    rng = np.random.default_rng(3)
    flags: dict[str, Any] = {"transpose_a": transpose_a, "transpose_b": transpose_b, "implementation": implementation}
    for m, n, k in [(3, 4, 5), (1, 1, 1), (0, 2, 3), (2, 0, 3), (2, 3, 0), (66, 3, 70)]:
        for batch in [(), (2,), (0,), (2, 2)]:
            a, b = small(rng, (*batch, m, k), dtype), small(rng, (k, n), dtype)
            given_a, given_b = a.swapaxes(-1, -2) if transpose_a else a, b.T if transpose_b else b
            np.testing.assert_array_equal(run("nn.matmul", [given_a, given_b], **flags).outputs[0], a @ b)
        for batch_a, batch_b in [(3, 3), (1, 3), (3, 1), (1, 1), (0, 0), (0, 1)]:
            a, b = small(rng, (batch_a, m, k), dtype), small(rng, (batch_b, k, n), dtype)
            given_a, given_b = a.swapaxes(1, 2) if transpose_a else a, b.swapaxes(1, 2) if transpose_b else b
            np.testing.assert_array_equal(run("nn.batch_matmul", [given_a, given_b], **flags).outputs[0], a @ b)


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("batch", "matrices", "times"), [(6, 2, 3), (1, 2, 2), (3, 1, 3)])
def test_products_by_repeated_matrices(batch: int, matrices: int, times: int, transpose_b: bool) -> None:
    rng, reps = np.random.default_rng(batch), np.array([times, 1, 1])
    a, b = (rng.integers(-9, 9, shape).astype("float32") for shape in ((batch, 5, 7), (matrices, 7, 9)))
    given = np.ascontiguousarray(b.swapaxes(1, 2)) if transpose_b else b
    (result,), status, _ = run("nn.tiled_batch_matmul", [a, given, reps], static=(0,), transpose_b=transpose_b)
    assert status == 0
    np.testing.assert_array_equal(result, a @ np.tile(b, reps))


def test_the_kernel_of_our_own_is_as_good_as_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    for dtype in FLOATS:
        a, b = (rng.standard_normal((2, 70, 40)).astype(numpy_dtype(dtype)) for _ in range(2))
        expected = a.astype(np.float64) @ b.astype(np.float64).swapaxes(1, 2)
        by_library = run("nn.batch_matmul", [a, b]).outputs[0]
        with monkeypatch.context() as patch:
            patch.setattr(library_products, "BLAS_LIMIT", 1)
            by_kernel = run("nn.batch_matmul", [a, b]).outputs[0]
        for result in (by_library, by_kernel):
            np.testing.assert_allclose(
                result.astype(np.float64), expected, rtol=TOLERANCE[dtype] * 10, atol=TOLERANCE[dtype] * 10
            )


def test_products_in_sums_of_our_own_kernels_are_not_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """``-1 * 1 + x * x`` for an x whose square has more bits than the dtype."""
    monkeypatch.setattr(library_products, "BLAS_LIMIT", 1)
    for dtype, bits in (("float32", 12), ("float64", 27)):
        x = 1 + 2.0**-bits
        a, b = np.array([[-1, x]], dtype), np.array([[1, x]], dtype)
        exact = np.array([[2.0 ** (1 - bits) + 2.0 ** (-2 * bits)]], dtype)
        assert a[0, 1] * b[0, 1] - 1 != exact
        (product,), *_ = run("nn.batch_matmul", [a[None], b[None]])
        (convolved,), *_ = run("nn.conv2d", [a[:, :, None, None], b[:, :, None, None]])
        for result in (product, convolved):
            np.testing.assert_array_equal(result.reshape(1, 1), exact)


def test_the_library_takes_what_it_can() -> None:
    def calls(dtype: str, **attributes: str) -> list[str]:
        return steps_of(source_of("nn.dense", [np.empty((4, 5), numpy_dtype(dtype))] * 2, static=True, **attributes).steps)

    for dtype in FLOATS:
        assert calls(dtype) == ["cublasGemmStridedBatchedEx"]
        assert calls(dtype, implementation="lt") == ["cublasLtMatmul", "cublasGemmStridedBatchedEx"]
    assert calls("int8", out_dtype="int32", implementation="lt") == ["cublasLtMatmul", "multiply"]
    assert calls("float16", out_dtype="float32") == ["cublasGemmStridedBatchedEx"]
    assert calls("float32", out_dtype="float64") == calls("int32") == ["multiply"]


@pytest.mark.parametrize("no_algorithm", [False, True])
def test_without_an_algorithm_the_next_implementation_multiplies(no_algorithm: bool) -> None:
    rng = np.random.default_rng(5)
    for dtype, result, k in (("float32", "float32", 5), ("int8", "int32", 8), ("int8", "int32", 5)):
        data, weight = (rng.integers(-128, 128, (4, k)).astype(dtype) for _ in range(2))
        how: dict[str, Any] = {"implementation": "lt", "no_algorithm": no_algorithm, "out_dtype": result}
        (got,), status, _ = run("nn.dense", [data, weight], **how)
        assert status == 0 and got.dtype == result
        np.testing.assert_array_equal(got, data.astype(np.int64) @ weight.astype(np.int64).T)


def test_a_wider_result_keeps_what_the_inputs_dtype_cannot_hold() -> None:
    data = np.full((2, 300), 100, np.int8)
    (result,), _, _ = run("nn.dense", [data, data], out_dtype="int32")
    assert result.dtype == np.int32 and (result == 300 * 100 * 100).all()
    large = np.full((1, 3), 1e30, np.float32)
    np.testing.assert_allclose(run("nn.dense", [large, large], out_dtype="float64").outputs[0], [[3e60]], rtol=1e-6)
    half = np.full((1, 300), 100, np.float16)
    assert run("nn.dense", [half, half], out_dtype="float32").outputs[0] == 3e6
    assert run("nn.dense", [np.full((1, 3), 100, np.uint8)] * 2).outputs[0] == 30000 % 256


# ---- softmax -------------------------------------------------------------------------------------------------------


def softmax(data: np.ndarray, axis: int) -> np.ndarray:
    data = data.astype(np.float64)
    shifted = np.exp(data - data.max(axis, keepdims=True, initial=-np.inf))
    return shifted / shifted.sum(axis, keepdims=True)


#: Rows held by a warp and by a block, rows read twice, columns; of lengths that packs of 16 bytes divide, and do not.
SHAPES = [
    (1,), (7,), (3, 5), (2, 3, 4), (0, 3), (3, 0), (2, 0, 3), (2, 1), (3, 512), (2, 511), (2, 1040), (1, 1500),
    (1, 8200), (1, 8193), (1, 16384), (1, 16388), (2, 40, 70), (3, 130),
]  # fmt: skip


@pytest.mark.split(2)
@pytest.mark.extensive(dtype=("float32", "bfloat16"))
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_along_every_axis(dtype: str) -> None:
    rng = np.random.default_rng(6)
    for shape in SHAPES:
        for axis in range(len(shape)):
            data = (rng.standard_normal(shape) * 10).astype(numpy_dtype(dtype))
            expected = softmax(data, axis)
            (result,), status, _ = run("nn.softmax", [data], axis=axis)
            assert status == 0 and result.dtype == data.dtype
            np.testing.assert_allclose(result.astype(np.float64), expected, rtol=TOLERANCE[dtype], atol=1e-7)
            (logs,), _, _ = run("nn.log_softmax", [data], axis=axis)
            np.testing.assert_allclose(np.exp(logs.astype(np.float64)), expected, rtol=TOLERANCE[dtype] * 20, atol=1e-7)


@pytest.mark.parametrize("length", [3, 600, 8300])
@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_not_finite_makes_a_row_nan_as_on_the_cpu(length: int, axis: int) -> None:
    data = np.zeros((6, length), np.float32)
    data[0], data[1, 1], data[2, 1], data[3, 0] = -np.inf, np.nan, np.inf, -np.inf
    data[4, :2] = np.inf, np.nan
    data[5] = 1e30
    (result,), _, _ = run("nn.softmax", [data if axis else data.T], axis=axis)
    result = result if axis else result.T
    with np.errstate(invalid="ignore"):
        expected = softmax(data, 1)
    assert np.isnan(expected[[0, 1, 2, 4]]).all() and np.isfinite(expected[[3, 5]]).all()
    np.testing.assert_allclose(result, expected, rtol=1e-5)
    assert result[3, 0] == 0


# ---- attention -----------------------------------------------------------------------------------------------------


@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("dtype", FLOATS)
def test_attention(dtype: str) -> None:
    rng = np.random.default_rng(8)
    for m, n, batch, heads, d, e in ((1, 5, 2, 3, 7, 2), (3, 130, 1, 2, 4, 130), (2, 1, 1, 1, 1, 1), (2, 0, 1, 2, 3, 4)):
        shapes = (m, batch, heads, d), (n, batch, heads, d), (n, batch, heads, e), (batch, heads, m, n)
        query, key, value, bias = (rng.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in shapes)
        scores = 0.5 * np.einsum("mbhd,nbhd->bhmn", query.astype(float), key.astype(float)) + bias.astype(float)
        expected = np.einsum("bhmn,nbhe->mbhe", softmax(scores, -1), value.astype(float))
        (result,), status, _ = run("nn.attention", [query, key, value, bias], scale=0.5)
        assert status == 0
        np.testing.assert_allclose(result.astype(float), expected, rtol=TOLERANCE[dtype] * 10, atol=TOLERANCE[dtype] * 10)
