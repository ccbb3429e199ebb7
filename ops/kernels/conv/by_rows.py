"""Convolution of one tap, channels first, of pictures of few positions: rows of the weight by columns of the data, turned.

Vectors hold input channels.  The weight is read where it is, as one stream for each row; a vector of positions would be half
empty with 9, a picture of 3 x 3.  The columns of a few pictures are turned into rows, once for all output channels.

Every element of the result is one sum over input channels, those of a vector apart: the same bits for any number of threads.
"""

from __future__ import annotations

import numpy as np

from ...native.front_end.vector_hints import add_product_in_any_order as with_product
from ...native.jit.products.operands import Rows
from ...native.memory import Array, generic
from ...native.static_values import static_range
from ..spatial.cpu import BATCH, CHANNEL
from .by_positions import turn
from .epilogue import Epilogue
from .geometry import Convolution

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
def rows_after(rows: Rows, number: int) -> Rows:
    """The rows behind the first ``number``."""
    return Rows(rows.data, rows.at + number * rows.step, rows.step)


@generic
def multiply_block(a: Rows, b: Rows, out: Rows, inner: int, add: bool) -> None:
    """As ``multiply``, of BLOCK_ROWS rows by BLOCK_COLUMNS columns: 16 registers hold the sums, the columns and a row."""
    sums = [out.data.dtype.type(0)] * (BLOCK_ROWS * BLOCK_COLUMNS)
    for k in range(inner):
        columns = [b.data[np.uint64(b.at + j * b.step + k)] for j in static_range(BLOCK_COLUMNS)]
        for i in static_range(BLOCK_ROWS):
            row = a.data[np.uint64(a.at + i * a.step + k)]
            for j in static_range(BLOCK_COLUMNS):
                sums[i * BLOCK_COLUMNS + j] = with_product(sums[i * BLOCK_COLUMNS + j], row, columns[j])
    for i in static_range(BLOCK_ROWS):
        for j in static_range(BLOCK_COLUMNS):
            to = out.at + i * out.step + j
            out.data[to] = (out.data[to] if add else out.data.dtype.type(0)) + sums[i * BLOCK_COLUMNS + j]


@generic
def multiply_one(a: Rows, b: Rows, out: Rows, inner: int, add: bool) -> None:
    """As ``multiply``, of a row by a column."""
    total = out.data.dtype.type(0)
    for k in range(inner):
        total = with_product(total, a.data[np.uint64(a.at + k)], b.data[np.uint64(b.at + k)])
    out.data[out.at] = (out.data[out.at] if add else out.data.dtype.type(0)) + total


@generic
def multiply(a: Rows, b: Rows, out: Rows, rows: int, inner: int, columns: int, add: bool) -> None:
    """``out[i, j] = sum of a[i, k] * b[j, k]``, added to it if ``add``."""
    for i in range(0, rows, BLOCK_ROWS):
        for j in range(0, columns, BLOCK_COLUMNS):
            if i + BLOCK_ROWS <= rows and j + BLOCK_COLUMNS <= columns:
                results = Rows(out.data, out.at + i * out.step + j, out.step)
                multiply_block(rows_after(a, i), rows_after(b, j), results, inner, add)
            else:
                for row in range(i, min(i + BLOCK_ROWS, rows)):
                    for column in range(j, min(j + BLOCK_COLUMNS, columns)):
                        result = Rows(out.data, out.at + row * out.step + column, out.step)
                        multiply_one(rows_after(a, row), rows_after(b, column), result, inner, add)


@generic
def convolve_rows(conv: Convolution, copied: Array, results: Array, epilogue: Epilogue, low: int, high: int) -> None:
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: a tile of output channels of a few pictures.

    ``copied``: for the columns of a few pictures; ``results``: for those of a tile until they are finished, or the result.
    """
    batch, positions = conv.data.sizes[BATCH], conv.data.steps[CHANNEL]
    outputs, inputs = conv.weight.sizes[0], conv.weight.sizes[1]
    together, parts = min(images_together(positions), batch), (inputs + INNER - 1) // INNER
    tiles, is_apart = (outputs + TILE_ROWS - 1) // TILE_ROWS, results.ctypes.data != conv.out.data.ctypes.data
    for number in range(low, high):
        first, tile = number // tiles * together, number % tiles
        images = min(together, batch - first)
        if number == low or tile == 0:
            for b in range(images):
                at, to = (first + b) * inputs * positions, b * positions * inputs
                turn(conv.data.data, at, positions, positions, inputs, copied, to, inputs)
        top = tile * TILE_ROWS
        rows = min(TILE_ROWS, outputs - top)
        for part in range(parts):
            k = part * inputs // parts
            inner = (part + 1) * inputs // parts - k
            for b in range(images):
                here = ((first + b) * outputs + top) * positions
                held = b * TILE_ROWS * positions if is_apart else here
                of_weight, columns = (
                    Rows(conv.weight.data, top * inputs + k, inputs),
                    Rows(copied, b * positions * inputs + k, inputs),
                )
                multiply(of_weight, columns, Rows(results, held, positions), rows, inner, positions, part > 0)
                if part + 1 == parts:
                    epilogue.finish(epilogue.argv, here, rows, positions, results, held, positions)
