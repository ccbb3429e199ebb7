"""Sums of shifted rows: machine code for every number of rows and columns, and nothing outside the result is written."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.native.jit.plane_taps import add_taps, read_ahead

from .front_end.machine_code import compiled, python_function

CALL = """
def f(plane, n, at, row_step, starts, first, taps, weight, w_at, w_step, out, m, to, out_row, rows, columns, add):
    x, w, y = array_{dtype}(plane, n), array_{dtype}(weight, 64), array_{dtype}(out, m)
    add_taps(x, at, row_step, array_int64(starts, 64), first, taps, w, w_at, w_step, y, to, out_row, rows, columns, add)
    return 0
"""


@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_shifted_rows(dtype: str) -> None:
    code = compiled(python_function(CALL.format(dtype=dtype), add_taps=add_taps))
    rng, ahead = np.random.default_rng(0), read_ahead(np.dtype(dtype).itemsize)
    row_step, weight = 50, rng.integers(-4, 5, 64).astype(dtype)
    starts = np.concatenate([[-9], rng.integers(0, 70, 63)]).astype(np.int64)
    for rows in (1, 2, 3, 5, 7, 8, 14):
        plane = rng.integers(-9, 9, 4 + rows * row_step + 70 + ahead).astype(dtype)
        for columns, taps, add in [(1, 1, 0), (15, 9, 1), (16, 3, 0), (17, 2, 5), (39, 25, 0)]:
            found, plain = np.tile(rng.integers(-9, 9, (rows + 2, 43)).astype(dtype), (2, 1, 1))
            given = 4, row_step, starts, 1, taps, weight, 3, 2
            words = [v.ctypes.data if isinstance(v, np.ndarray) else v for v in given]
            code(plane.ctypes.data, plane.size, *words, found.ctypes.data, found.size, 43 + 2, 43, rows, columns, add)
            add_taps(plane, *given, plain, 43 + 2, 43, rows, columns, add)
            np.testing.assert_array_equal(found, plain)
