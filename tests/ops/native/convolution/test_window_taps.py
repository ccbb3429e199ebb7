"""Sums over square windows: machine code for every number of rows and columns; nothing outside is read or written."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.native.jit.convolution.data_taps import MOST_STEP, ZERO_BYTES
from relayvm.ops.native.jit.convolution.image_rows import Image, Results, Weights
from relayvm.ops.native.jit.convolution.window_taps import LARGE_WINDOW, WINDOW, Limits, Planes, Windows, add_windows, reads_zeros

from ..front_end.machine_code import compiled, python_function

CALL = """
def f(data, n, at, height, width, step, first_row, first_column, size, zeros, weight, w_at, w_step, out, m, to, rows, columns,
      count, x_apart, w_apart, y_apart, later, addends, bounds, is_limited):
    x, w, y, z = array_{dtype}(data, n), array_{dtype}(weight, 128), array_{dtype}(out, m), array_{dtype}(zeros, 48)
    a, l = array_{dtype}(addends, 8), array_{dtype}(bounds, 2)
    add_windows(
        Image(x, at, height, width, z), Windows(first_row, first_column, step, size), Weights(w, w_at, w_step),
        Results(y, to, rows, columns), Planes(count, x_apart, w_apart, y_apart, later),
        Limits(a, 2, l[0], l[1], is_limited != 0),
    )
    return 0
"""

#: The kernel and its operands, by name.
NAMES = {each.__name__: each for each in (add_windows, Image, Windows, Weights, Results, Planes, Limits)}
#: Bounds of results; the first leave results as they are.
BOUNDS = (-np.inf, np.inf), (0.0, 6.0), (0.0, np.inf), (-np.inf, 5.0)


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
@pytest.mark.parametrize("size", [WINDOW, LARGE_WINDOW])
def test_sums_over_windows(monkeypatch: pytest.MonkeyPatch, dtype: str, step: int, size: int, nbytes: int) -> None:
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: (32, nbytes))
    code = compiled(python_function(CALL.format(dtype=dtype), **NAMES))
    rng, weight = np.random.default_rng(0), np.random.default_rng(1).integers(-4, 5, 128).astype(dtype)
    zeros, addends = zeros_before_nan(dtype), np.array([np.nan, np.nan, 3, -7, 2, *[np.nan] * 3], dtype)
    for number, (height, width) in enumerate([(1, 1), (2, 5), (7, 7), (5, 9), (4, 18), (9, 40)]):
        # around the data are elements that would change every sum
        count, apart = 1 + number % 3, height * width + 4
        data = np.full(3 + count * apart + 5, np.nan, dtype)
        images = rng.integers(-9, 9, (count, height, width))
        for n, image in enumerate(images):
            data[3 + n * apart :][: image.size] = image.ravel()
        for rows, columns in [(1, 1), (1, 7), (2, 3), (3, 4), (9, 1), (4, 7), (3, 8), (2, 9), (5, 14), (3, 17), (2, 39)]:
            first_row, first_column = int(rng.integers(-4, 3)), int(rng.integers(-9, 4))
            # results behind those of a plane keep their elements, though rows shorter than a vector are stored as vectors
            between, w_step = rows * columns + 3, 1 + rows % 3
            found, plain, wanted = np.tile(rng.integers(-9, 9, 21 + count * between + 40).astype(dtype), (3, 1))
            given = 3, height, width, step, first_row, first_column, size, zeros, weight, 3, w_step
            planes, is_limited = Planes(count, apart, 11, between, 1024), bool(rows % 2)
            bounds = rng.choice(np.array(BOUNDS, dtype)) if is_limited else np.array(BOUNDS[0], dtype)
            words = [v.ctypes.data if isinstance(v, np.ndarray) else v for v in given]
            code(
                data.ctypes.data, data.size, *words, found.ctypes.data, found.size, 21, rows, columns, *planes,
                addends.ctypes.data, bounds.ctypes.data, is_limited,
            )  # fmt: skip
            add_windows(
                Image(data, 3, height, width, zeros), Windows(first_row, first_column, step, size), Weights(weight, 3, w_step),
                Results(plain, 21, rows, columns), planes, Limits(addends, 2, *bounds, is_limited),
            )  # fmt: skip
            for p, image in enumerate(images):
                sums = np.full((rows, columns), addends[2 + p] if is_limited else 0, dtype)
                for n, (t, u) in enumerate(np.ndindex(size, size)):
                    y, x = first_row + t + np.arange(rows) * step, first_column + u + np.arange(columns) * step
                    sums += weight[3 + p * 11 + n * w_step] * elements_of(image, y, x)
                wanted[21 + p * between :][: sums.size] = np.clip(sums, *bounds).ravel()
            for each in (found, plain):
                np.testing.assert_array_equal(each, wanted, f"{height, width, rows, columns, first_row, first_column}")
    assert weight.size >= 3 + 2 * 11 + size * size * 3


@pytest.mark.parametrize("size", [WINDOW, LARGE_WINDOW])
def test_a_sum_has_the_same_bits_in_any_strip(size: int) -> None:
    """A row cut after any column, and rows computed apart, have the bits of all rows together."""
    code = compiled(python_function(CALL.format(dtype="float32"), **NAMES))
    rng = np.random.default_rng(2)
    height, width, weight, zeros = 6, 29, rng.standard_normal(128).astype("f"), zeros_before_nan("float32")
    data, bounds = rng.standard_normal(height * width).astype("f"), np.array(BOUNDS[0], "f")

    def run(first_row: int, first_column: int, rows: int, columns: int) -> np.ndarray:
        out = np.zeros((rows, columns), "f")
        code(
            data.ctypes.data, data.size, 0, height, width, 1, first_row, first_column, size, zeros.ctypes.data,
            weight.ctypes.data, 0, 1, out.ctypes.data, out.size, 0, rows, columns, 1, 0, 0, 0, 0,
            bounds.ctypes.data, bounds.ctypes.data, False,
        )  # fmt: skip
        return out

    whole = run(-1, -1, height, width)
    for columns in (1, 5, 8, 13, 28):
        np.testing.assert_array_equal(run(-1, -1, height, columns), whole[:, :columns])
        np.testing.assert_array_equal(run(-1, columns - 1, height, width - columns), whole[:, columns:])
    for row in range(height):
        np.testing.assert_array_equal(run(row - 1, -1, 1, width)[0], whole[row])


@pytest.mark.filterwarnings("ignore:invalid value")  # of lanes behind the row: 0 times infinity
@pytest.mark.parametrize("size", [WINDOW, LARGE_WINDOW])
def test_a_row_outside_adds_nothing(size: int) -> None:
    """An infinite weight meets only the elements of its row: 0 times infinity is NaN, where a row outside is read from zeros."""
    data, out, bounds = -np.ones(3 * 4, "f"), np.zeros(3 * 4, "f"), np.array(BOUNDS[0], "f")
    zeros, outside = np.zeros(ZERO_BYTES, "f"), np.nan if reads_zeros(size, 1) else 0
    weight = np.zeros(size * size, "f")
    weight[size // 2] = np.inf  # in the first row
    add_windows(
        Image(data, 0, 3, 4, zeros), Windows(-1, 0, 1, size), Weights(weight, 0, 1), Results(out, 0, 3, 4 - size // 2),
        Planes(1, 0, 0, 0, 0), Limits(bounds, 0, *bounds, False),
    )  # fmt: skip
    rows = out[: 3 * (4 - size // 2)].reshape(3, -1)
    np.testing.assert_array_equal(rows, np.repeat(np.array([[outside], [-np.inf], [-np.inf]], "f"), rows.shape[1], axis=1))
