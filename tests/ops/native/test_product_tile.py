"""Tiles of products: for the registers of any machine, every number of rows and columns, and nothing outside is written."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from relayvm.ops.native.jit import product_tile
from relayvm.ops.native.jit.product_tile import TILE_ROWS, RegisterTile, multiply_panel, panel_width

#: Registers of 16, 32 and 64 bytes; sums in 24, 12 and 24 of them.
TILES = {
    "neon": lambda itemsize: RegisterTile(4, 16 // itemsize),
    "avx": lambda itemsize: RegisterTile(2, 32 // itemsize),
    "avx512": lambda itemsize: RegisterTile(4, 64 // itemsize),
}


def machine_code(monkeypatch: pytest.MonkeyPatch, machine: str) -> Any:
    """``multiply_panel`` compiled for the registers of a machine."""
    monkeypatch.setattr(product_tile, "register_tile", TILES[machine])
    tile = product_tile._machine()

    @numba.njit
    def multiply(a, a_at, a_row, panel, panel_at, out, out_at, out_row, rows, inner, columns, add):  # type: ignore[no-untyped-def]
        tile(a, a_at, a_row, panel, panel_at, out, out_at, out_row, rows, inner, columns, add)

    return multiply


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("machine", TILES)
@pytest.mark.extensive(machine=["avx512"], dtype=["float32"])
def test_a_tile_is_a_product(monkeypatch: pytest.MonkeyPatch, machine: str, dtype: str) -> None:
    rng, multiply = np.random.default_rng(0), machine_code(monkeypatch, machine)
    width = panel_width(np.dtype(dtype).itemsize)
    for inner in (0, 1, 5):
        a = rng.standard_normal((TILE_ROWS + 1, inner + 2)).astype(dtype)
        panel = rng.standard_normal((inner + 1, width)).astype(dtype)
        for rows in range(1, TILE_ROWS + 1):
            for columns in (1, width // 8, width // 4 + 1, width - 1, width):
                for add in (0, 7):
                    before = rng.standard_normal((rows + 2, width + 3)).astype(dtype)
                    wanted, found = before.copy(), before.copy()
                    block = wanted[1 : 1 + rows, 2 : 2 + columns]
                    block[...] = (block if add else 0) + a[1 : 1 + rows, 1 : 1 + inner] @ panel[1:, :columns]
                    places = (inner + 2 + 1, inner + 2, panel, width, found, width + 3 + 2, width + 3, rows, inner, columns, add)
                    multiply(a, *places)
                    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
                    outside = np.ones(before.shape, bool)
                    outside[1 : 1 + rows, 2 : 2 + columns] = False
                    np.testing.assert_array_equal(found[outside], before[outside])


def test_the_plain_form_is_the_same_product(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, multiply = np.random.default_rng(1), machine_code(monkeypatch, "avx")
    a, panel = rng.integers(-9, 9, (3, 4)).astype("float32"), rng.integers(-9, 9, (4, 64)).astype("float32")
    found, plain = np.ones((2, 3, 50), "float32")
    multiply(a, 0, 4, panel, 0, found, 0, 50, 3, 4, 50, 1)
    multiply_panel(a, 0, 4, panel, 0, plain, 0, 50, 3, 4, 50, 1)
    np.testing.assert_array_equal(found, plain)
