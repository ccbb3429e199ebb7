"""The largest of elements at equal distances, for neighbouring results: maxima over windows, in vector registers."""

from __future__ import annotations

from ..inlining import keep_out_of_line
from ..memory import Array, generic
from ..static_values import at_compile_time, static_range
from ..vector_registers import vector_bytes
from ..vectors import Vector, load, select, store

#: The most elements of the data from one result to the next.
MOST_STEP = 2


@generic
def take_largest(data: Array, at: int, taps: int, tap_step: int, step: int, out: Array, to: int, count: int, more: int) -> None:
    """Compute ``out[to + i] = max(data[at + t * tap_step + i * step])`` over ``t`` below ``taps``; NaN if an element is.

    If ``more`` is not 0, the result before is one of the elements.  ``i`` below ``count``; ``step`` is at most MOST_STEP,
    ``taps`` at least 1.  Contiguous arrays of one dtype, or one of halves and one of float32; they do not share memory.  With a
    step of 2 the element behind the last one is read, too.
    """
    for n in static_range(1, MOST_STEP + 1):
        if step == n:
            _take(data, at, taps, tap_step, n, out, to, count, more)


@at_compile_time
def _widths(*itemsizes: int) -> tuple[int, ...]:
    """The numbers of lanes of a register of the widest elements and of its parts, down to one."""
    most = vector_bytes() // max(itemsizes)
    return tuple(most >> n for n in range(most.bit_length()))


@generic
def _take(data: Array, at: int, taps: int, tap_step: int, step: int, out: Array, to: int, count: int, more: int) -> None:
    """As ``take_largest``, for a static step: a loop for each width of vectors, of which all but the first run once at most."""
    keep_out_of_line()
    done = 0
    for width in _widths(data.itemsize, out.itemsize):
        while done + width <= count:
            _take_vector(data, at + done * step, taps, tap_step, step, out, to + done, width, more)
            done += width


@generic
def _take_vector(data: Array, at: int, taps: int, tap_step: int, step: int, out: Array, to: int, width: int, more: int) -> None:
    """As ``take_largest``, for the results of a vector."""
    found = _apart(data, at, width, step)
    if more != 0:
        found = _larger(load(out, to, width), found)
    for _ in range(1, taps):
        at += tap_step
        found = _larger(found, _apart(data, at, width, step))
    store(out, to, found)


@generic
def _apart(data: Array, at: int, width: int, step: int) -> Vector:
    """A vector of elements that are ``step`` apart."""
    return load(data, at, width * step)[::step]


@generic
def _larger(largest: Vector, value: Vector) -> Vector:
    larger = select(value > largest, value, largest)  # one instruction of many machines
    return select(value != value, value, larger)
