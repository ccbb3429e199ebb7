"""Vectors: values of a fixed number of lanes, each a number of one type.

A kernel of vectors is one text.  Un-jitted, a vector is a numpy array of one axis, and a mask is one of truth values; loads and
stores are checked against the bounds of the array.  As machine code a vector is a register, or as many as its lanes need.  The
numbers of lanes are static values (see ``static_values``), which follow from ``vector_registers.vector_bytes``.

* Operators are those of numpy: arithmetic, comparisons, which make masks, shifts, and ``& | ^ ~``.  A number beside a vector is
  in every lane, converted to the type of the lanes.  Nothing else is converted by itself.
* ``v[0]`` is a lane; ``v[:4]`` and ``v[::2]`` are shorter vectors, of static bounds.
* ``v.astype(np.float64)`` converts lanes, ``v.view(np.int32)`` reads their bits; ``len(v)`` and ``v.dtype`` are static.
* Registers of a tile are a list: ``sums = [zero] * rows``, then ``sums[i] = ...`` with a static ``i``.

An instruction is declared here, by its meaning in numpy and its emission: a line over ``front_end.vectors.emission``.  An
emission that takes an instruction of some CPUs asks for the feature first, and has plain arithmetic otherwise: LLVM ends the
process at an instruction that the CPU lacks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.tensor_types import computed_in, dtype_name
from .memory import Array, Axes, Element, WildAddress, Word, generic, instruction
from .static_values import at_compile_time

#: The lanes of a vector.
Vector = np.ndarray[Any, np.dtype[Any]]
#: A truth value for each lane.
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class _Shifted:
    """The elements of an array of one axis from element ``first`` on, which may be before the array."""

    def __init__(self, array: Array, first: int) -> None:
        self.array, self.first = array, first
        self.dtype, self.itemsize = array.dtype, array.itemsize


def _whole(array: Any, at: Word) -> tuple[Array, int]:
    """The array that elements are read from, in one axis, and the number of the first one."""
    if isinstance(array, _Shifted):
        return array.array, array.first + int(at)
    return array.reshape(-1), int(at)


def _read(elements: Array) -> Vector:
    """A copy of elements as a vector has them: of halves, float32."""
    return elements.astype(computed_in(dtype_name(elements.dtype)))


def _part(array: Array, at: Word, lanes: int) -> Array:
    """The elements that a vector is read from or written to."""
    flat, first = _whole(array, at)
    if not 0 <= first <= flat.size - lanes:
        raise WildAddress(f"{lanes} lanes at element {first} of {flat.size}")
    return flat[first : first + lanes]


def _offsets(array: Array, offsets: Array, mask: Mask) -> Array:
    """The elements at those places whose lanes are set."""
    wanted = offsets[mask]
    if wanted.size and not (wanted.min() >= 0 and wanted.max() < array.size):
        raise WildAddress(f"lanes at elements {wanted.min()} to {wanted.max()} of {array.size}")
    return wanted


# ---- memory: arrays are contiguous, and ``at`` counts elements over all axes -------------------------------------------------
# Halves are float32 in a vector, and rounded once when they are stored; a signalling NaN may become a quiet one.


@instruction(lambda e, array, at, lanes: e.load(array, at, lanes))
def load(array: Array, at: Word, lanes: int) -> Vector:
    """The elements from ``at`` on."""
    return _read(_part(array, at, lanes))


@instruction(lambda e, array, at, mask: e.load_or_zero(array, at, mask))
def load_or_zero(array: Array, at: Word, mask: Mask) -> Vector:
    """The elements from ``at`` on whose lanes are set in the mask; elsewhere 0, and nothing is read."""
    flat, first = _whole(array, at)
    found = np.zeros(len(mask), computed_in(dtype_name(flat.dtype)))
    found[mask] = flat[_offsets(flat, first + np.arange(len(mask)), mask)]
    return found


@instruction(lambda e, array: e.exact(array))
def exact(array: Array) -> Array:
    """The same array, in which only numbers of its own dtype are stored: these are not rounded."""
    return array


@instruction(lambda e, array, at, vector: e.store(array, at, vector))
def store(array: Array, at: Word, vector: Vector) -> None:
    """Write the elements from ``at`` on."""
    _part(array, at, len(vector))[:] = vector


@instruction(lambda e, array, at, vector: e.store(array, at, vector, past_caches=True))
def store_past_caches(array: Array, at: Word, vector: Vector) -> None:
    """As ``store``, of vectors that make whole cache lines and begin at a multiple of their size: no line is read first."""
    part = _part(array, at, len(vector))
    assert part.ctypes.data % vector.nbytes == 0, f"{vector.nbytes} bytes at {part.ctypes.data:#x}"
    part[:] = vector


@instruction(
    lambda e, array, at, mask, other: e.call("masked.load", other.type, e.place(array, at, other), e.align(array), mask, other)
)
def load_some(array: Array, at: Word, mask: Mask, other: Vector) -> Vector:
    """The elements from ``at`` on whose lanes are set in the mask; elsewhere ``other``, and nothing is read."""
    found, (flat, first) = other.copy(), _whole(array, at)
    found[mask] = flat[_offsets(flat, first + np.arange(len(mask)), mask)]
    return found


@instruction(lambda e, array, at, vector, mask: e.store_some(array, at, vector, mask))
def store_some(array: Array, at: Word, vector: Vector, mask: Mask) -> None:
    """Write the elements from ``at`` on whose lanes are set in the mask."""
    array.reshape(-1)[_offsets(array, int(at) + np.arange(len(mask)), mask)] = vector[mask]


@instruction(lambda e, array, at, offsets, mask, other: e.gather(array, at, offsets, mask, other))
def gather(array: Array, at: Word, offsets: Vector, mask: Mask, other: Vector) -> Vector:
    """The elements ``at + places`` whose lanes are set in the mask; elsewhere ``other``, and nothing is read."""
    found = other.copy()
    found[mask] = array.reshape(-1)[_offsets(array, int(at) + offsets, mask)]
    return found


@instruction(lambda e, array, at: e.from_element(array, at))
def from_element(array: Array, at: Word) -> Array:
    """The elements of an array of one axis from ``at`` on."""
    assert int(at) >= 0, f"the elements from {at} on"
    return array[int(at) :]


@instruction(lambda e, array, at: e.from_element(array, at))
def shifted(array: Array, at: Word) -> Any:
    """As ``from_element``, also from before the first element on: the lanes that are outside are not read (``load_some``)."""
    return _Shifted(*_whole(array, at))


@instruction(lambda e, index, size: e.is_element(index, size))
def is_element(index: Word, size: Word) -> bool:
    """Whether an index is one of ``size`` elements, by one comparison; ``size`` is not negative."""
    return 0 <= int(index) < int(size)


@instruction(lambda e, array: e.hidden(array))
def hidden(array: Array) -> Array:
    """The same array, at an address of its own for LLVM, which computes no other address from it."""
    return array


@instruction(lambda e: e.keep_order())
def keep_order() -> None:
    """Keep loads and stores on their side of this place: a value that is loaded far ahead waits in a register."""


# ---- lanes -------------------------------------------------------------------------------------------------------------------


@instruction(lambda e, value, lanes: e.splat(value, e.known(lanes)))
def splat(value: Element, lanes: int) -> Vector:
    """A vector with the number in every lane."""
    return np.full(lanes, value)


@instruction(lambda e, lanes: e.numbers(range(e.known(lanes))))
def lane_numbers(lanes: int) -> Vector:
    """The number of each lane, an int64."""
    return np.arange(lanes)


@instruction(lambda e, bits, lanes: e.mask_of_bits(bits, e.known(lanes)))
def mask_of_bits(bits: Word, lanes: int) -> Mask:
    """The mask whose lanes are the low bits of a word."""
    return np.array([bool(int(bits) >> n & 1) for n in range(lanes)])


@instruction(lambda e, mask, one, other: e.select(mask, one, other))
def select(mask: Mask, one: Vector, other: Vector) -> Vector:
    """The lanes of ``one`` where the mask is set, else those of ``other``."""
    return np.where(mask, one, other)


@instruction(lambda e, mask: e.any_lane(mask))
def any_lane(mask: Mask) -> bool:
    """Whether a lane is set."""
    return bool(mask.any())


@instruction(lambda e, one, other, order: e.shuffle(one, other, e.static_words(order)))
def shuffle(one: Vector, other: Vector, order: Axes) -> Vector:
    """The lanes of two vectors, one behind the other, at static places."""
    return np.concatenate([one, other])[list(order)]


@instruction(lambda e, vector, mask: e.compress(vector, mask))
def compress(vector: Vector, mask: Mask) -> Vector:
    """The lanes that are set in the mask, side by side from the first lane on, then 0."""
    kept: Vector = np.concatenate([vector[mask], np.zeros_like(vector[~mask])])
    return kept


@instruction(lambda e, vector, order: e.permute(vector, order))
def permute(vector: Vector, order: Vector) -> Vector:
    """The bytes of a vector whose numbers are in ``order``, a cache line of bytes; for a CPU with an instruction for it."""
    found: Vector = vector[order]
    return found


@generic
def lanes_below(count: Word, lanes: int) -> Mask:
    """The mask of the first ``count`` lanes."""
    mask: Mask = lane_numbers(lanes) < count
    return mask


# ---- arithmetic --------------------------------------------------------------------------------------------------------------


@instruction(lambda e, a, b, c: e.call("fma", a.type, a, b, c, overloads=[a.type]))
def fused_multiply_add(a: Vector, b: Vector, c: Vector) -> Vector:
    """Compute ``a * b + c`` of floats, rounded once."""
    wide = np.float64 if a.dtype == np.float32 else np.longdouble
    total: Vector = (a.astype(wide) * b + c).astype(a.dtype)
    return total


@at_compile_time
def halvings(lanes: int) -> tuple[int, ...]:
    """The lanes that are left when a vector is folded, each time into one of half its lanes, down to one lane."""
    return tuple(lanes >> n for n in range(1, lanes.bit_length()))


@generic
def sum_of_lanes(vector: Vector) -> Element:
    """The sum of all lanes: halves are added until one lane is left."""
    for half in halvings(len(vector)):
        vector = vector[:half] + vector[half:]
    return vector[0]


@instruction(lambda e, x: e.nearest_integers(x))
def nearest_integers(x: Vector) -> Vector:
    """Round float32 to int32, halves to the even one; outside of int32, and of NaN, -2**31.  For a CPU with x86's vectors."""
    rounded = np.rint(x)
    is_inside = (rounded >= -(2.0**31)) & (rounded < 2.0**31)
    whole: Vector = np.where(is_inside, rounded, -(2.0**31)).astype(np.int32)
    return whole


