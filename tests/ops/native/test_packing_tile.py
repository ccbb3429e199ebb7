"""Tiles that pack a panel: for the registers of any machine, the bits of other tiles, and a panel of the data."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.native.jit.convolution.clipped_tile import Clip, clip_rows
from relayvm.ops.native.jit.convolution.packing_tile import PACKING_ROWS, multiply_and_pack
from relayvm.ops.native.jit.products.operands import Rows
from relayvm.ops.native.jit.products.panel_products import multiply_panels
from relayvm.ops.native.jit.products.register_tile import TILE_ROWS, panel_width

from .front_end.machine_code import compiled, python_function
from .test_panel_products import MACHINES, RECORDS

CALL = """
def f(a, n_a, data, n_data, panels, n_panels, out, n_out, rows, inner, add, is_packing):
    x, y, p, z = array_{dtype}(a, n_a), array_{dtype}(data, n_data), array_{dtype}(panels, n_panels), array_{dtype}(out, n_out)
    clip = Clip(x, x, 3, -0.5, 1.25, True, True)
    if is_packing != 0:
        multiply_and_pack(Rows(x, 2, 50), Rows(y, 3, 70), p, 5, Rows(z, 7, 40), rows, inner, add, Rows(x, 9, 50), clip, add == 0)
    else:
        panel = Panels(p, 5, 0, n_panels // 52)
        multiply_panels(Rows(x, 2, 50), panel, Rows(z, 7, 40), rows, inner, panel.row, add, Ahead(0, 4, 4, Rows(x, 0, 0)))
        clip_rows(Rows(z, 7, 40), rows if add == 0 else 0, panel.row, clip)
    return 0
"""


@pytest.mark.extensive(machine=["avx512"], dtype=["float32"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_tile_packs_the_columns_that_it_multiplies(monkeypatch: pytest.MonkeyPatch, machine: str, dtype: str) -> None:
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: MACHINES[machine])
    bodies = {
        "multiply_and_pack": multiply_and_pack,
        "multiply_panels": multiply_panels,
        "clip_rows": clip_rows,
        "Clip": Clip,
        **RECORDS,
    }
    code, rng = compiled(python_function(CALL.format(dtype=dtype), **bodies)), np.random.default_rng(0)
    width = panel_width(np.dtype(dtype).itemsize)
    a, data = rng.standard_normal(2 + 50 * TILE_ROWS).astype(dtype), rng.standard_normal(3 + 70 * 48).astype(dtype)
    for rows in range(PACKING_ROWS, TILE_ROWS + 1):
        for inner in (0, 1, 4, 7, 48):
            for add in (0, 3):
                before, empty = rng.standard_normal(7 + 40 * TILE_ROWS).astype(dtype), np.full(52 * width, 9, dtype)
                results = [before.copy() for _ in range(3)]
                panels = [empty.copy() for _ in range(2)]

                def run(number: int, panel: np.ndarray, is_packing: int, sizes: tuple[int, ...], found: list[np.ndarray]) -> None:
                    arrays = (a, data, panel, found[number])
                    code(*[word for x in arrays for word in (x.ctypes.data, x.size)], *sizes, is_packing)

                run(0, panels[0], 1, (rows, inner, add), results)
                of_data, plain = Rows(data, 3, 70), Rows(results[1], 7, 40)
                clip, later = Clip(a, a, 3, -0.5, 1.25, True, True), Rows(a, 9, 50)
                multiply_and_pack(Rows(a, 2, 50), of_data, panels[1], 5, plain, rows, inner, add, later, clip, add == 0)
                packed = empty.copy()
                packed[5 : 5 + inner * width] = [data[3 + 70 * k + j] for k in range(inner) for j in range(width)]
                for panel in panels:
                    np.testing.assert_array_equal(panel, packed)
                run(2, packed, 0, (rows, inner, add), results)
                np.testing.assert_array_equal(results[0], results[2])  # the bits of other tiles
                np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=1e-4)
