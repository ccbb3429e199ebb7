"""Weighted sums of shifted rows of data without padding, in vector registers: the taps of a convolution of one channel.

As ``plane_taps``, but the operands are read where they are: masks exclude the columns outside the data, and zeros stand for the
rows outside.
"""

from __future__ import annotations

from typing import NamedTuple

from ...inlining import shared
from ...memory import Array, Axes, generic
from ...static_values import at_compile_time, static, static_range
from ...vector_registers import vector_bytes
from ...vectors import (
    Mask,
    Vector,
    fused_multiply_add,
    is_element,
    load,
    load_some,
    shifted,
    shuffle,
    splat,
)
from ..products.operands import Rows
from ..products.register_tile import PANEL_BYTES
from .image_rows import Image, Results, flat_image, flat_results
from .plane_taps import TOGETHER
from .tap_columns import (
    ColumnWeights,
    Taps,
    add_columns,
    next_columns,
    store_rows,
    table_of,
    weights_from_first,
)
from .tap_vectors import by_column, every_second, has_mask_registers, lanes_inside, lanes_of

#: The most rows of a column of taps.
HEIGHTS = 3
#: Words of a column of taps: the row and the column of its first tap, from the first element of the data, and its weight.
COLUMN_WORDS = 3
#: The most elements of the data from one column of the result to the next.
MOST_STEP = 2
#: Bytes of the zeros that stand for a row outside the data: MOST_STEP vectors, and the elements of a window behind them.
ZERO_BYTES = (MOST_STEP + 1) * PANEL_BYTES
#: Bytes of the shortest vectors that are loaded in part by one instruction: those of AVX.
_MASKED_BYTES = 32
#: Bytes of the parts of a vector of AVX across which most instructions move no elements.
_QUARTER_BYTES = 16


class Steps(NamedTuple):
    """The rows and columns of the data from a row and a column of the result to the next."""

    rows: int
    columns: int


@at_compile_time
def has_masks() -> bool:
    """Whether this machine reads parts of vectors as fast as whole ones."""
    return vector_bytes() >= _MASKED_BYTES


@generic
def add_data_taps(image: Image, steps: Steps, top: int, taps: Taps, weights: ColumnWeights, out: Results) -> None:
    """Compute ``out[y, x] = sum of weight[w + t * w_row] * data[v + (y + t) * steps.rows, u + x * steps.columns]``.

    ``y`` begins at ``top``, which is the first row of ``out``.  The sum is over the columns of taps, in order, and over the rows
    ``t`` of each, at most HEIGHTS.  The words of a column are ``v``, ``u`` and ``w``.  ``steps.columns`` is at most MOST_STEP;
    the result has at least one row and one column.  Contiguous arrays of one dtype, float32 or float64; ``taps``: int64.
    """
    for n in static_range(1, MOST_STEP + 1):
        if steps.columns == n:
            data_sums(
                flat_image(image), Steps(steps.rows, n), top, table_of(taps), weights_from_first(weights), flat_results(out)
            )


@at_compile_time
def _row_counts() -> tuple[int, ...]:
    return TOGETHER, 2, 1


@shared
@generic
def data_sums(image: Image, steps: Steps, top: int, table: Array, weights: ColumnWeights, out: Results) -> None:
    """As ``add_data_taps``, for arrays of one axis and static steps of columns."""
    y = 0
    for count in _row_counts():
        while out.rows - y >= count:
            rows = Rows(out.data, out.at + y * out.columns, out.columns)
            _add_rows(image, steps, (top + y) * steps.rows, table, weights, rows, count)
            y += count


class _Operands(NamedTuple):
    """The image, the steps, and the row and the column of the operand of a tap at the first element of the data."""

    image: Image
    steps: Steps
    row: int
    column: int


@generic
def _add_rows(image: Image, steps: Steps, row: int, table: Array, weights: ColumnWeights, out: Rows, count: int) -> None:
    """As ``add_data_taps``, for a static number of rows."""
    lanes, columns, x = lanes_of(out.data.itemsize), out.step, 0
    while x < columns:
        sums = [splat(out.data.dtype.type(0), lanes)] * count
        given = _Operands(image, steps, row, x * steps.columns)
        add_columns(_add_column, sums, table, static(COLUMN_WORDS), static(HEIGHTS), weights, given)
        if steps.columns > 1:
            for r in static_range(count):
                sums[r] = shuffle(sums[r], sums[r], by_column(_order(out.data.itemsize)))
        store_rows(Rows(out.data, out.at + x, columns), sums, columns - x)
        x = next_columns(x, columns, lanes, True)


@generic
def _add_column(sums: list[Vector], factors: list[Vector], column: Array, given: _Operands) -> None:
    """Read operands that are all inside the data without masks, on machines whose masks take instructions."""
    image, steps = given.image, given.steps
    row, along = given.row + column[0], given.column + column[1]
    here = _Operands(image, steps, row, along)
    if has_mask_registers():
        _add_operands(sums, factors, here, _inside(image, along, steps.columns))
    else:
        last = row + steps.rows * (len(sums) + len(factors) - 2)
        # the columns at which an operand inside the data may begin
        begins = max(image.width - steps.columns * len(sums[0]) + 1, 0)
        if is_element(row, image.height) and is_element(last, image.height) and is_element(along, begins):
            _add_operands(sums, factors, here, [])
        else:
            _add_operands(sums, factors, here, _inside(image, along, steps.columns))


@generic
def _add_operands(sums: list[Vector], factors: list[Vector], given: _Operands, masks: list[Mask]) -> None:
    """Add the products of a column of taps; ``masks``: as of ``_operand``, of rows that may be outside, too."""
    image, row, step = given.image, given.row, given.steps.columns
    data = shifted(image.data, image.at + row * image.width + given.column)
    for r in static_range(len(sums) + len(factors) - 1):
        here = data if len(masks) == 0 or is_element(row, image.height) else image.zeros
        operand = _operand(here, masks, step)
        for t in static_range(max(r - len(sums) + 1, 0), min(r + 1, len(factors))):
            sums[r - t] = fused_multiply_add(factors[t], operand, sums[r - t])
        row += given.steps.rows
        data = shifted(data, given.steps.rows * image.width)


@generic
def _operand(data: Array, masks: list[Mask], step: int) -> Vector:
    """The elements for a vector of sums, ``step`` apart; with masks those inside the data, else 0."""
    lanes = lanes_of(data.itemsize)
    if len(masks) == 0:
        parts = [load(data, n * lanes, lanes) for n in static_range(step)]
    else:
        zero = splat(data.dtype.type(0), lanes)
        parts = [load_some(data, n * lanes, masks[n], zero) for n in static_range(step)]
    if step == 1:
        return parts[0]
    return shuffle(parts[0], parts[1], every_second(_order(data.itemsize), 0))


@generic
def _inside(image: Image, along: int, step: int) -> list[Mask]:
    """A mask for each vector of a row: the lanes inside the data, of which lane 0 is column ``along``."""
    lanes = lanes_of(image.data.itemsize)
    return [lanes_inside(along, image.width, n * lanes, lanes) for n in static_range(step)]


@at_compile_time
def _order(itemsize: int) -> Axes:
    """The column of each lane.  With AVX, an instruction takes elements of the same quarter (16 bytes) of two vectors."""
    lanes = lanes_of(itemsize)
    if has_mask_registers():
        return tuple(range(lanes))
    some, half = _QUARTER_BYTES // itemsize, lanes // 2
    return tuple(begin + n + i for n in range(0, half, some // 2) for begin in (0, half) for i in range(some // 2))
