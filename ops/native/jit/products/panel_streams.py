"""A product of one row with panels that follow each other, read as a few long streams.

A row alone takes as long as its panels take to be read.  The panels of a group are streams that end, all at once, after some KB,
and the machine fetches nothing behind them.  Streams that are parts of all panels go on where a panel ends.
"""

from __future__ import annotations

import numpy as np

from ...inlining import keep_out_of_line, keep_short, shared
from ...memory import Array, generic
from ...static_values import static_range
from ...vectors import Vector, from_element, fused_multiply_add, load, splat, store
from .register_tile import GROUP_PANELS, panel_width, register_tile

#: Steps along the inner axis in one iteration.
_STEPS = 4


@shared
@generic
def multiply_streams(row: Array, panels: Array, out: Array, inner: int, count: int) -> None:
    """Compute ``out[j] = sum of row[k] * panels[j / width, k, j % width]`` of GROUP_PANELS streams of ``count`` whole panels.

    Each sum is in order, as of ``multiply_panels``; ``k`` below ``inner``.  Arrays of one axis and of one dtype, float32 or
    float64.
    """
    keep_out_of_line(), keep_short()
    width, lanes = panel_width(out.itemsize), register_tile(out.itemsize, 1).lanes
    vectors, whole = width // lanes, inner & -_STEPS
    for panel in range(count):
        streams = [from_element(panels, (s * count + panel) * inner * width) for s in static_range(GROUP_PANELS)]
        sums = [splat(out.dtype.type(0), lanes)] * (GROUP_PANELS * vectors)
        for k in range(0, whole, _STEPS):
            for n in static_range(_STEPS):
                _add(sums, row, k + n, streams, width, lanes)
        for k in range(whole, inner):
            _add(sums, row, k, streams, width, lanes)
        for j in static_range(GROUP_PANELS * vectors):
            store(out, (j // vectors * count + panel) * width + j % vectors * lanes, sums[j])


@generic
def _add(sums: list[Vector], row: Array, k: int, streams: list[Array], width: int, lanes: int) -> None:
    """Add the products of an element of the row and a row of a panel of each stream."""
    factor, vectors = splat(row[np.uint64(k)], lanes), width // lanes
    for j in static_range(GROUP_PANELS * vectors):
        part = load(streams[j // vectors], k * width + j % vectors * lanes, lanes)
        sums[j] = fused_multiply_add(factor, part, sums[j])
