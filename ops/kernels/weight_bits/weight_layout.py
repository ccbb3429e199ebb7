"""The layout of a matrix of few bits: panels of columns, of which each has a lane, and blocks of numbers with a scale.

A lane of 32 bits has ``32 / bits`` numbers of its column: byte ``j`` has the numbers ``j``, ``4 + j``, ``8 + j`` ... of them, the
first in its lowest bits.  After a shift of ``g * bits`` and a mask the bytes of a lane are the numbers ``4 g`` to ``4 g + 3``: a
kernel reads them in order, as bytes or as words.  A vector of lanes is a cache line on every machine, so that executables with
packed matrices run anywhere.
"""

from __future__ import annotations

import numpy as np

from ...native.jit.products.register_tile import PANEL_BYTES
from ...native.static_values import at_compile_time

#: Columns of a panel, and the bytes of a lane.
COLUMNS, LANE_BYTES = PANEL_BYTES // 4, 4
#: The bits of a number.
BITS = (2, 4, 8)
#: The fewest and the most numbers of a block, a power of 2.
LEAST_BLOCK, MOST_BLOCK = 16, 256


@at_compile_time
def lines_of(bits: int, block: int) -> int:
    """The cache lines of a block of a panel."""
    return block * bits // (8 * LANE_BYTES)


@at_compile_time
def parts_of(bits: int) -> int:
    """The numbers in a byte."""
    return 8 // bits


def unpacked(given: np.ndarray, bits: int) -> np.ndarray:
    """The numbers in the bytes of the last axis, the lowest bits first: uint8 ``[..., bytes * 8 / bits]``."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return (given[..., None] >> shifts & np.uint8(2**bits - 1)).reshape(*given.shape[:-1], given.shape[-1] * len(shifts))


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Numbers along the last axis in bytes, as ``unpacked`` reads them; missing ones of the last byte are 0."""
    parts = parts_of(bits)
    padded = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % parts)])
    apart = padded.reshape(*numbers.shape[:-1], -(-numbers.shape[-1] // parts), parts)
    made = np.zeros(apart.shape[:-1], np.uint8)
    for part in range(parts):
        made |= apart[..., part] << np.uint8(part * bits)
    return made


def in_panels(given: np.ndarray, bits: int) -> np.ndarray:
    """The rows of ``given[n, blocks, block * bits / 8]``, uint8, in panels: ``[panels, blocks, 64 * lines]``.

    The last panel is padded with columns of zeros.
    """
    rows, blocks, nbytes = given.shape
    lines = nbytes // LANE_BYTES
    numbers = unpacked(given, bits).reshape(rows, blocks, lines, parts_of(bits), LANE_BYTES)
    lanes = np.zeros((-(-rows // COLUMNS) * COLUMNS, blocks, lines, LANE_BYTES), np.uint8)
    for part in range(parts_of(bits)):
        lanes[:rows] |= numbers[:, :, :, part] << np.uint8(part * bits)
    apart = lanes.reshape(len(lanes) // COLUMNS, COLUMNS, blocks, lines, LANE_BYTES).transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(apart).reshape(len(apart), blocks, lines * PANEL_BYTES)


def by_panel(numbers: np.ndarray) -> np.ndarray:
    """The numbers of blocks ``[n, blocks]`` beside the panels: ``[panels, blocks, 16]``."""
    padded = np.zeros((-(-len(numbers) // COLUMNS) * COLUMNS, numbers.shape[1]), numbers.dtype)
    padded[: len(numbers)] = numbers
    return np.ascontiguousarray(padded.reshape(len(padded) // COLUMNS, COLUMNS, numbers.shape[1]).transpose(0, 2, 1))
