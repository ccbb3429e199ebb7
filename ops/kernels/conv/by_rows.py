"""Convolution of one tap, channels first, of pictures of few positions: rows of the weight by columns of the data, turned.

Vectors hold input channels.  The weight is read where it is, as one stream for each row; a vector of positions would be half
empty with 9, a picture of 3 x 3.  The columns of a few pictures are turned into rows, once for all output channels.

Every element of the result is one sum over input channels, those of a vector apart: the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...native.front_end.vector_hints import add_product_in_any_order as with_product
from ...native.memory import Array, Element, generic
from .by_positions import turn

#: Input channels of a part: the rows of a tile, and a column, stay in the first cache.
INNER = 2048
#: Output channels and columns of a block, whose sums are in registers, and output channels of a tile: two blocks.
BLOCK_ROWS, BLOCK_COLUMNS, TILE_ROWS = 4, 3, 8
#: Positions of the pictures that are multiplied by a tile, unless one picture has more.
TOGETHER = 72


@generic
def images_together(positions: int) -> int:
    """The pictures that are multiplied by a tile of rows before the next."""
    return max(TOGETHER // max(positions, 1), 1)


@generic
def store_three(out: Array, to: int, first: Element, second: Element, third: Element, add: bool) -> None:
    """Store three sums from ``to`` on, added to what is there if ``add``."""
    zero = out.dtype.type(0)
    out[to] = (out[to] if add else zero) + first
    out[to + 1] = (out[to + 1] if add else zero) + second
    out[to + 2] = (out[to + 2] if add else zero) + third


@generic
def multiply_block(
    a: Array, at: int, a_row: int, b: Array, from_b: int, b_row: int, out: Array, to: int, out_row: int, inner: int, add: bool
) -> None:
    """As ``multiply``, of BLOCK_ROWS rows by BLOCK_COLUMNS columns: 16 registers hold the sums, the columns and a row."""
    zero = out.dtype.type(0)
    ax, ay, az, bx, by, bz, cx, cy, cz, dx, dy, dz = zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero
    for k in range(inner):
        x, y, z = b[np.uint64(from_b + k)], b[np.uint64(from_b + b_row + k)], b[np.uint64(from_b + 2 * b_row + k)]
        row = a[np.uint64(at + k)]
        ax, ay, az = with_product(ax, row, x), with_product(ay, row, y), with_product(az, row, z)
        row = a[np.uint64(at + a_row + k)]
        bx, by, bz = with_product(bx, row, x), with_product(by, row, y), with_product(bz, row, z)
        row = a[np.uint64(at + 2 * a_row + k)]
        cx, cy, cz = with_product(cx, row, x), with_product(cy, row, y), with_product(cz, row, z)
        row = a[np.uint64(at + 3 * a_row + k)]
        dx, dy, dz = with_product(dx, row, x), with_product(dy, row, y), with_product(dz, row, z)
    store_three(out, to, ax, ay, az, add)
    store_three(out, to + out_row, bx, by, bz, add)
    store_three(out, to + 2 * out_row, cx, cy, cz, add)
    store_three(out, to + 3 * out_row, dx, dy, dz, add)


@generic
def multiply_one(a: Array, at: int, b: Array, from_b: int, out: Array, to: int, inner: int, add: bool) -> None:
    """As ``multiply``, of a row by a column."""
    total = out.dtype.type(0)
    for k in range(inner):
        total = with_product(total, a[np.uint64(at + k)], b[np.uint64(from_b + k)])
    out[to] = (out[to] if add else out.dtype.type(0)) + total


@generic
def multiply(
    a: Array, at: int, a_row: int, b: Array, from_b: int, b_row: int, out: Array, to: int, out_row: int, rows: int, inner: int,
    columns: int, add: bool,
) -> None:  # fmt: skip
    """``out[i, j] = sum of a[i, k] * b[j, k]``, added to it if ``add``."""
    for i in range(0, rows, BLOCK_ROWS):
        for j in range(0, columns, BLOCK_COLUMNS):
            if i + BLOCK_ROWS <= rows and j + BLOCK_COLUMNS <= columns:
                multiply_block(
                    a, at + i * a_row, a_row, b, from_b + j * b_row, b_row, out, to + i * out_row + j, out_row, inner, add
                )
            else:
                for row in range(i, min(i + BLOCK_ROWS, rows)):
                    for column in range(j, min(j + BLOCK_COLUMNS, columns)):
                        multiply_one(
                            a, at + row * a_row, b, from_b + column * b_row, out, to + row * out_row + column, inner, add
                        )


@generic
def convolve_rows(
    data: Array, weight: Array, out: Array, copied: Array, results: Array, finish: Callable[..., None], argv: int, low: int,
    high: int, batch: int, inputs: int, outputs: int, positions: int,
) -> None:  # fmt: skip
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: a tile of output channels of a few pictures.

    ``copied``: buffer for the columns of a few pictures; ``results``: for the results of a tile until they are finished, or
    ``out``.
    """
    together, parts = min(images_together(positions), batch), (inputs + INNER - 1) // INNER
    tiles, is_apart = (outputs + TILE_ROWS - 1) // TILE_ROWS, results.ctypes.data != out.ctypes.data
    for number in range(low, high):
        first, tile = number // tiles * together, number % tiles
        images = min(together, batch - first)
        if number == low or tile == 0:
            for b in range(images):
                turn(data, (first + b) * inputs * positions, positions, positions, inputs, copied, b * positions * inputs, inputs)
        top = tile * TILE_ROWS
        rows = min(TILE_ROWS, outputs - top)
        for part in range(parts):
            k = part * inputs // parts
            inner = (part + 1) * inputs // parts - k
            for b in range(images):
                here = ((first + b) * outputs + top) * positions
                held = b * TILE_ROWS * positions if is_apart else here
                multiply(
                    weight, top * inputs + k, inputs, copied, b * positions * inputs + k, inputs, results, held, positions, rows,
                    inner, positions, part > 0,
                )  # fmt: skip
                if part + 1 == parts:
                    finish(argv, here, rows, positions, results, held, positions)
