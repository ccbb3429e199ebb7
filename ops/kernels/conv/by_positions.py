"""Convolution of one tap, channels first, as tiles of a few positions by a panel of output channels.

Vectors hold output channels here, and positions of ``tiles``.  The data are read where they are, and no columns are left over:
pictures of 14 x 14 are no whole panels of positions.  The weight is turned into panels during the call, which takes
a few hundredths of the products with 100 positions or more.  Sums are turned into the result, a panel of channels at a time.

Every element of the result is one sum over channels, in order: the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

from ...native.jit.convolution.panel_row import reads_rows_apart
from ...native.jit.convolution.transposed_tile import multiply_transposed, square_side, turn_square
from ...native.jit.products.operands import Panels, Rows
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS
from ...native.memory import Array, generic
from ...native.prefetch import fetch_early
from ..spatial.cpu import BATCH, CHANNEL
from .epilogue import Epilogue
from .geometry import Convolution

#: Input channels of a part: the panel, and the data of a small picture, stay in the first cache.
INNER = 128
#: Positions of the pictures that are multiplied by a panel, unless one picture has more.
TOGETHER = 400
#: The most panels whose sums are kept from a part of the input channels to the next: with the data of a part they stay in the
#: second cache.
PANELS = 16


@generic
def images_together(positions: int) -> int:
    """The pictures that are multiplied by a panel before the next."""
    return max(TOGETHER // max(positions, 1), 1)


@generic
def turn(source: Array, at: int, stride: int, rows: int, columns: int, target: Array, to: int, to_stride: int) -> None:
    """As ``turn_square`` for ``r`` below ``rows`` and ``c`` below ``columns``."""
    side = square_side(source)
    whole_rows, whole_columns = rows // side * side, columns // side * side
    for c in range(0, whole_columns, side):
        for r in range(0, whole_rows, side):
            turn_square(source, at + r + c * stride, stride, target, to + r * to_stride + c, to_stride)
    for r in range(rows):
        for c in range(whole_columns if r < whole_rows else 0, columns):
            target[to + r * to_stride + c] = source[at + r + c * stride]


@generic
def turn_weight(weight: Array, at: int, inputs: int, inner: int, rows: int, panels: Array, width: int) -> None:
    """Store ``rows`` rows of the weight, ``inputs`` elements apart, as panels of ``inner`` rows; 0 for rows that are missing."""
    for panel in range((rows + width - 1) // width):
        count, to = min(width, rows - panel * width), panel * inner * width
        for k in range(to, to + (inner * width if count < width else 0)):
            panels[k] = 0
        turn(weight, at + panel * width * inputs, inputs, inner, count, panels, to, width)


@generic
def fetch_weight(weight: Array, at: int, inputs: int, inner: int, rows: int, low: int, high: int) -> None:
    """Ask for the lines ``low`` to ``high`` (exclusive) of ``inner`` elements of each of ``rows`` rows of the weight."""
    width = PANEL_BYTES // weight.itemsize
    lines = (inner + width - 1) // width
    row, line = low // max(lines, 1), low % max(lines, 1)
    for _ in range(low, min(high, rows * lines)):  # a division for each line takes as long as the turning of its elements
        fetch_early(weight, at + row * inputs + line * width)
        line += 1
        if line == lines:
            line = 0
            row += 1


@generic
def convolve_positions(
    conv: Convolution, panels: Array, sums: Array, results: Array, epilogue: Epilogue, fetch_operands: Callable[..., None],
    low: int, high: int,
) -> None:  # fmt: skip
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: a panel of output channels of a few pictures.

    ``panels``: for a group of INNER rows; ``sums``: for those of PANELS panels of a few pictures; ``results``: for those of a
    group of panels until they are finished, or the result.
    """
    batch, positions = conv.data.sizes[BATCH], conv.data.steps[CHANNEL]
    weight, outputs, inputs = conv.weight.data, conv.weight.sizes[0], conv.weight.sizes[1]
    width, together = PANEL_BYTES // conv.out.data.itemsize, min(images_together(positions), batch)
    count, joint = (outputs + width - 1) // width, GROUP_PANELS if reads_rows_apart() else 1
    parts, tiles = (inputs + INNER - 1) // INNER, (positions + TILE_ROWS - 1) // TILE_ROWS
    is_apart, number = results.ctypes.data != conv.out.data.ctypes.data, low
    while number < high:
        begin, first = number % count, number // count * together
        end = min(count, begin + min(high - number, PANELS))
        images = min(together, batch - first)
        for part in range(parts):
            k = part * inputs // parts
            inner = (part + 1) * inputs // parts - k
            for panel in range(begin, end, joint):
                top, across = panel * width, min(joint, end - panel) * width
                rows = min(across, outputs - top)
                turn_weight(weight, top * inputs + k, inputs, inner, rows, panels, width)
                # memory delivers short runs of many rows slowly: those of the next panels are asked for meanwhile
                is_last = panel + joint >= end
                later, ahead = begin if is_last else panel + joint, k + inner if is_last else k
                waiting = min(joint, end - later) * width if ahead < inputs else 0
                pace, low_line = (waiting * inner // width + tiles * images - 1) // (tiles * images), 0
                for b in range(first, first + images):
                    at, here = (b * inputs + k) * positions, (b * outputs + top) * positions
                    to = (panel - begin) * width * together * positions + (b - first) * across * positions
                    if part + 1 == parts:
                        fetch_operands(epilogue.argv, here, rows, positions)
                    for tile in range(tiles):
                        fetch_weight(weight, later * width * inputs + ahead, inputs, inner, waiting, low_line, low_line + pace)
                        low_line += pace
                        i = tile * positions // tiles
                        multiply_transposed(
                            Rows(conv.data.data, at + i, positions), Panels(panels, 0, inner * width, width),
                            Rows(sums, to + i * across, across), (tile + 1) * positions // tiles - i, inner, across, part,
                        )  # fmt: skip
                    if part + 1 == parts:
                        held = 0 if is_apart else here
                        turn(sums, to, across, rows, positions, results, held, positions)
                        epilogue.finish(epilogue.argv, here, rows, positions, results, held, positions)
        number += end - begin
