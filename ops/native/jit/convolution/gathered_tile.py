"""A tile of some positions of a picture by the output channels of a vector: the operands of a position are anywhere.

Each product is an element of the data, in all lanes of a vector, by a vector of weights.  A table has the offset of the
first input channel of each tap of each position; the further channels follow it.
"""

from __future__ import annotations

from ...inlining import keep_short, shared
from ...memory import Array, generic
from ...static_values import at_compile_time, static_range
from ...vector_registers import vector_bytes
from ...vectors import Vector, from_element, fused_multiply_add, keep_order, load, load_some, select, splat, store, store_some
from ..block_transpose import transposed_registers
from ..products.operands import Rows, rows_from
from .clipped_tile import Clip, clip_from, flat_clip
from .tap_vectors import first_lanes

#: Positions of a tile, a multiple of the lanes of any vector.  Its sums keep two units busy that add a product every four cycles.
POSITIONS = 8
#: Input channels whose products are added together, the most first: their offsets are read once.
_CHANNELS = (8, 4, 1)
#: Bytes of the longest vector of sums: 8 channels of float32.
LONGEST_BYTES = 32


@at_compile_time
def tile_lanes(itemsize: int) -> int:
    """The output channels of a tile: the lanes of a vector."""
    return min(LONGEST_BYTES, vector_bytes()) // itemsize


@at_compile_time
def _channel_counts() -> tuple[int, ...]:
    return _CHANNELS


@generic
def convolve_tile(
    data: Array, offsets: Array, first: int, taps: int, inputs: int, weights: Array, at: int, out: Rows, channels: int,
    count: int, clip: Clip, is_limited: bool,
) -> None:  # fmt: skip
    """Compute ``out[c, p] = sum of data[offsets[first + t * POSITIONS + p] + i] * weights[at + (i * taps + t) * lanes + c]``.

    The sum is over a few input channels at a time: the taps ``t``, in order, and of each the input channels ``i``.  ``c`` below
    ``channels``, at most the lanes of a tile; ``p`` below ``count``, at most POSITIONS; all offsets of the tile are read.  If
    ``is_limited``, sums are limited by ``clip``, whose rows are ``c``.  Contiguous arrays of one dtype, float32 or float64;
    ``offsets``: int64.
    """
    limits, results = flat_clip(clip, out.data.dtype.type), Rows(out.data.reshape(-1), out.at, out.step)
    _gathered_tile(
        data, from_element(offsets, first), taps, inputs, from_element(weights, at), rows_from(results, 0), channels, count,
        clip_from(limits), is_limited,
    )  # fmt: skip


@shared
@generic
def _gathered_tile(
    data: Array, offsets: Array, taps: int, inputs: int, weights: Array, out: Rows, channels: int, count: int, clip: Clip,
    is_limited: bool,
) -> None:  # fmt: skip
    """As ``convolve_tile``, for arrays of one axis that begin with the operands."""
    keep_short()
    lanes = tile_lanes(out.data.itemsize)
    sums, channel = [splat(out.data.dtype.type(0), lanes)] * POSITIONS, 0
    for together in _channel_counts():
        while inputs - channel >= together:
            _add_channels(
                sums, from_element(data, channel), offsets, taps, from_element(weights, channel * taps * lanes), together
            )
            channel += together
    if is_limited:
        _limit(sums, clip, channels)
    for begin in static_range(0, POSITIONS, lanes):
        _store_square(out, begin, [sums[begin + r] for r in static_range(lanes)], channels, count - begin)


@generic
def _add_channels(sums: list[Vector], data: Array, offsets: Array, taps: int, weights: Array, together: int) -> None:
    """Add the products of all taps of the first ``together`` channels, a static number."""
    lanes, table, of_tap = len(sums[0]), offsets, weights
    for _ in range(taps):
        here = [from_element(data, table[p]) for p in static_range(POSITIONS)]
        weight = of_tap
        for i in static_range(together):
            factors = load(weight, 0, lanes)
            for p in static_range(POSITIONS):
                sums[p] = fused_multiply_add(splat(here[p][i], lanes), factors, sums[p])
            weight = from_element(weight, taps * lanes)
            keep_order()
        table, of_tap = from_element(table, POSITIONS), from_element(of_tap, lanes)


@generic
def _limit(sums: list[Vector], clip: Clip, channels: int) -> None:
    """Multiply each sum by the factors of its lanes, add their biases, and limit it; a sum that is NaN stays NaN."""
    lanes = len(sums[0])
    own = first_lanes(channels, lanes)
    if clip.is_scaled:
        factor = load_some(clip.factor, clip.at, own, sums[0])
        for p in static_range(POSITIONS):
            sums[p] = sums[p] * factor
    if clip.is_shifted:
        bias = load_some(clip.bias, clip.at, own, sums[0])
        for p in static_range(POSITIONS):
            sums[p] = sums[p] + bias
    low, high = splat(clip.low, lanes), splat(clip.high, lanes)
    for p in static_range(POSITIONS):
        total = select(sums[p] < low, low, sums[p])  # false for NaN
        sums[p] = select(total > high, high, total)


@generic
def _store_square(out: Rows, begin: int, sums: list[Vector], channels: int, count: int) -> None:
    """Store a square of sums of positions from ``begin`` on as rows of ``channels``; ``count``: the positions left."""
    lanes, rows = len(sums), transposed_registers(sums)
    if channels == lanes and count >= lanes:
        for c in static_range(lanes):
            store(out.data, out.at + c * out.step + begin, rows[c])
    elif count > 0:
        stored = first_lanes(count, lanes)
        for c in static_range(lanes):
            if c < channels:
                store_some(out.data, out.at + c * out.step + begin, rows[c], stored)
