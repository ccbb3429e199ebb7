"""Sums of shifted rows of data: machine code for every number of rows and columns; data outside are not read."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.native.jit.convolution.data_taps import COLUMN_WORDS, HEIGHTS, MOST_STEP, ZERO_BYTES, add_data_taps

from ..front_end.machine_code import compiled, python_function

CALL = """
def f(
    data, n, at, height, width, row_stride, step, top, taps, first, zeros, weight, w_at, w_step, w_row, out, m, to, rows, columns
):
    x, w, y, z = array_{dtype}(data, n), array_{dtype}(weight, 64), array_{dtype}(out, m), array_{dtype}(zeros, 32)
    t = array_int64(taps, 64)
    add_data_taps(x, at, height, width, row_stride, step, top, t, first, z, w, w_at, w_step, w_row, y, to, rows, columns)
    return 0
"""


@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_shifted_rows_of_data(dtype: str) -> None:
    code = compiled(python_function(CALL.format(dtype=dtype), add_data_taps=add_data_taps))
    rng, weight = np.random.default_rng(0), np.random.default_rng(1).integers(-4, 5, 64).astype(dtype)
    zeros = np.zeros(ZERO_BYTES // np.dtype(dtype).itemsize, dtype)
    for rows, height, width in [(1, 1, 1), (2, 5, 9), (5, 4, 17), (7, 9, 40), (14, 20, 33)]:
        # around the data are elements that would change every sum
        data = np.full(3 + height * width + 5, np.nan, dtype)
        data[3:-5] = rng.integers(-9, 9, height * width)
        cases = [(1, [1]), (15, [0, 0, 3]), (16, [1, 1]), (17, [2, 0, 1]), (39, [1, 2, 3])]
        for columns, heights in cases:
            for step in range(1, MOST_STEP + 1):
                starts = [(rng.integers(-6, 3), rng.integers(-9, 20), rng.integers(0, 10)) for _ in range(sum(heights))]
                table = [-9, *heights, *[0] * (HEIGHTS - len(heights)), *np.ravel(starts)]
                taps = np.array([*table, *[-9] * 64], np.int64)[:64]
                assert len(table) == 1 + HEIGHTS + COLUMN_WORDS * sum(heights) <= 64
                found, plain = np.tile(rng.integers(-9, 9, (rows + 2) * 43).astype(dtype), (2, 1))
                given = 3, height, width, 1 + rows % 2, step, rows % 3, taps, 1, zeros, weight, 3, 2, 4
                words = [v.ctypes.data if isinstance(v, np.ndarray) else v for v in given]
                code(data.ctypes.data, data.size, *words, found.ctypes.data, found.size, 43 + 2, rows, columns)
                add_data_taps(data, *given, plain, 43 + 2, rows, columns)
                np.testing.assert_array_equal(found, plain)
