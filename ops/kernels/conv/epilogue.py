"""The end of a convolution: the epilogue of its results, and results that are empty or empty sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...native.jit.convolution.clipped_tile import Clip
from ...native.memory import Array, generic
from ..spatial.cpu import BATCH, CHANNEL
from .geometry import Convolution, position_count, tap_count


class Limits(NamedTuple):
    """Addends of channels, bounds, and whether sums are limited: as of ``codegen.cpu.channel_limits``."""

    addend: Array
    lowest: float
    highest: float
    is_limited: bool


class ScaledLimits(NamedTuple):
    """Factors and addends of channels, bounds, and whether sums are limited, have a factor, and an addend: as ``Limits``."""

    factor: Array
    addend: Array
    lowest: float
    highest: float
    is_limited: bool
    is_scaled: bool
    is_shifted: bool


@generic
def clip_of_channels(limits: ScaledLimits, channel: int) -> Clip:
    """The limits of the channels from ``channel`` on, which are rows of a product."""
    (factor, addend, lowest, highest, _, is_scaled, is_shifted) = limits
    return Clip(factor, addend, channel, lowest, highest, is_scaled, is_shifted)


class Epilogue(NamedTuple):
    """The function that finishes a part of the result, and its first argument (see ``codegen.cpu.epilogue``)."""

    finish: Callable[..., None]
    argv: int


@generic
def is_trivial(conv: Convolution, sums: Array) -> bool:
    """Whether the result is empty or every element is an empty sum; empty sums are stored in ``sums`` here."""
    terms = conv.weight.sizes[1] * tap_count(conv.weight)
    if terms == 0:
        for i in range(sums.size):
            sums[i] = 0
    return terms == 0 or sums.size == 0


@generic
def is_finished(conv: Convolution, epilogue: Epilogue) -> bool:
    """As ``is_trivial``; the epilogue has been applied, too.  A kernel without work runs in one part."""
    out = conv.out
    if not is_trivial(conv, out.data):
        return False
    if out.data.size > 0:
        run = position_count(out)
        epilogue.finish(epilogue.argv, 0, out.sizes[BATCH] * out.sizes[CHANNEL], run, out.data, 0, run)
    return True


@generic
def is_finished_apart(conv: Convolution, sums: Array, epilogue: Epilogue, low: int, high: int) -> bool:
    """As ``is_finished``, with empty sums in ``sums``: the result, or a buffer that ``finish`` reads.

    Of the parts of a call, that with block 0 finishes a result that is an operand: once.  ``low``, ``high``: the part's blocks.
    """
    if not is_trivial(conv, sums):
        return False
    out, run = conv.out.data, position_count(conv.out)
    if sums.ctypes.data == out.ctypes.data and out.size > 0:
        epilogue.finish(epilogue.argv, 0, conv.out.sizes[BATCH] * conv.out.sizes[CHANNEL], run, sums, 0, run)
    elif low == 0 and high > 0 and out.size > 0:
        for at in range(0, out.size, run):
            for first in range(0, run, sums.size):
                epilogue.finish(epilogue.argv, at + first, 1, min(sums.size, run - first), sums, 0, 0)
    return True
