"""A row of a panel (see ``products.register_tile``) of operands from anywhere: one vector, zero where there is no operand.

Bits of a word say which elements are operands.  Arrays are contiguous, of one dtype, float32 or float64.
"""

from __future__ import annotations

from ...memory import Array, generic
from ...static_values import at_compile_time
from ...vector_registers import vector_bytes
from ...vectors import Vector, gather, load, load_some, mask_of_bits, shuffle, splat, store, store_some
from ..products.register_tile import PANEL_BYTES, panel_width


@at_compile_time
def reads_rows_apart() -> bool:
    """Whether a tile of a product reads rows of a matrix where they are as fast as panels.

    Narrow vectors read a part of a row for each panel, of lines that are far apart.  Wide ones have registers for masks, too.
    """
    return vector_bytes() == PANEL_BYTES


@at_compile_time
def _every_second(lanes: int, first: int) -> tuple[int, ...]:
    return tuple(range(first, 2 * lanes, 2))


@at_compile_time
def _even_of_overlapping(lanes: int) -> tuple[int, ...]:
    """The even lanes of two vectors of which the second begins at the last lane of the first."""
    return tuple(n if n < lanes else n + 1 for n in range(0, 2 * lanes, 2))


@generic
def _nothing(data: Array) -> Vector:
    return splat(data.dtype.type(0), panel_width(data.itemsize))


@generic
def _operands(data: Array, at: int, inside: int) -> Vector:
    """The elements ``data[at + j]`` whose bits of ``inside`` are set, else 0; others are not read."""
    nothing, lanes = _nothing(data), panel_width(data.itemsize)
    everything = (1 << lanes) - 1
    if not reads_rows_apart() and inside & everything == everything:  # masks take instructions
        return load(data, at, lanes)
    return load_some(data, at, mask_of_bits(inside, lanes), nothing)


@generic
def _store(panel: Array, to: int, operands: Vector, kept: int) -> None:
    """Store the operands whose bits of ``kept`` are set."""
    everything = (1 << len(operands)) - 1
    if not reads_rows_apart() and kept & everything == everything:
        store(panel, to, operands)
    else:
        store_some(panel, to, operands, mask_of_bits(kept, len(operands)))


@generic
def store_run(panel: Array, to: int, data: Array, at: int, inside: int) -> None:
    """Store ``panel[to + j] = data[at + j]`` for each bit ``j`` of ``inside`` that is set, else 0; ``j`` below the panel's width.

    Nothing is read for a bit that is not set.
    """
    store(panel, to, _operands(data, at, inside))


@generic
def store_two_runs(panel: Array, to: int, data: Array, at: int, inside: int, second: int, also_inside: int) -> None:
    """As ``store_run``, and ``panel[to + j] = data[second + j]`` for each bit ``j`` of ``also_inside``; no bit is set in both."""
    lanes = panel_width(data.itemsize)
    first = load_some(data, at, mask_of_bits(inside, lanes), _nothing(data))
    store(panel, to, load_some(data, second, mask_of_bits(also_inside, lanes), first))


@generic
def store_gathered(panel: Array, to: int, kept: int, data: Array, at: int, offsets: Array, first: int, inside: int) -> None:
    """As ``store_run``, of ``data[at + offsets[first + j]]``; only elements are stored whose bits of ``kept`` are set.

    ``offsets``: an int64 array.
    """
    lanes = panel_width(data.itemsize)
    _store(panel, to, gather(data, at, load(offsets, first, lanes), mask_of_bits(inside, lanes), _nothing(data)), kept)


@generic
def store_alternate(panel: Array, to: int, data: Array, at: int, inside: int) -> None:
    """Store ``panel[to + j] = data[at + 2 * j]`` for each bit ``2 * j`` of ``inside`` that is set, else 0.

    ``j`` is below the panel's width.  Elements ``at + k`` may be read for any bit ``k`` that is set.
    """
    last = panel_width(data.itemsize) - 1
    # the second vector begins at the last element of the first: its own last element is the last that is stored
    low, high = _operands(data, at, inside), _operands(data, at + last, inside >> last)
    store(panel, to, shuffle(low, high, _even_of_overlapping(len(low))))


@generic
def store_halves(panel: Array, to: int, also_to: int, kept: int, data: Array, at: int, inside: int) -> None:
    """Store ``panel[to + j] = data[at + 2 * j]`` and ``panel[also_to + j] = data[at + 2 * j + 1]``.

    ``j`` is below the panel's width, and bit ``j`` of ``kept`` is set.  Stored is 0, and nothing read, for ``data[at + k]`` if
    bit ``k`` of ``inside`` is not set.
    """
    lanes = panel_width(data.itemsize)
    low, high = _operands(data, at, inside), _operands(data, at + lanes, inside >> lanes)
    _store(panel, to, shuffle(low, high, _every_second(lanes, 0)), kept)
    _store(panel, also_to, shuffle(low, high, _every_second(lanes, 1)), kept)
