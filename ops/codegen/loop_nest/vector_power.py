"""Powers of float32 as branch-free arithmetic of float64, so that loops vectorise: ``2 ** (y * log2(x))``.

The product is up to 150, so its error in float32 would be 150 times too large; in float64 the result is within 0.51 units in the
last place.  Subnormal numbers of float32 are normal numbers of float64.
"""

from __future__ import annotations

import math

import numpy as np

from ...native.front_end.vector_hints import interleaved, multiply_add
from ...native.memory import Element, bits_float, float_bits, generic


@generic
def log2_of_positive(x: Element) -> Element:
    """The base 2 logarithm of a positive, finite, normal float64, within 1e-11 of it."""
    # x = 2 ** k * m, m between the square roots of 1/2 and 2
    word = float_bits(x) + 0x95F619980C433
    m = bits_float((word & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD)
    # the exponent as the last bits of 2 ** 52
    k = bits_float(((word >> 52) & 0x7FF) + 0x4330000000000000) - 4503599627371519.0
    s = (m - 1.0) / (m + 1.0)
    w = s * s
    # log(m) = 2 * atanh(s): its series, of which the next term is below 2e-12 of the sum
    p = multiply_add(0.07692307692307693, w, 0.09090909090909091)
    p = multiply_add(p, w, 0.1111111111111111)
    p = multiply_add(p, w, 0.14285714285714285)
    p = multiply_add(p, w, 0.2)
    p = multiply_add(p, w, 0.3333333333333333)
    p = multiply_add(p, w, 1.0)
    return multiply_add(s * p, 2.8853900817779268, k)


@generic
def exp2_in_range(t: Element) -> Element:
    """``2 ** t`` for -1000 < t < 1000, within 2e-10 of it."""
    # 1.5 * 2 ** 52 leaves no bits for a fraction: the sum rounds to k, and its last bits are k with the bias of an exponent
    shifter = 6755399441056767.0
    shifted = t + shifter
    r = (t - (shifted - shifter)) * 0.6931471805599453
    p = multiply_add(2.48015873015873e-05, r, 0.0001984126984126984)
    p = multiply_add(p, r, 0.001388888888888889)
    p = multiply_add(p, r, 0.008333333333333333)
    p = multiply_add(p, r, 0.041666666666666664)
    p = multiply_add(p, r, 0.16666666666666666)
    p = multiply_add(p, r, 0.5)
    p = multiply_add(p, r, 1.0)
    p = multiply_add(p, r, 1.0)
    return p * bits_float((float_bits(shifted) & 0x7FF) << 52)


@interleaved
@generic
def pow_float32(x: Element, y: Element) -> Element:
    """``x ** y`` with the special numbers of C's ``pow``."""
    base, exponent = np.float64(abs(x)), np.float64(y)
    logarithm = log2_of_positive(base)
    logarithm = -math.inf if base == 0.0 else logarithm
    logarithm = math.inf if base == math.inf else logarithm
    t = exponent * logarithm
    t = np.float64(160.0) if t > 160.0 else t
    t = np.float64(-160.0) if t < -160.0 else t
    result = exp2_in_range(t)
    # the power of a negative number: of a whole exponent only, negative if that is odd
    shifter, half = 6755399441055744.0, exponent * 0.5
    whole, even = (exponent + shifter) - shifter == exponent, (half + shifter) - shifter == half
    odd = whole & (not even)
    result = math.copysign(result, x) if odd else result
    result = math.nan if (x < 0) & (base != math.inf) & (not whole) else result
    result = math.nan if (x != x) | (y != y) else result
    is_one = (x == 1) | (y == 0) | ((base == 1.0) & (abs(exponent) == math.inf))
    return np.float32(1.0 if is_one else result)
