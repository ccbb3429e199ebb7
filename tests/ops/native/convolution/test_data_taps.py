"""Sums of shifted rows of data: machine code for every number of rows and columns; data outside are not read."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.native.jit.convolution.data_taps import COLUMN_WORDS, HEIGHTS, MOST_STEP, ZERO_BYTES, Steps, add_data_taps
from relayvm.ops.native.jit.convolution.image_rows import Image, Results
from relayvm.ops.native.jit.convolution.tap_columns import ColumnWeights, Taps

from ..front_end.machine_code import compiled, python_function
from .test_window_taps import elements_of

CALL = """
def f(
    data, n, at, height, width, row_stride, step, top, taps, first, zeros, weight, w_at, w_row, out, m, to, rows, columns
):
    x, w, y, z = array_{dtype}(data, n), array_{dtype}(weight, 64), array_{dtype}(out, m), array_{dtype}(zeros, 32)
    add_data_taps(
        Image(x, at, height, width, z), Steps(row_stride, step), top, Taps(array_int64(taps, 64), first),
        ColumnWeights(w, w_at, w_row), Results(y, to, rows, columns),
    )
    return 0
"""
#: The kernel and its operands, by name.
NAMES = {each.__name__: each for each in (add_data_taps, Image, Steps, Taps, ColumnWeights, Results)}


@pytest.mark.extensive(dtype=("float32",), nbytes=(64,))
@pytest.mark.parametrize("nbytes", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_shifted_rows_of_data(monkeypatch: pytest.MonkeyPatch, dtype: str, nbytes: int) -> None:
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: (32, nbytes))
    code = compiled(python_function(CALL.format(dtype=dtype), **NAMES))
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
                found, plain, wanted = np.tile(rng.integers(-9, 9, (rows + 2) * 43).astype(dtype), (3, 1))
                row_step, top = 1 + rows % 2, rows % 3
                given = 3, height, width, row_step, step, top, taps, 1, zeros, weight, 3, 4
                words = [v.ctypes.data if isinstance(v, np.ndarray) else v for v in given]
                code(data.ctypes.data, data.size, *words, found.ctypes.data, found.size, 43 + 2, rows, columns)
                add_data_taps(
                    Image(data, 3, height, width, zeros), Steps(row_step, step), top, Taps(taps, 1),
                    ColumnWeights(weight, 3, 4), Results(plain, 43 + 2, rows, columns),
                )  # fmt: skip
                sums = np.zeros((rows, columns))
                for (v, u, w), count in zip(starts, np.repeat(np.arange(len(heights)) + 1, heights), strict=True):
                    for t in range(count):
                        y, x = v + (top + t + np.arange(rows)) * row_step, u + np.arange(columns) * step
                        sums += weight[3 + w + 4 * t] * elements_of(data[3:-5].reshape(height, width), y, x)
                wanted[45 : 45 + sums.size] = sums.ravel()
                for each in (found, plain):
                    np.testing.assert_array_equal(each, wanted)
