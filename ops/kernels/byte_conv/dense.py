"""Planes whose rows have the columns of the result only: a phase for each column of the window.

Planes of fewer phases have the columns at the edges of a row of the window besides, whose sums are not those of a position.  With
14 columns of the result and windows of 3, one sum of 8 is not.  The copies of a phase take less time than these sums where
there are many output channels.
"""

from __future__ import annotations

from ...native.memory import generic
from ...native.static_values import at_compile_time
from .blocks import fits_tiles
from .geometry import BLOCKS, DENSE_WORDS, ByteConvolution, Planes, Region, apart_for_blocks, streams_positions
from .limited import limits_weights
from .words import lanes_of_words

#: The products of a vector that take the time of a copy of a vector of words.  Measured with AVX-512: 10 to 20.
_COPY = 16


@at_compile_time
def may_be_dense() -> bool:
    """Whether vectors multiply words: registers of tiles take less time than copies, and transforms read neighbours."""
    return not fits_tiles() and not limits_weights()


@generic
def dense_planes(conv: ByteConvolution, region: Region, planes: Planes) -> Planes:
    """The planes of a region with a phase for each column of the window."""
    down, across = planes.phases[0], conv.window.taps[1]
    apart = apart_for_blocks(down * across * planes.rows * region.columns)
    return Planes(planes.number, (down, across), planes.rows, region.columns, apart)


@generic
def is_dense(conv: ByteConvolution, region: Region, planes: Planes, outputs: int) -> bool:
    """Whether planes are dense, of which a call computes so many output channels; ``planes``: of fewer phases."""
    if not may_be_dense() or conv.form != BLOCKS or conv.window.dilation[1] > 1 or conv.window.taps[1] <= planes.phases[1]:
        return False
    lanes, dense = lanes_of_words(), dense_planes(conv, region, planes)
    if planes.number * dense.apart > DENSE_WORDS:
        return False
    copies = (dense.phases[1] - planes.phases[1]) * dense.phases[0] * planes.rows * ((region.columns + lanes - 1) // lanes)
    saved = streams_positions(region, planes) - region.rows * region.columns
    return _COPY * lanes * copies < saved * outputs * conv.window.taps[0] * conv.window.taps[1]
