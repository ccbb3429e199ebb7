"""The windows of a pooling along depth, row and column."""

from __future__ import annotations

from typing import NamedTuple

from ...native.memory import Axes


class Windows(NamedTuple):
    """Windows along depth, row and column, in elements: positions of a window, from a window to the next, padding before the
    data, from a position to the next."""

    pool_size: Axes
    stride: Axes
    before: Axes
    dilation: Axes
