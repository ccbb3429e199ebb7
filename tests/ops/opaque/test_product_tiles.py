"""Products by tiles: numpy's result for sizes around every block, and the bits of a product with packed weights."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.compiler.passes.constant_weights.pack_weights import in_panels

from .opaque_kernels import run

RNG = np.random.default_rng(8)
#: Rows, columns, elements of the inner axis: of parts of a tile, and of several blocks along every axis.
SIZES = [(0, 5, 3), (1, 1, 1), (5, 0, 3), (4, 6, 0), (1, 17, 2), (7, 33, 5), (13, 70, 9)]
LARGE = [(97, 131, 1030), (200, 64, 1024)]


def drawn(*shape: int, dtype: str) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.extensive(dtype=["float32"], jit=[True])
def test_tiles_multiply_matrices(jit: bool, transpose_b: bool, dtype: str) -> None:
    for m, n, k in SIZES + (LARGE if jit else []):
        a, b = drawn(m, k, dtype=dtype), drawn(k, n, dtype=dtype)
        given = b.T.copy() if transpose_b else b
        ran = run("nn.matmul", [a, given], jit=jit, implementation="tiles", transpose_b=transpose_b)
        np.testing.assert_allclose(ran.outputs[0], a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batches", [(3, 3), (1, 3), (3, 1), (0, 0)])
def test_tiles_multiply_batches(batches: tuple[int, int]) -> None:
    a, b = drawn(batches[0], 7, 20, dtype="float32"), drawn(batches[1], 20, 70, dtype="float32")
    ran = run("nn.batch_matmul", [a, b], jit=True, implementation="tiles", transpose_b=False)
    np.testing.assert_allclose(ran.outputs[0], a @ b, rtol=1e-4, atol=1e-4)


def test_a_weight_gives_the_same_bits_packed_or_not() -> None:
    for m, n, k in [*SIZES[4:], *LARGE]:
        data, weight = drawn(m, k, dtype="float32"), drawn(n, k, dtype="float32")
        packed = run("nn.dense_panels", [data, in_panels(weight)], jit=True, implementation="tiles", units=n)
        np.testing.assert_array_equal(
            run("nn.dense", [data, weight], jit=True, implementation="tiles").outputs[0], packed.outputs[0]
        )
