"""Tiles of neighbours by panels: for the registers of any machine, the bits of other tiles; nothing else is written."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.native.jit.convolution.transposed_tile import multiply_transposed, square_side, turn_square
from relayvm.ops.native.jit.products.operands import Panels, Rows
from relayvm.ops.native.jit.products.panel_products import multiply_panels
from relayvm.ops.native.jit.products.register_tile import TILE_ROWS, panel_width

from ..front_end.machine_code import compiled, python_function
from ..test_panel_products import MACHINES, RECORDS

CALL = """
def f(a, n_a, panels, n_panels, out, n_out, step, columns, rows, inner, add, is_turned):
    x, p, z = array_{dtype}(a, n_a), array_{dtype}(panels, n_panels), array_{dtype}(out, n_out)
    if is_turned != 0:
        multiply_transposed(Rows(x, 2, 70), Panels(p, 5, step, {width}), Rows(z, 7, 80), rows, inner, columns, add)
    else:
        ahead = Ahead(0, 4, 4, Rows(x, 0, 0))
        multiply_panels(Rows(x, 2, 50), Panels(p, 5, step, {width}), Rows(z, 7, 80), rows, inner, columns, add, ahead)
    return 0
"""


@pytest.mark.extensive(machine=["avx512"], dtype=["float32"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_tile_of_neighbours(monkeypatch: pytest.MonkeyPatch, machine: str, dtype: str) -> None:
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: MACHINES[machine])
    bodies = {"multiply_transposed": multiply_transposed, "multiply_panels": multiply_panels, **RECORDS}
    width = panel_width(np.dtype(dtype).itemsize)
    code = compiled(python_function(CALL.format(dtype=dtype, width=width), **bodies))
    rng, step = np.random.default_rng(0), 48 * width
    panels, data = rng.standard_normal(5 + 4 * step).astype(dtype), rng.standard_normal((48, 70)).astype(dtype)
    by_columns = np.concatenate([np.zeros(2, dtype), data.ravel()])
    by_rows = np.concatenate([np.zeros(2, dtype), np.pad(data.T, [(0, 0), (0, 2)]).ravel()])
    for rows in range(1, TILE_ROWS + 1):
        for columns, inner, add in [(width, 48, 0), (width, 7, 3), (4 * width, 4, 0), (3 * width - 1, 1, 2), (1, 0, 0)]:
            before = rng.standard_normal(7 + 80 * TILE_ROWS).astype(dtype)
            transposed, other, plain = (before.copy() for _ in range(3))
            for is_transposed, a, out in [(1, by_columns, transposed), (0, by_rows, other)]:
                words = [word for x in (a, panels, out) for word in (x.ctypes.data, x.size)]
                code(*words, step, columns, rows, inner, add, is_transposed)
            np.testing.assert_array_equal(transposed, other)  # the bits of other tiles
            of_panels, results = Panels(panels, 5, step, width), Rows(plain, 7, 80)
            multiply_transposed(Rows(by_columns, 2, 70), of_panels, results, rows, inner, columns, add)
            np.testing.assert_allclose(transposed, plain, rtol=1e-4, atol=1e-4)


TURN = """
def f(source, n_source, target, n_target, stride, to_stride):
    x, y = array_{dtype}(source, n_source), array_{dtype}(target, n_target)
    turn_square(x, 3, stride, y, 5, to_stride)
    return square_side(x)
"""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_square_is_turned(monkeypatch: pytest.MonkeyPatch, machine: str, dtype: str) -> None:
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: MACHINES[machine])
    code = compiled(python_function(TURN.format(dtype=dtype), turn_square=turn_square, square_side=square_side))
    source, target = np.arange(600, dtype=dtype), np.zeros(600, dtype)
    side = code(source.ctypes.data, 600, target.ctypes.data, 600, 33, 17)
    wanted = np.zeros(600, dtype)
    for r in range(side):
        wanted[5 + 17 * r : 5 + 17 * r + side] = source[3 + r : 3 + r + 33 * side : 33]
    np.testing.assert_array_equal(target, wanted)
