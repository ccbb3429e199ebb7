"""Tiles that fetch what comes next, the rows of the next tile or panels: the same bits, for the registers of any machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.ops.kernels.matmul import tiles
from relayvm.ops.kernels.matmul.tiles import multiply_band
from relayvm.ops.native.jit.products.operands import Paced, Panels, Rows
from relayvm.ops.native.jit.products.paced_tile import multiply_paced
from relayvm.ops.native.jit.products.register_tile import GROUP_PANELS, TILE_ROWS, panel_width

from ..native.front_end.machine_code import compiled, python_function
from ..native.test_panel_products import MACHINES

TILE = """
def f(a, n_a, a_row, panels, n_panels, step, out, n_out, out_row, rows, inner, columns, add, elements, pace, next_rows):
    x, y, z = array_{dtype}(a, n_a), array_{dtype}(panels, n_panels), array_{dtype}(out, n_out)
    multiply_paced(
        Rows(x, 1, a_row), Panels(y, 0, step, {width}), Rows(z, 2, out_row), rows, inner, columns, add,
        Paced(elements, pace, next_rows),
    )
    return 0
"""
BAND = """
def f(a, n_a, a_row, panels, n_panels, step, out, n_out, out_row, rows, inner, columns, add):
    x, y, z = array_float32(a, n_a), array_float32(panels, n_panels), array_float32(out, n_out)
    multiply_band(Rows(x, 1, a_row), Panels(y, 0, step, 16), Rows(z, 2, out_row), rows, inner, columns, add)
    return 0
"""
NAMES = {"Rows": Rows, "Panels": Panels, "Paced": Paced}


def products(code: Any, dtype: str, rows: int, inner: int, columns: int, add: int, *ahead: int) -> tuple[Any, Any]:
    """The results by ``code``, in an array with elements around them, and the wanted ones, of integers: exact in any order."""
    rng, width = np.random.default_rng(rows + inner), panel_width(np.dtype(dtype).itemsize)
    a, before = rng.integers(-9, 9, (rows, inner + 3)).astype(dtype), rng.integers(-9, 9, (rows + 1, 70)).astype(dtype)
    panels = rng.integers(-9, 9, (GROUP_PANELS, inner + 1, width)).astype(dtype)
    matrix = panels[:, :inner].transpose(1, 0, 2).reshape(inner, GROUP_PANELS * width)
    found, wanted = before.copy(), before.copy()
    # the first element of the rows is the second of the array, and the first result is the third
    block = wanted[:rows, 2 : 2 + columns]
    block[...] = (block if add else 0) + a[:, 1 : 1 + inner] @ matrix[:, :columns]
    step = (inner + 1) * width
    code(
        a.ctypes.data, a.size, inner + 3, panels.ctypes.data, panels.size, step, found.ctypes.data, found.size, 70, rows, inner,
        columns, add, *ahead,
    )  # fmt: skip
    return found, wanted


@pytest.mark.lengthy
@pytest.mark.spread("machine", "dtype")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_tile_that_fetches_is_a_product(monkeypatch: pytest.MonkeyPatch, machine: str, dtype: str) -> None:
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: MACHINES[machine])
    width = panel_width(np.dtype(dtype).itemsize)
    code = compiled(python_function(TILE.format(dtype=dtype, width=width), multiply_paced=multiply_paced, **NAMES))
    for inner in (0, 7, 21, 64):
        nothing, rows_next, far = (0, 0, 0), (0, 0, TILE_ROWS * (inner + 3)), 10**6
        for ahead in (nothing, rows_next, (5, 1, 0), (5, 3, 9), (far, width, 0), (0, 0, far), (0, 0, -far)):
            for rows in range(1, TILE_ROWS + 1):
                for columns in (1, width, width + 1, GROUP_PANELS * width):
                    found, wanted = products(code, dtype, rows, inner, columns, inner % 2, *ahead)
                    np.testing.assert_array_equal(found, wanted)


@pytest.mark.lengthy
@pytest.mark.parametrize("near", [0, tiles.NEAR_BYTES])
def test_far_rows_are_fetched_beside_the_same_sums(monkeypatch: pytest.MonkeyPatch, near: int) -> None:
    monkeypatch.setattr(tiles, "NEAR_BYTES", near)
    band = python_function(BAND, multiply_band=multiply_band, **NAMES)
    code = compiled(band)
    for rows in (0, 1, 6, 7, 25):
        found, wanted = products(code, "float32", rows, 40, 50, 0)
        np.testing.assert_array_equal(found, wanted)
    found, wanted = products(band, "float32", 8, 9, 17, 1)  # un-jitted
    np.testing.assert_array_equal(found, wanted)
