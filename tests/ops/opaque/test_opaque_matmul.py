"""Matrix products and softmax against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.kernels.matmul import cpu
from relayvm.ops.kernels.matmul.matrix import matrix
from relayvm.ops.native.blas.blas_call import Product
from relayvm.ops.native.blas.library_calls import addresses

from .opaque_kernels import run

SIZES = [0, 1, 3, 17]


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-9 if dtype[0] == "i" else 0, 9, shape).astype(dtype)


def assert_close(result: np.ndarray, expected: np.ndarray) -> None:
    assert result.shape == expected.shape
    tolerance = 1e-5 if result.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(result, expected.astype(result.dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_dense_at_every_size(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for m in SIZES:
        for n in SIZES:
            for k in (0, 1, 5):
                data, weight = numbers(rng, (m, k), dtype), numbers(rng, (n, k), dtype)
                (result,), status, _ = run("nn.dense", [data, weight])
                assert status == 0
                assert_close(result, data @ weight.T)


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5), (0, 3, 5), (2, 1, 3, 5)])
def test_dense_takes_data_of_any_rank(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    data, weight = numbers(rng, shape, "float32"), numbers(rng, (4, 5), "float32")
    assert_close(run("nn.dense", [data, weight]).outputs[0], data @ weight.T)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "int16"])
def test_matmul_and_its_transposes(transpose_a: bool, transpose_b: bool, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for batch in [(), (2,), (0,), (2, 2)]:
        for m, n, k in [(3, 4, 5), (1, 1, 1), (0, 2, 3), (2, 0, 3), (2, 3, 0)]:
            a, b = numbers(rng, (*batch, m, k), dtype), numbers(rng, (k, n), dtype)
            given_a, given_b = a.swapaxes(-1, -2) if transpose_a else a, b.T if transpose_b else b
            ran = run("nn.matmul", [given_a, given_b], transpose_a=transpose_a, transpose_b=transpose_b)
            assert_close(ran.outputs[0], a @ b)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_batch_matmul_broadcasts_a_batch_of_one(transpose_a: bool, transpose_b: bool, dtype: str) -> None:
    rng = np.random.default_rng(4)
    for batch_a, batch_b in [(3, 3), (1, 3), (3, 1), (1, 1), (0, 0), (0, 1), (1, 0)]:
        for m, n, k in [(2, 3, 4), (1, 1, 1), (2, 3, 0), (0, 1, 2)]:
            a, b = numbers(rng, (batch_a, m, k), dtype), numbers(rng, (batch_b, k, n), dtype)
            given_a, given_b = a.swapaxes(1, 2) if transpose_a else a, b.swapaxes(1, 2) if transpose_b else b
            ran = run("nn.batch_matmul", [given_a, given_b], transpose_a=transpose_a, transpose_b=transpose_b)
            assert_close(ran.outputs[0], a @ b)


def test_a_wider_result_keeps_what_the_inputs_dtype_cannot_hold() -> None:
    data = np.full((2, 300), 100, np.int8)
    (result,), _, _ = run("nn.dense", [data, data], out_dtype="int32")
    assert result.dtype == np.int32 and (result == 300 * 100 * 100).all()
    small = np.full((1, 3), 1e30, np.float32)
    (result,), _, _ = run("nn.dense", [small, small], out_dtype="float64")
    np.testing.assert_allclose(result, [[3e60]], rtol=1e-6)


def test_integers_wrap_as_numpys_do() -> None:
    data = np.full((1, 3), 100, np.uint8)
    assert run("nn.dense", [data, data]).outputs[0] == (30000 % 256)


@pytest.mark.parametrize("transpose_b", [False, True])
def test_sums_beyond_the_dtype_wrap_in_plain_python(transpose_b: bool) -> None:
    x, w = np.array([[2, 3]], "int32"), np.array([[2021672694, -(2**31)], [2**31 - 1, 7]], "int32")
    (y,) = run("nn.matmul", [x, w], transpose_b=transpose_b).outputs
    wide = x.astype("int64") @ (w.T if transpose_b else w).astype("int64")
    np.testing.assert_array_equal(y, wide.astype("int32"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("name", ["nn.dense", "nn.matmul", "nn.batch_matmul"])
def test_products_as_machine_code(name: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    for m, n, k in [(130, 70, 33), (1, 1, 1), (0, 2, 2), (2, 2, 0)]:
        batch = (2,) if name == "nn.batch_matmul" else ()
        a, b = numbers(rng, (*batch, m, k), dtype), numbers(rng, (*batch, n, k), dtype)
        attrs = {"transpose_b": True} if name == "nn.matmul" else {}
        (result,), status, _ = run(name, [a, b], jit=True, **attrs)
        assert status == 0
        tolerance = 1e-3 if dtype == "float32" else 1e-9
        np.testing.assert_allclose(result, a @ b.swapaxes(-1, -2), rtol=tolerance, atol=tolerance)


# ---- softmax -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_few_rows_and_one_column_as_machine_code(transpose_a: bool, transpose_b: bool, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for m, n, k in [(1, 1, 1), (1, 9000, 5), (8, 37, 66), (9, 37, 66), (40, 1, 35), (1, 35, 40), (3, 5, 0), (0, 5, 3), (2, 0, 3)]:
        a, b = numbers(rng, (m, k), dtype), numbers(rng, (k, n), dtype)
        given = [np.ascontiguousarray(x.T) if transposed else x for x, transposed in ((a, transpose_a), (b, transpose_b))]
        (result,), status, _ = run("nn.matmul", given, transpose_a=transpose_a, transpose_b=transpose_b, jit=True)
        assert status == 0
        assert_close(result, a @ b)


def softmax(data: np.ndarray, axis: int) -> np.ndarray:
    wide = data.astype(np.float64)
    shifted = np.exp(wide - wide.max(axis, keepdims=True, initial=-np.inf))
    return shifted / shifted.sum(axis, keepdims=True)


@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_along_every_axis(dtype: str, jit: bool) -> None:
    rng = np.random.default_rng(6)
    for shape in [(1,), (7,), (3, 5), (2, 3, 4), (0, 3), (3, 0), (2, 0, 3), (2, 1)]:
        for axis in {0, len(shape) - 1} if jit else range(-len(shape), len(shape)):
            data = (rng.standard_normal(shape) * 50).astype(dtype)
            expected = softmax(data, axis)
            assert_close(run("nn.softmax", [data], axis=axis, jit=jit).outputs[0], expected)
            logs = run("nn.log_softmax", [data], axis=axis, jit=jit).outputs[0]
            np.testing.assert_allclose(np.exp(logs), expected, rtol=2e-5, atol=1e-7)


def test_softmax_of_large_numbers_is_finite_and_nan_spreads_over_its_row_only() -> None:
    data = np.array([[1000, 1001, 999], [np.nan, 1, 2], [-np.inf, 0, 0]], np.float32)
    (result,), _, _ = run("nn.softmax", [data])
    np.testing.assert_allclose(result[0].sum(), 1, rtol=1e-6)
    assert np.isnan(result[1]).all()
    np.testing.assert_allclose(result[2], [0, 0.5, 0.5])
    (logs,), _, _ = run("nn.log_softmax", [np.array([-1000.0, 0.0])])
    np.testing.assert_allclose(logs, [-1000, 0])


@pytest.mark.parametrize(("m", "n", "k"), [(7, 3, 2), (3, 3, 3), (2, 5, 3), (2, 3, 5), (5, 4, 4)])
@pytest.mark.parametrize("transpose_a", [False, True])
def test_sizes_that_a_blas_cannot_count(m: int, n: int, k: int, transpose_a: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A BLAS limited to sizes of 3: rows are split into several calls, other sizes fall back to loops."""

    def gemm_that_counts_to_3(address: int, product: Product) -> None:
        p = product
        assert max(p.m, p.n, p.k, p.a.step, p.b.step, p.c.step) <= 3
        call_gemm(address, p)

    call_gemm = cpu.call_gemm
    monkeypatch.setattr(cpu, "call_gemm", gemm_that_counts_to_3)
    monkeypatch.setattr(cpu, "BLAS_LIMIT", 3)
    rng = np.random.default_rng(0)
    a, b, out = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
    gemm = addresses(["sgemm"])["sgemm"]
    given = np.ascontiguousarray(a.T if transpose_a else a).reshape(-1)
    flat = out.reshape(-1)
    left, right = matrix(given, 0, m, k, transpose_a), matrix(b.reshape(-1), 0, k, n, False)
    cpu.by_blas(left, right, flat, 0, m, n, k, gemm)
    np.testing.assert_allclose(flat.reshape(m, n), a @ b, rtol=1e-5, atol=1e-6)
