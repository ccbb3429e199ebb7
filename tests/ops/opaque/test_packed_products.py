"""Products with packed weights: any division into blocks gives all of the result, for the registers of any machine."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.compiler.passes.constant_weights.pack_weights import in_panels
from relayvm.ops.kernels.matmul.half_panels import FEW, WIDENED, dense_half_panels
from relayvm.ops.kernels.matmul.panels import ROWS, SHORT_INNER, dense_panels
from relayvm.ops.native.front_end.llvm import host

from ..native.front_end.machine_code import compiled, python_function

#: The number of vector registers, and their bytes.
MACHINES = {"neon": (32, 16), "sse": (16, 16), "avx": (16, 32), "avx512": (32, 64)}
#: Columns of a panel.
WIDTHS = {"float32": 16, "float64": 8}

CALL = """
def f(a, m, k, panels, n_panels, out, n, low, high, thread_low, thread_high):
    x, y, z = array_{dtype}_2d(a, (m, k)), array_{dtype}_3d(panels, (n_panels, k, {width})), array_{dtype}_2d(out, (m, n))
    return dense_panels(x, y, z, low, high, thread_low, thread_high)
"""
SIZES = st.one_of(st.integers(0, 20), st.sampled_from([ROWS - 1, ROWS, ROWS + 1, 2 * ROWS + 3]))
CUTS = st.lists(st.floats(0, 1), max_size=4)
INNER = st.one_of(st.integers(0, 20), st.sampled_from([SHORT_INNER, SHORT_INNER + 1, 3 * SHORT_INNER - 1, 1030]))


@functools.cache
def product(machine: str, dtype: str) -> Any:
    """``dense_panels`` compiled for the registers of a machine, which takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("relayvm.ops.native.vector_registers.registers", lambda: MACHINES[machine])
        return compiled(python_function(CALL.format(dtype=dtype, width=WIDTHS[dtype]), dense_panels=dense_panels))


@pytest.mark.split(2)
@pytest.mark.parametrize("machine", MACHINES)
@given(SIZES, INNER, st.one_of(st.integers(1, 70), st.sampled_from([128, 200])), CUTS, st.booleans())
def test_parts_of_the_blocks_are_parts_of_the_product(
    machine: str, m: int, k: int, n: int, cuts: list[float], in_order: bool
) -> None:
    rng = np.random.default_rng(m * 7919 + k * 31 + n)
    a, weight = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((m, k), (n, k)))
    panels = in_panels(weight) if k else np.empty((-(-n // 16), 0, 16), np.float32)
    out, blocks = np.full((m, n), np.nan, np.float32), -(-m // ROWS) * -(-n // 64)
    bounds = [0, *sorted(round(cut * blocks) for cut in cuts), blocks]
    for low, high in reversed([*itertools.pairwise(bounds)]):  # no part needs the parts before it
        of_thread = (0, blocks) if in_order else (low, high)  # what the thread fetches, but not what it computes
        positions = (a.ctypes.data, m, k, panels.ctypes.data, len(panels), out.ctypes.data, n)
        product(machine, "float32")(*positions, low, high, *of_thread)
    np.testing.assert_array_equal(out, a @ weight.T)  # integers: sums are exact


@pytest.mark.split(2)
@pytest.mark.spread("dtype")
@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("machine", MACHINES)
def test_blocks_have_the_bits_of_the_whole(machine: str, dtype: str) -> None:
    rng = np.random.default_rng(4)
    many = 2 * ROWS + 3  # of which a part has short blocks of 4,200 elements, and the whole long ones
    few = (31, 520, 150), (7, 1030, 70), (1, 300, 64), (1, 523, 330), (6, 520, 130)
    for m, k, n in ((many, 3 * SHORT_INNER + 5, 150), (many, 4200, 70), *few):
        a, weight = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (n, k)))
        panels, blocks = in_panels(weight), -(-m // ROWS) * -(-n // (4 * WIDTHS[dtype]))
        whole, parts, others = np.full((3, m, n), np.nan, dtype)
        positions = (a.ctypes.data, m, k, panels.ctypes.data, len(panels))
        product(machine, dtype)(*positions, whole.ctypes.data, n, 0, blocks, 0, blocks)
        np.testing.assert_allclose(whole, a @ weight.T, rtol=1e-4, atol=1e-3)
        for block in range(blocks):
            product(machine, dtype)(*positions, parts.ctypes.data, n, block, block + 1, 0, blocks)
        product("sse", dtype)(*positions, others.ctypes.data, n, 0, blocks, 0, blocks)  # one sum in order, whatever the registers
        np.testing.assert_array_equal(whole, parts)
        np.testing.assert_array_equal(whole, others)


HALVES = """
def f(a, m, k, panels, n_panels, out, n, high, wide, length):
    x, y, z = array_float32_2d(a, (m, k)), array_float16_3d(panels, (n_panels, k, 16)), array_float32_2d(out, (m, n))
    return dense_half_panels(x, y, z, 0, high, 0, high, array_float32(wide, length))
"""


@pytest.mark.spread("in_tiles")
@pytest.mark.parametrize("in_tiles", [False, True])
@pytest.mark.parametrize("machine", ["avx", "avx512"])
def test_panels_of_halves_give_the_bits_of_widened_ones(machine: str, in_tiles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether tiles widen what they read, or read a buffer."""
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: MACHINES[machine])
    monkeypatch.setattr(host, "is_of_amd", lambda: in_tiles)
    run = compiled(python_function(HALVES, dense_half_panels=dense_half_panels))
    rng = np.random.default_rng(5)
    for m, k, n in (
        (0, 5, 3),
        (1, 1, 1),
        (FEW, 300, 70),
        (FEW + 1, 2 * WIDENED + 3, 130),
        (ROWS + 5, WIDENED, 64),
        (50, 1030, 20),
    ):
        a, weight = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((n, k)).astype(np.float16)
        panels, blocks = in_panels(weight), -(-m // ROWS) * -(-n // 64)
        (found, wanted), wide = np.full((2, m, n), np.nan, np.float32), np.empty(65 * (k + 1), np.float32)
        positions = a.ctypes.data, m, k
        run(*positions, panels.ctypes.data, len(panels), found.ctypes.data, n, blocks, wide.ctypes.data, wide.size)
        widened = in_panels(weight.astype(np.float32))
        product(machine, "float32")(*positions, widened.ctypes.data, len(panels), wanted.ctypes.data, n, 0, blocks, 0, blocks)
        np.testing.assert_array_equal(found, wanted)
