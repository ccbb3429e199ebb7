"""Sums over windows of 3 x 3: machine code for every number of rows and columns; nothing outside is read or written."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.native.jit.convolution.data_taps import MOST_STEP, ZERO_BYTES
from relayvm.ops.native.jit.convolution.image_rows import Image, Results, Weights
from relayvm.ops.native.jit.convolution.window_taps import WINDOW, Later, Limits, Windows, add_windows

from ..front_end.machine_code import compiled, python_function

CALL = """
def f(data, n, at, height, width, step, first_row, first_column, zeros, weight, w_at, w_step, out, m, to, rows, columns, ahead,
      limits):
    l = array_{dtype}(limits, 3)
    x, w, y, z = array_{dtype}(data, n), array_{dtype}(weight, 32), array_{dtype}(out, m), array_{dtype}(zeros, 32)
    add_windows(
        Image(x, at, height, width, z), Windows(first_row, first_column, step), Weights(w, w_at, w_step),
        Results(y, to, rows, columns), Later(ahead, 2 * ahead), Limits(l[0], l[1], l[2]),
    )
    return 0
"""

#: The kernel and its operands, by name.
NAMES = {each.__name__: each for each in (add_windows, Image, Windows, Weights, Results, Later, Limits)}
#: Addends with the bounds of the results; the first leaves results as they are.
LIMITS = (-0.0, -np.inf, np.inf), (3.0, 0.0, 6.0), (-7.0, 0.0, np.inf), (2.0, -np.inf, 5.0)


def zeros_before_nan(dtype: str) -> np.ndarray:
    """ZERO_BYTES of zeros; the elements behind them would change every sum."""
    zeros = np.full(2 * ZERO_BYTES // np.dtype(dtype).itemsize, np.nan, dtype)
    zeros[: len(zeros) // 2] = 0
    return zeros


def elements_of(image: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The elements in some rows and columns, 0 outside the image."""
    inside = [(n >= 0) & (n < size) for n, size in zip((rows, columns), image.shape, strict=True)]
    near = [np.clip(n, 0, size - 1) for n, size in zip((rows, columns), image.shape, strict=True)]
    return np.where(np.outer(*inside), image[np.ix_(*near)], 0)


@pytest.mark.extensive(dtype=("float32",), nbytes=(64,))
@pytest.mark.parametrize("nbytes", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("step", range(1, MOST_STEP + 1))
def test_sums_over_windows(monkeypatch: pytest.MonkeyPatch, dtype: str, step: int, nbytes: int) -> None:
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: (32, nbytes))
    code = compiled(python_function(CALL.format(dtype=dtype), **NAMES))
    rng, weight = np.random.default_rng(0), np.random.default_rng(1).integers(-4, 5, 32).astype(dtype)
    zeros = zeros_before_nan(dtype)
    for height, width in [(1, 1), (2, 5), (7, 7), (5, 9), (4, 18), (9, 40)]:
        # around the data are elements that would change every sum
        data = np.full(3 + height * width + 5, np.nan, dtype)
        data[3:-5] = rng.integers(-9, 9, height * width)
        for rows, columns in [(1, 1), (1, 7), (2, 3), (3, 4), (9, 1), (4, 7), (3, 8), (2, 9), (5, 14), (3, 17), (2, 39)]:
            first_row, first_column = int(rng.integers(-4, 3)), int(rng.integers(-9, 4))
            # results behind the last keep their elements, though rows shorter than a vector are stored as vectors
            found, plain, wanted = np.tile(rng.integers(-9, 9, rows * columns + 43).astype(dtype), (3, 1))
            given = 3, height, width, step, first_row, first_column, zeros, weight, 3, 1 + rows % 3
            words = [v.ctypes.data if isinstance(v, np.ndarray) else v for v in given]
            limits = rng.choice(np.array(LIMITS, dtype))
            code(data.ctypes.data, data.size, *words, found.ctypes.data, found.size, 21, rows, columns, 1024, limits.ctypes.data)
            add_windows(
                Image(data, 3, height, width, zeros), Windows(first_row, first_column, step), Weights(weight, 3, 1 + rows % 3),
                Results(plain, 21, rows, columns), Later(1024, 2048), Limits(*limits),
            )  # fmt: skip
            sums, image = np.full((rows, columns), limits[0]), data[3:-5].reshape(height, width)
            for n, (t, u) in enumerate(np.ndindex(WINDOW, WINDOW)):
                y, x = first_row + t + np.arange(rows) * step, first_column + u + np.arange(columns) * step
                sums += weight[3 + n * (1 + rows % 3)] * elements_of(image, y, x)
            wanted[21 : 21 + sums.size] = np.clip(sums, *limits[1:]).ravel()
            for each in (found, plain):
                np.testing.assert_array_equal(each, wanted, f"{height, width, rows, columns, first_row, first_column}")
    assert weight.size >= 3 + WINDOW * WINDOW * 3


def test_a_sum_has_the_same_bits_in_any_strip() -> None:
    """A row cut after any column, and rows computed apart, have the bits of all rows together."""
    code = compiled(python_function(CALL.format(dtype="float32"), **NAMES))
    rng = np.random.default_rng(2)
    height, width, weight, zeros = 6, 29, rng.standard_normal(32).astype("f"), zeros_before_nan("float32")
    data, limits = rng.standard_normal(height * width).astype("f"), np.array(LIMITS[0], "f")

    def run(first_row: int, first_column: int, rows: int, columns: int) -> np.ndarray:
        out = np.zeros((rows, columns), "f")
        code(
            data.ctypes.data, data.size, 0, height, width, 1, first_row, first_column, zeros.ctypes.data, weight.ctypes.data, 0,
            1, out.ctypes.data, out.size, 0, rows, columns, 0, limits.ctypes.data,
        )  # fmt: skip
        return out

    whole = run(-1, -1, height, width)
    for columns in (1, 5, 8, 13, 28):
        np.testing.assert_array_equal(run(-1, -1, height, columns), whole[:, :columns])
        np.testing.assert_array_equal(run(-1, columns - 1, height, width - columns), whole[:, columns:])
    for row in range(height):
        np.testing.assert_array_equal(run(row - 1, -1, 1, width)[0], whole[row])
