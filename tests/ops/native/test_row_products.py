"""Products of rows with rows: machine code for every number of rows and columns, and nothing outside the result is written."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.native.jit.products.operands import Rows
from relayvm.ops.native.jit.products.register_tile import TILE_ROWS
from relayvm.ops.native.jit.products.row_products import multiply_by_rows

from .front_end.machine_code import compiled, python_function

CALL = """
def f(a, n, b, m, out, size, rows, inner, columns, add):
    x, y, z = array_{dtype}(a, n), array_{dtype}(b, m), array_{dtype}(out, size)
    multiply_by_rows(Rows(x, 3, 90), Rows(y, 2, 85), Rows(z, 9, 7), rows, inner, columns, add)
    return 0
"""


@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_rows(dtype: str) -> None:
    code = compiled(python_function(CALL.format(dtype=dtype), multiply_by_rows=multiply_by_rows, Rows=Rows))
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, 3 + 90 * TILE_ROWS).astype(dtype), rng.integers(-9, 9, 2 + 85 * 4).astype(dtype)
    for rows in range(1, TILE_ROWS + 1):
        for inner, columns, add in [(0, 2, 1), (1, 1, 0), (15, 3, 1), (16, 0, 0), (64, 4, 0), (83, 2, 5)]:
            found, plain, wanted = np.tile(rng.integers(-9, 9, 9 + 7 * TILE_ROWS + 4).astype(dtype), (3, 1))
            code(a.ctypes.data, a.size, b.ctypes.data, b.size, found.ctypes.data, found.size, rows, inner, columns, add)
            multiply_by_rows(Rows(a, 3, 90), Rows(b, 2, 85), Rows(plain, 9, 7), rows, inner, columns, add)
            rows_of_a, rows_of_b = a[3:][:540].reshape(6, 90)[:rows, :inner], b[2:].reshape(4, 85)[:columns, :inner]
            results = wanted[9 : 9 + 7 * rows].reshape(rows, 7)[:, :columns]
            results[:] = (results if add else 0) + rows_of_a @ rows_of_b.T
            np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(plain, wanted)
