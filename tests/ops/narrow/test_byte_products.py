"""Products of bytes: exact for the registers of any machine, in any blocks, packed before or during the product."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.compiler.passes.constant_weights.byte_panels import in_byte_panels, sums_of_rows
from relayvm.ops.kernels.byte_products.packed import Buffers, matmul_bytes
from relayvm.ops.kernels.byte_products.panels import BAND, GROUP, MOST_ROWS, WIDENING, dense_byte_panels
from relayvm.ops.kernels.shaped import Shaped
from relayvm.ops.native.front_end.llvm import host
from relayvm.ops.native.matrix_tiles import CONFIG_BYTES
from relayvm.ops.native.memory import generic
from relayvm.ops.native.vector_registers import registers

from ..native.front_end.machine_code import compiled, python_function
from ..opaque.opaque_kernels import run

#: Features of machines that this one may stand for, which has them all, and the number of vector registers with their bytes.
AVX2 = frozenset({"sse2", "avx", "avx2"})
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512vl"}
MACHINES = {
    "sse": (frozenset({"sse2"}), (16, 16)),
    "avx2": (AVX2, (16, 32)),
    "avxvnni": (AVX2 | {"avxvnni"}, (16, 32)),
    "avx512": (AVX512, (32, 64)),
    "vnni": (AVX512 | {"avx512vnni"}, (32, 64)),
    "own": (host.features(), registers()),
}
HERE = [name for name, (features, _) in MACHINES.items() if features <= host.features()]

CALL = """
def f(a, m, k, panels, sums, out, n, low, high, copied, config):
    steps, result = (k + 3) // 4, Shaped(array_int32(out, m * n), (m, n))
    x, p = array_{dtype}_2d(a, (m, k)), array_int8(panels, (n + 15) // 16 * steps * 64)
    s, b, c = array_int32(sums, n), array_uint8(copied, 2 * 96 * 4 * steps), array_uint8(config, 64)
    return dense_byte_panels(x, p, s, result, low, high, b, c, result.data, kept, 0)
"""
SIZES = st.one_of(st.integers(0, 20), st.sampled_from([31, 32, 33, BAND, BAND + 1, 2 * BAND + 3]))
COLUMNS = st.one_of(st.integers(1, 70), st.sampled_from([GROUP, GROUP + 33]))
INNER = st.one_of(st.integers(0, 20), st.sampled_from([64, 127, 128, 1030, 1600, 20_000]))


@generic
def kept(argv: int, at: int, rows: int, count: int, sums: Any, first: int, pitch: int) -> None:
    """Leave a part of the result as it is."""


@functools.cache
def product(machine: str, dtype: str) -> Any:
    """``dense_byte_panels`` compiled for a machine."""
    features, vectors = MACHINES[machine]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("relayvm.ops.native.vector_registers.registers", lambda: vectors)
        patch.setattr(host, "features", lambda: features)
        text, names = CALL.format(dtype=dtype), {"dense_byte_panels": dense_byte_panels, "Shaped": Shaped, "kept": kept}
        return compiled(python_function(text, **names))


def matrices(m: int, n: int, k: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data, a weight ``[n, k]`` and their product modulo 2**32: of bytes of which many are extreme."""
    rng, limits = np.random.default_rng(m * 7919 + k * 31 + n), np.iinfo(dtype)
    data = rng.choice([limits.min, limits.max, *rng.integers(limits.min, limits.max + 1, 9)], (m, k)).astype(dtype)
    weight = rng.choice([-128, 127, *rng.integers(-128, 128, 9)], (n, k)).astype(np.int8)
    return data, weight, (data.astype(np.float64) @ weight.T.astype(np.float64)).astype(np.int64).astype(np.int32)


@pytest.mark.split(2)
@pytest.mark.parametrize("machine", HERE)
@given(SIZES, INNER, COLUMNS, st.sampled_from(["uint8", "int8"]), st.lists(st.floats(0, 1), max_size=3))
def test_parts_of_the_blocks_are_parts_of_the_product(
    machine: str, m: int, k: int, n: int, dtype: str, cuts: list[float]
) -> None:
    data, weight, wanted = matrices(m, n, k, dtype)
    panels, sums, blocks = in_byte_panels(weight), sums_of_rows(weight), -(-m // BAND) * -(-n // GROUP)
    out, copied, config = (
        np.full((m, n), 77, np.int32),
        np.empty(WIDENING * BAND * (k + 3), np.uint8),
        np.empty(CONFIG_BYTES, np.uint8),
    )
    bounds = [0, *sorted(round(cut * blocks) for cut in cuts), blocks]
    for low, high in reversed([*itertools.pairwise(bounds)]):  # no part needs the parts before it
        given = (panels.ctypes.data, sums.ctypes.data, out.ctypes.data, n, low, high, copied.ctypes.data, config.ctypes.data)
        product(machine, dtype)(data.ctypes.data, m, k, *given)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("machine", HERE)
def test_long_sums_of_extreme_bytes_are_exact(machine: str) -> None:
    """Sums of 20,000 products that are all the largest, or all the least: no part of them is saturated."""
    k, n = 20_000, 17
    copied, config = np.empty(WIDENING * BAND * (k + 3), np.uint8), np.empty(CONFIG_BYTES, np.uint8)
    for dtype, m in (("uint8", 3), ("int8", 3), ("uint8", 33)):
        limits, out = np.iinfo(dtype), np.empty((m, n), np.int32)
        for byte, other in itertools.product((limits.min, limits.max), (-128, 127)):
            data, weight = np.full((m, k), byte, dtype), np.full((n, k), other, np.int8)
            panels, sums = in_byte_panels(weight), sums_of_rows(weight)
            given = (panels.ctypes.data, sums.ctypes.data, out.ctypes.data, n, 0, 1, copied.ctypes.data, config.ctypes.data)
            product(machine, dtype)(data.ctypes.data, m, k, *given)
            assert (out == k * int(byte) * other).all()


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_plain_python_reads_nothing_else(dtype: str) -> None:
    for m, n, k in ((1, 1, 1), (0, 3, 4), (2, 3, 0), (5, 17, 9), (4, 33, 64), (20, 18, 64), (33, 16, 128), (17, 17, 832)):
        data, weight, wanted = matrices(m, n, k, dtype)
        inputs = [data, in_byte_panels(weight), sums_of_rows(weight)]
        np.testing.assert_array_equal(run("nn.dense_byte_panels", inputs, implementation="tiles").outputs[0], wanted)
        for transposed in (False, True):
            inputs = [data, weight if transposed else np.ascontiguousarray(weight.T)]
            options: dict[str, Any] = {"implementation": "bytes", "out_dtype": "int32", "transpose_b": transposed}
            np.testing.assert_array_equal(run("nn.matmul", inputs, **options).outputs[0], wanted)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_that_pack_a_matrix(dtype: str, transposed: bool) -> None:
    options: dict[str, Any] = {"jit": True, "implementation": "bytes", "out_dtype": "int32", "transpose_b": transposed}
    for m, n, k in ((1, 1, 1), (3, 35, 130), (BAND + 4, GROUP + 19, 64), (40, 50, 1600), (1, 300, 1030), (2, 5, 0)):
        data, weight, wanted = matrices(m, n, k, dtype)
        right = weight if transposed else np.ascontiguousarray(weight.T)
        np.testing.assert_array_equal(run("nn.matmul", [data, right], **options).outputs[0], wanted)
        both = run("nn.batch_matmul", [np.stack([data, data[::-1]]), right[None]], **options).outputs[0]
        np.testing.assert_array_equal(both, np.stack([wanted, wanted[::-1]]))


def test_buffers_of_a_kernel_hold_what_its_body_stores() -> None:
    data, weight, wanted = matrices(5, 40, 64, "int8")
    out, sums = np.full((5, 40), 7, np.int32), np.full(MOST_ROWS * GROUP, 9, np.int32)
    found = []

    def finish(argv: int, at: int, rows: int, count: int, given: np.ndarray, first: int, pitch: int) -> None:
        for row in range(rows):
            found.append((at + row * 40, given[first + row * pitch :][:count].copy()))

    buffers = Buffers(
        np.empty(WIDENING * 5 * 64, np.uint8),
        np.empty(CONFIG_BYTES, np.uint8),
        np.empty(48 * 64, np.int8),
        np.empty(GROUP, np.int32),
    )
    shaped = (Shaped(x.reshape(-1), np.array(x.shape)) for x in (data, weight, out))
    assert matmul_bytes(*shaped, 0, 1, buffers, sums, finish, 0, True) == 0
    for at, row in found:
        np.testing.assert_array_equal(row, wanted.reshape(-1)[at : at + len(row)])
    assert sum(len(row) for _, row in found) == out.size and (out == 7).all()
