"""The emulated cuBLAS: batches of matrices, and rejected arguments."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from ...emulator import emulator
from ...emulator.session import Session, made, word


def blas(function: str, *args: object) -> int:
    return int(getattr(emulator.library(), function)(*args))


TYPES = {"float32": (0, 68, ctypes.c_float), "float64": (1, 70, ctypes.c_double), "float16": (2, 68, ctypes.c_float)}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("k", [0, 5])
def test_cublas_multiplies_batches_of_matrices(gpu: Session, dtype: str, transposed: tuple[int, int], k: int) -> None:
    number, compute, scalar = TYPES[dtype]
    rng = np.random.default_rng(3)
    m, n, batches = 3, 4, 2
    a, b = (rng.standard_normal((batches, *s)).astype(dtype) for s in ((m, k), (k, n)))
    c = rng.standard_normal((batches, m, n)).astype(dtype)
    handle = word(made("cublasCreate_v2"))
    assert blas("cublasSetStream_v2", handle, word(gpu.stream)) == 0

    def columns(x: np.ndarray, transpose: int) -> tuple[int, int]:  # where it lies column after column, and its leading extent
        x = x if transpose else x.swapaxes(1, 2)
        return gpu.put(x), max(1, x.shape[2])

    (at_a, lda), (at_b, ldb), (at_c, ldc) = columns(a, transposed[0]), columns(b, transposed[1]), columns(c, 0)
    status = blas(
        "cublasGemmStridedBatchedEx", handle, *transposed, m, n, k, ctypes.byref(scalar(2)),
        word(at_a), number, lda, word(m * k), word(at_b), number, ldb, word(k * n), ctypes.byref(scalar(0.5)),
        word(at_c), number, ldc, word(m * n), batches, compute, -1,
    )  # fmt: skip
    assert status == 0
    got = gpu.get(at_c, (batches, n, m), dtype).swapaxes(1, 2)
    wide = np.float64 if dtype == "float64" else np.float32
    expected = 2 * (a.astype(wide) @ b.astype(wide)) + 0.5 * c.astype(wide)
    assert np.allclose(got, expected, rtol=1e-3 if dtype == "float16" else 1e-5, atol=1e-3 if dtype == "float16" else 1e-6)


def test_cublas_refuses_what_it_does_not_multiply(gpu: Session) -> None:
    handle, x, one = word(made("cublasCreate_v2")), gpu.put(np.ones(16)), ctypes.byref(ctypes.c_double(1))
    zero = ctypes.byref(ctypes.c_double(0))

    def multiply(number: int, compute: int, lda: int = 2) -> int:
        matrices = [word(x), number, lda, word(4), word(x), number, 2, word(4), zero, word(x), number, 2, word(4)]
        return blas("cublasGemmStridedBatchedEx", handle, 0, 0, 2, 2, 2, one, *matrices, 1, compute, -1)

    assert multiply(1, 70) == 1  # it has no stream
    assert blas("cublasSetStream_v2", handle, word(gpu.stream)) == 0
    assert [multiply(1, 70), multiply(1, 68), multiply(0, 70), multiply(1, 70, lda=1)] == [0, 15, 15, 7]
    gpu.wait()
    assert list(emulator.array(x, (4,), np.float64)) == [2, 2, 2, 2]
