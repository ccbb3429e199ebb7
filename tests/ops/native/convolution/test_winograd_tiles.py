"""Transformations of Winograd's algorithm: machine code for every number of tiles; nothing outside the data is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.ops.native.jit.convolution.image_rows import Image
from relayvm.ops.native.jit.convolution.winograd_axis import AXES, RESULTS
from relayvm.ops.native.jit.convolution.winograd_tiles import (
    LEAST_LANES,
    ZERO_BYTES,
    Elements,
    Pairs,
    transform_data,
    transform_sums,
)
from relayvm.ops.native.jit.products.register_tile import PANEL_BYTES

from ..front_end.machine_code import compiled, python_function

LANES = PANEL_BYTES // 4
DATA = """
def f(data, n, at, height, width, first_row, first_column, channel, channels, zeros, z, out, m, to, step, row, count, stride):
    x, y = array_float32(data, n), array_float32(out, m)
    image = Image(x, at, height, width, array_float32(zeros, z))
    transform_data(image, channel, channels, first_row, first_column, Elements(y, to, step, row), count, stride)
    return 0
"""
SUMS = """
def f(sums, n, at, step, row, channels, out, m, to, out_row, below, count, stride):
    x, y = array_float32(sums, n), array_float32(out, m)
    transform_sums(Elements(x, at, step, row), Pairs(y, to, out_row, below), channels, count, stride)
    return 0
"""


def numbers(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, size).astype("float32")


def along_both(combinations: tuple[Any, ...], tiles: np.ndarray) -> np.ndarray:
    """The combinations of the elements of each row of ``tiles[..., y, x]``, then of each column."""
    matrix = np.zeros((len(combinations), tiles.shape[-1]), tiles.dtype)
    for n, terms in enumerate(combinations):
        for sign, element in terms:
            matrix[n, element] = sign
    return matrix @ tiles @ matrix.T


@pytest.mark.split(3)
@pytest.mark.parametrize("stride", AXES)
@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 9, 12, 13, 16, 21, 40])
def test_data_of_tiles(count: int, stride: int) -> None:
    products = AXES[stride].tile ** 2
    code = compiled(python_function(DATA, transform_data=transform_data, Image=Image, Elements=Elements))
    zeros, rng = np.zeros(ZERO_BYTES // 4, "float32"), np.random.default_rng(count)
    for height, width, channels in [(1, 1, 2), (4, 5, 1), (6, 40, 3), (3, 100, 2), (5, 18, 0)]:
        # around the data are elements that would change every result; between channels, too
        channel = height * width + 2
        data = np.full(3 + max(channels, 1) * channel, np.nan, "float32")
        inside = data[3:].reshape(-1, channel)[:, :-2]
        inside[...] = numbers(inside.size, count).reshape(inside.shape)
        row = count + LEAST_LANES + 1
        step = channels * row + 3
        for _ in range(6):
            first_row, first_column = int(rng.integers(-5, height + 2)), int(rng.integers(-9, 4))
            given = 3, height, width, first_row, first_column, channel, channels
            found = np.full(5 + products * step + 2 * LANES, 77, "float32")
            plain = found.copy()
            code(
                data.ctypes.data, data.size, *given, zeros.ctypes.data, zeros.size, found.ctypes.data, found.size, 5, step, row,
                count, stride,
            )  # fmt: skip
            image, to = Image(data, 3, height, width, zeros), Elements(plain, 5, step, row)
            transform_data(image, channel, channels, first_row, first_column, to, count, stride)
            # elements behind a row of tiles are overwritten, up to a multiple of LEAST_LANES
            free = np.zeros(found.size, bool)
            for n in range(products):
                for i in range(channels):
                    end = 5 + n * step + i * row + count
                    free[end : end + -count % LEAST_LANES] = True
            np.testing.assert_array_equal(found[~free], plain[~free], err_msg=f"{given}")
            assert np.isfinite(found).all()
            around = np.zeros((channels, height + 20, max(width, 4 * count) + 40), "float32")  # the data among zeros
            around[:, 10 : 10 + height, 10 : 10 + width] = inside.reshape(-1, height, width)[:channels]
            side, rows = AXES[stride].tile, min(first_row, height + 4) + 10
            for j in range(count):
                column = first_column + AXES[stride].step * j + 10
                tile = along_both(AXES[stride].data, around[:, rows : rows + side, column : column + side])
                positions = 5 + np.arange(products) * step + np.arange(channels)[:, None] * row + j
                np.testing.assert_array_equal(found[positions], tile.reshape(channels, products))


@pytest.mark.parametrize("stride", AXES)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 35])
def test_results_of_tiles(count: int, stride: int) -> None:
    products = AXES[stride].tile ** 2
    code = compiled(python_function(SUMS, transform_sums=transform_sums, Pairs=Pairs, Elements=Elements))
    pitch = -(-count // LANES) * LANES
    for channels in (0, 1, 3):
        row, step = pitch + 1, channels * (pitch + 1) + 2
        sums = numbers(3 + products * step + LANES, count)
        below = RESULTS * pitch
        out_row = RESULTS * below + 1
        found = np.full(4 + channels * out_row + 5, 77, "float32")
        plain = found.copy()
        code(sums.ctypes.data, sums.size, 3, step, row, channels, found.ctypes.data, found.size, 4, out_row, below, count, stride)
        transform_sums(Elements(sums, 3, step, row), Pairs(plain, 4, out_row, below), channels, count, stride)
        own = np.zeros(found.size, bool)
        for i in range(channels):
            for y in range(RESULTS):
                first = 4 + i * out_row + y * below
                own[first : first + RESULTS * count] = True
                # behind the results of the tiles are those of lanes without a tile
                found[first + RESULTS * count : first + below] = 77
                plain[first + RESULTS * count : first + below] = 77
                positions = 3 + np.arange(products) * step + i * row + np.arange(count)[:, None]
                tiles = along_both(AXES[stride].sums, sums[positions].reshape(count, AXES[stride].tile, AXES[stride].tile))
                np.testing.assert_array_equal(found[first : first + RESULTS * count], tiles[:, y].reshape(-1))
        np.testing.assert_array_equal(found, plain)
        assert (plain[own] != 77).all() and (plain[~own] == 77).all()
