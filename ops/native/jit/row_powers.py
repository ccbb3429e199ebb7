"""Softmax of a row of float32 in whole vectors: the largest of its elements, and the powers of 2 that they become.

LLVM makes loops over rows of a few tens of elements from parts of four vectors and single elements, and the powers of single
elements take as long as those of vectors.  Here every vector is a register, the last one of a row masked.
"""

from __future__ import annotations

import numpy as np

from ..front_end.vector_hints import multiply_add
from ..inlining import keep_out_of_line, keep_short
from ..memory import Array, Element, generic
from ..static_values import at_compile_time, static_range
from ..vector_registers import vector_bytes
from ..vectors import Mask, Vector, halvings, lane_numbers, load, select, splat, store, sum_of_lanes
from .products.register_tile import panel_width

#: ``2 ** r`` of a fraction ``r`` of at most 1/2: the coefficients of ``r``, the highest first.  Within 2e-9 of it: least squares
#: on Chebyshev nodes, reweighted until the largest relative error is minimal.
_POWERS = (1.53533618e-4, 1.33988744e-3, 9.61843736e-3, 5.55033247e-2, 2.40226479e-1, 6.93147203e-1, 1.0)
#: The exponents up to which powers, less than any normal number, are 0: a sum with 1 absorbs them.
LEAST = -126.5
#: 1.5 * 2 ** 23 leaves no bits for a fraction: a sum with it rounds, and its last bits are the whole number, here with the bias
#: of an exponent.  Of _LEAST_WHOLE the exponent is that of 0.
_BIAS = 127
_SHIFTER, _LEAST_WHOLE = 1.5 * 2**23 + _BIAS, -float(_BIAS)


@at_compile_time
def _lanes() -> int:
    return min(vector_bytes() // 4, panel_width(4))


@generic
def _joined(one: Vector, other: Vector) -> Vector:
    return select(other > one, other, one)


@generic
def _of_row(n: int, whole: int) -> Mask:
    """The lanes of the last vector of a row of ``n`` elements that are in the row."""
    mask: Mask = lane_numbers(_lanes()).astype(np.int32) < np.int32(n - whole)
    return mask


@generic
def largest(x: Array, at: int, n: int) -> Element:
    """The largest of ``n`` elements from element ``at`` on that are not NaN: -inf of none.

    A contiguous array of float32.  Whole vectors are read: room for a multiple of ``panel_width`` elements.
    """
    keep_out_of_line(), keep_short()
    lanes = _lanes()
    nothing, whole = splat(np.float32(-np.inf), lanes), n & -lanes
    found = nothing
    for k in range(0, whole, lanes):
        found = _joined(found, load(x, at + k, lanes))
    if whole < n:
        found = _joined(found, select(_of_row(n, whole), load(x, at + whole, lanes), nothing))
    for half in halvings(lanes):
        found = _joined(found[:half], found[half:])
    return found[0]


@generic
def _power(x: Vector) -> Vector:
    """``2 ** x`` for x <= 0, as a whole power times that of a fraction; NaN for NaN."""
    x = select(x < _LEAST_WHOLE, splat(np.float32(_LEAST_WHOLE), len(x)), x)
    shifted = x + _SHIFTER
    r = x - (shifted - _SHIFTER)
    square, power = r * r, splat(np.float32(_POWERS[0]), len(x))
    for n in static_range(1, len(_POWERS), 2):  # fewer operations wait for each other than one by one
        power = multiply_add(power, square, multiply_add(_POWERS[n], r, _POWERS[n + 1]))
    whole: Vector = shifted.view(np.int32) << 23
    result: Vector = power * whole.view(np.float32)
    return result


@generic
def powers_of_two(x: Array, at: int, n: int, top: Element) -> Element:
    """Replace ``n`` elements by ``2 ** (x[at + i] - top)``, by NaN where that is NaN; the sum of the powers, added in float32.

    A contiguous array of float32.  No element is above ``top``.  Whole vectors are written, with zeros behind the last power, up
    to a multiple of ``panel_width`` elements at most.
    """
    keep_out_of_line(), keep_short()
    lanes = _lanes()
    nothing, every, whole = splat(np.float32(0), lanes), splat(np.float32(top), lanes), n & -lanes
    total = nothing
    for k in range(0, whole, lanes):
        power = _power(load(x, at + k, lanes) - every)
        store(x, at + k, power)
        total = total + power
    if whole < n:
        mask = _of_row(n, whole)  # nobody has written what is behind the row
        power = select(mask, _power(select(mask, load(x, at + whole, lanes), every) - every), nothing)
        store(x, at + whole, power)
        total = total + power
    return sum_of_lanes(total)