@instruction(lambda e, one, other, dtype: e.narrowed(one, other, dtype))
def narrowed(one: Vector, other: Vector, dtype: Any) -> Vector:
    """Integers with a sign as those of half the bits, limited to their range: 16 bytes of ``one``, 16 of ``other``, the next 16.

    For a CPU with x86's vectors.
    """
    range_of, lanes = np.iinfo(dtype), 16 // one.itemsize
    pairs = np.concatenate([one.reshape(-1, lanes), other.reshape(-1, lanes)], axis=1)
    limited: Vector = np.clip(pairs.reshape(-1), range_of.min, range_of.max).astype(dtype)
    return limited


@instruction(lambda e, a, b: e.call("sadd.sat", a.type, a, b, overloads=[a.type]))
def add_limited(a: Vector, b: Vector) -> Vector:
    """Compute ``a + b`` of integers with a sign, limited to their range."""
    range_of = np.iinfo(a.dtype)
    added: Vector = np.clip(a.astype(np.int64) + b, range_of.min, range_of.max).astype(a.dtype)
    return added


@instruction(lambda e, total, a, b: e.dot_of_bytes(total, a, b))
def add_dot_of_bytes(total: Vector, a: Vector, b: Vector) -> Vector:
    """Add to each int32 of ``total`` the products of 4 neighbours: unsigned bytes of ``a`` and signed bytes of ``b``."""
    products = a.astype(np.int32) * b.astype(np.int32)
    added: Vector = total + products.reshape(-1, 4).sum(1, dtype=np.int32)
    return added


