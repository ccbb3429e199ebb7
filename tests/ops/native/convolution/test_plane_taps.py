"""Sums of shifted rows: machine code for every number of rows and columns, and nothing outside the result is written."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.native.jit.convolution.plane_taps import HEIGHTS, add_taps, read_ahead
from relayvm.ops.native.jit.convolution.tap_columns import ColumnWeights, Taps
from relayvm.ops.native.jit.products.operands import Rows

from ..front_end.machine_code import compiled, python_function

CALL = """
def f(plane, n, at, row_step, taps, first, weight, w_at, w_row, out, m, to, out_row, rows, columns, add):
    x, w, y = array_{dtype}(plane, n), array_{dtype}(weight, 64), array_{dtype}(out, m)
    weights = ColumnWeights(w, w_at, w_row)
    add_taps(Rows(x, at, row_step), Taps(array_int64(taps, 64), first), weights, Rows(y, to, out_row), rows, columns, add)
    return 0
"""
#: The kernel and its operands, by name.
NAMES = {each.__name__: each for each in (add_taps, Rows, Taps, ColumnWeights)}


@pytest.mark.extensive(dtype=("float32",), nbytes=(64,))
@pytest.mark.parametrize("nbytes", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_shifted_rows(monkeypatch: pytest.MonkeyPatch, dtype: str, nbytes: int) -> None:
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: (32, nbytes))
    code = compiled(python_function(CALL.format(dtype=dtype), **NAMES))
    rng, ahead = np.random.default_rng(0), read_ahead(np.dtype(dtype).itemsize)
    row_step, weight = 50, rng.integers(-4, 5, 64).astype(dtype)
    for rows in (1, 2, 3, 5, 7, 8, 14):
        plane = rng.integers(-9, 9, 4 + (rows + HEIGHTS - 1) * row_step + 70 + ahead).astype(dtype)
        cases = [(1, [1], 0), (15, [0, 0, 3], 1), (16, [1, 1], 0), (17, [2, 0, 1, 1], 5), (39, [1, 2, 0, 1, 5], 0)]
        for columns, heights, add in cases:
            numbers = [*heights, *[0] * (HEIGHTS - len(heights))]
            pairs = [(rng.integers(0, 70), rng.integers(0, 10)) for _ in range(sum(heights))]
            taps = np.array([-9, *numbers, *np.ravel(pairs), *[-9] * 64], np.int64)[:64]
            found, plain, wanted = np.tile(rng.integers(-9, 9, (rows + 2, 43)).astype(dtype), (3, 1, 1))
            given = 4, row_step, taps, 1, weight, 3, 4
            words = [v.ctypes.data if isinstance(v, np.ndarray) else v for v in given]
            code(plane.ctypes.data, plane.size, *words, found.ctypes.data, found.size, 43 + 2, 43, rows, columns, add)
            weights = ColumnWeights(weight, 3, 4)
            add_taps(Rows(plane, 4, row_step), Taps(taps, 1), weights, Rows(plain, 43 + 2, 43), rows, columns, add)
            sums = wanted[1 : 1 + rows, 2 : 2 + columns]
            sums *= add != 0
            for (start, w), count in zip(pairs, np.repeat(np.arange(len(heights)) + 1, heights), strict=True):
                for t in range(count):
                    operands = 4 + start + (np.arange(rows)[:, None] + t) * row_step + np.arange(columns)
                    sums += weight[3 + w + 4 * t] * plane[operands]
            for each in (found, plain):
                np.testing.assert_array_equal(each, wanted)
