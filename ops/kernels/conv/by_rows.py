"""Convolution, channels first, with results of few positions: rows of the weight by columns of the data, turned.

Vectors hold input channels, or these and taps.  The weight is read where it is, as one stream for each row; a vector of positions
would be half empty with 9, a picture of 3 x 3.  The columns of a few pictures are turned into rows, once for all output channels.

Every element of the result is one sum over these terms, those of a vector apart: the same bits for any number of threads.
"""

from __future__ import annotations

import numpy as np

from ...native.front_end.vector_hints import add_product_in_any_order as with_product
from ...native.jit.products.operands import Rows
from ...native.memory import Array, generic
from ...native.static_values import static, static_range
from ...native.vectors import from_element
from ..spatial.cpu import BATCH, CHANNEL
from .by_positions import turn
from .epilogue import Epilogue
from .geometry import Convolution, position_count, tap_count
from .matrices import gather_by_points

#: Terms of a part: the rows of a tile, and a column, stay in the first cache.
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
def multiply_block(a: Rows, b: Rows, out: Rows, inner: int, add: bool, rows: int, columns: int) -> None:
    """As ``multiply``, of a static number of rows and columns: 16 registers hold the sums, the columns and a row."""
    sums = [out.data.dtype.type(0)] * (rows * columns)
    for k in range(inner):
        factors = [b.data[np.uint64(b.at + j * b.step + k)] for j in static_range(columns)]
        for i in static_range(rows):
            row = a.data[np.uint64(a.at + i * a.step + k)]
            for j in static_range(columns):
                sums[i * columns + j] = with_product(sums[i * columns + j], row, factors[j])
    for i in static_range(rows):
        for j in static_range(columns):
            to = out.at + i * out.step + j
            out.data[to] = (out.data[to] if add else out.data.dtype.type(0)) + sums[i * columns + j]


@generic
def multiply(a: Rows, b: Rows, out: Rows, rows: int, inner: int, columns: int, add: bool) -> None:
    """``out[i, j] = sum of a[i, k] * b[j, k]``, added to it if ``add``.  Blocks have as equal numbers of columns as can be."""
    blocks = (columns + BLOCK_COLUMNS - 1) // BLOCK_COLUMNS
    for i in range(0, rows, BLOCK_ROWS):
        for block in range(blocks):
            j = block * columns // blocks
            of_columns, count = rows_after(b, j), (block + 1) * columns // blocks - j
            for n in static_range(1, BLOCK_COLUMNS + 1):
                if count == n and i + BLOCK_ROWS <= rows:
                    results = Rows(out.data, out.at + i * out.step + j, out.step)
                    multiply_block(rows_after(a, i), of_columns, results, inner, add, static(BLOCK_ROWS), n)
                elif count == n:
                    for row in range(i, rows):
                        results = Rows(out.data, out.at + row * out.step + j, out.step)
                        multiply_block(rows_after(a, row), of_columns, results, inner, add, static(1), n)


@generic
def turn_columns(conv: Convolution, image: int, copied: Array, to: int) -> None:
    """Store a row for each position of the result of a picture: its operands by input channel and tap, 0 outside the data."""
    inputs, taps, channel, (stride, before, _) = (
        conv.weight.sizes[1],
        tap_count(conv.weight),
        conv.data.steps[CHANNEL],
        conv.window,
    )
    at, positions = image * conv.data.steps[BATCH], position_count(conv.out)
    is_moved = stride[0] * stride[1] * stride[2] > 1 or before[0] + before[1] + before[2] > 0
    if taps == 1 and positions == channel and not is_moved:
        turn(conv.data.data, at, channel, positions, inputs, copied, to, inputs)
    else:
        gather_by_points(from_element(copied.reshape(-1), to), conv, at, 0, positions, (taps, 1))


@generic
def convolve_rows(conv: Convolution, copied: Array, results: Array, epilogue: Epilogue, low: int, high: int) -> None:
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: a tile of output channels of a few pictures.

    ``copied``: for the columns of a few pictures; ``results``: for those of a tile until they are finished, or the result.
    """
    batch, positions, outputs = conv.data.sizes[BATCH], position_count(conv.out), conv.weight.sizes[0]
    terms = conv.weight.sizes[1] * tap_count(conv.weight)
    together, parts = min(images_together(positions), batch), (terms + INNER - 1) // INNER
    tiles, is_apart = (outputs + TILE_ROWS - 1) // TILE_ROWS, results.ctypes.data != conv.out.data.ctypes.data
    for number in range(low, high):
        first, tile = number // tiles * together, number % tiles
        images = min(together, batch - first)
        if number == low or tile == 0:
            for b in range(images):
                turn_columns(conv, first + b, copied, b * positions * terms)
        top = tile * TILE_ROWS
        rows = min(TILE_ROWS, outputs - top)
        for part in range(parts):
            k = part * terms // parts
            inner = (part + 1) * terms // parts - k
            for b in range(images):
                here = ((first + b) * outputs + top) * positions
                held = b * TILE_ROWS * positions if is_apart else here
                of_weight = Rows(conv.weight.data, top * terms + k, terms)
                columns = Rows(copied, b * positions * terms + k, terms)
                multiply(of_weight, columns, Rows(results, held, positions), rows, inner, positions, part > 0)
                if part + 1 == parts:
                    epilogue.finish(epilogue.argv, here, rows, positions, results, held, positions)
