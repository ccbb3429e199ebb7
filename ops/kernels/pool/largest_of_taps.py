"""The largest of elements at equal distances, for neighbouring results: maxima over windows, in vector registers."""

from __future__ import annotations

from ...native.inlining import keep_out_of_line
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static_range
from ...native.vector_registers import vector_bytes
from ...native.vectors import Vector, load, select, store

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


@at_compile_time
def _from_one(*itemsizes: int) -> tuple[int, ...]:
    """The numbers of lanes from one up to those of a register."""
    return _widths(*itemsizes)[::-1]


@generic
def _take(data: Array, at: int, taps: int, tap_step: int, step: int, out: Array, to: int, count: int, more: int) -> None:
    """As ``take_largest``, for a static step: whole vectors, or one of the most lanes, and one that ends with the last result.

    The last vector may overlap others: a maximum that is taken twice is the same.
    """
    keep_out_of_line()
    done = 0
    for width in _widths(data.itemsize, out.itemsize):
        if width == vector_bytes() // max(data.itemsize, out.itemsize):
            while done + width <= count:
                _take_vector(data, at + done * step, taps, tap_step, step, out, to + done, width, more)
                done += width
        elif done == 0 and width <= count:
            _take_vector(data, at, taps, tap_step, step, out, to, width, more)
            done = width
    if done < count:
        for width in _from_one(data.itemsize, out.itemsize):
            if done < count <= done + width:
                _take_vector(data, at + (count - width) * step, taps, tap_step, step, out, to + count - width, width, more)
                done = count


@generic
def _take_vector(data: Array, at: int, taps: int, tap_step: int, step: int, out: Array, to: int, width: int, more: int) -> None:
    """As ``take_largest``, for the results of a vector."""
    found = _apart(data, at, width, step)
    if more != 0:
        found = larger(load(out, to, width), found)
    for _ in range(1, taps):
        at += tap_step
        found = larger(found, _apart(data, at, width, step))
    store(out, to, found)


@generic
def _apart(data: Array, at: int, width: int, step: int) -> Vector:
    """A vector of elements that are ``step`` apart."""
    return load(data, at, width * step)[::step]


@generic
def larger(largest: Vector, value: Vector) -> Vector:
    """The larger number in each lane, of equal ones that of ``largest``; NaN if one is, of two that of ``value``."""
    found = select(value > largest, value, largest)  # one instruction of many machines
    return select(value != value, value, found)