@instruction(lambda e, total, a, b: e.dot_of_limited_bytes(total, a, b))
def add_dot_of_limited_bytes(total: Vector, a: Vector, b: Vector) -> Vector:
    """As ``add_dot_of_bytes``, for bytes of ``b`` of which two neighbours have a sum of at most 128, with either sign."""
    assert (np.abs(b.astype(np.int32).reshape(-1, 2).sum(1)) <= 128).all(), "two products exceed 16 bits"
    return add_dot_of_bytes(total, a, b)


@instruction(lambda e, a, b: e.sums_of_limited_bytes(a, b))
def sums_of_limited_bytes(a: Vector, b: Vector) -> Vector:
    """The sums of 2 neighbouring products, which int16 holds: of unsigned bytes of ``a`` and signed bytes of ``b``."""
    sums: Vector = (a.astype(np.int32) * b.astype(np.int32)).reshape(-1, 2).sum(1)
    assert (np.abs(sums) < 2**15).all(), "two products exceed 16 bits"
    narrow: Vector = sums.astype(np.int16)
    return narrow


@instruction(lambda e, total, a, b: e.dot_of_pairs(total, a, b))
def add_dot_of_pairs(total: Vector, a: Vector, b: Vector) -> Vector:
    """Add to each int32 of ``total`` the products of 2 neighbours, int16, none of them -32768."""
    products = a.astype(np.int32) * b.astype(np.int32)
    added: Vector = total + products.reshape(-1, 2).sum(1, dtype=np.int32)
    return added
