"""The vectors of sums over taps: their lanes, and masks of some of them."""

from __future__ import annotations

import numpy as np

from ...memory import Axes, generic
from ...static_values import at_compile_time
from ...vector_registers import vector_bytes
from ...vectors import Mask, lane_numbers
from ..products.register_tile import PANEL_BYTES

#: More than the number of any lane, with its offset.
_FAR = 1 << 30


@at_compile_time
def lanes_of(itemsize: int) -> int:
    """The lanes of a vector: those of a register, at most those of a panel's row."""
    return min(PANEL_BYTES, vector_bytes()) // itemsize


@at_compile_time
def has_mask_registers() -> bool:
    """Whether masks have registers, so that parts of vectors are read and written as fast as whole ones."""
    return vector_bytes() == PANEL_BYTES


@at_compile_time
def every_second(order: Axes, parity: int) -> Axes:
    """The lanes of two vectors that are two elements apart, in an order of columns."""
    return tuple(2 * n + parity for n in order)


@at_compile_time
def by_column(order: Axes) -> Axes:
    """The lanes in the order of their columns."""
    return tuple(order.index(n) for n in range(len(order)))


@generic
def lanes_inside(along: int, width: int, offset: int, lanes: int) -> Mask:
    """The mask of the lanes inside ``width`` columns; lane 0 is column ``along + offset``, of a static ``offset``."""
    numbers = lane_numbers(lanes).astype(np.int32) + np.int32(offset)
    first, end = min(max(-along, -_FAR), _FAR), min(max(width - along, -_FAR), _FAR)
    mask: Mask = (numbers >= np.int32(first)) & (numbers < np.int32(end))
    return mask


@generic
def first_lanes(count: int, lanes: int) -> Mask:
    """The mask of the first ``count`` lanes, or of all: as ``lanes_below``, in fewer instructions where lanes have 4 bytes."""
    mask: Mask = lane_numbers(lanes).astype(np.int32) < np.int32(min(count, lanes))
    return mask
