"""Functions of float32 as branch-free arithmetic, so that loops vectorise.

The error of each is at most 2 units in the last place, of ``sigmoid_float32`` and ``silu_float32`` 2.5.  Coefficients: least
squares on Chebyshev nodes, reweighted until the largest relative error is minimal, in float64 (the errors are given beside them).
"""

from __future__ import annotations

import math

import numpy as np

from ...native.front_end.llvm import host
from ...native.front_end.vector_hints import (
    interleaved,
    multiply_add,
    nearest_whole,
    settled,
    whole_above,
    whole_below,
    whole_part,
)
from ...native.memory import Element, bits_float32, float32_bits, generic
from ...native.static_values import at_compile_time

f32 = np.float32
#: The exponent below which functions may give 0: the powers of e are there less than any normal number, and processors compute
#: with such numbers many times more slowly.
LEAST = -87.33


@at_compile_time
def has_rounding() -> bool:
    """Whether an instruction rounds to whole numbers."""
    return "sse4.1" in host.features() or host.architecture() == "aarch64"


@interleaved
@generic
def round_float32(x: Element) -> Element:
    """The nearest whole number, halves to the even one; -0.0, infinities and NaN stay as they are."""
    if has_rounding():
        return nearest_whole(x)
    # adding the limit leaves no bits for a fraction, so the addition rounds, halves to even
    limit = f32(8388608.0)
    return f32(math.copysign(abs(x) + limit - limit, x)) if abs(x) < limit else x


@generic
def trunc_float32(x: Element) -> Element:
    """The number without its fraction; -0.0, infinities and NaN stay as they are."""
    if has_rounding():
        return whole_part(x)
    return f32(math.copysign(f32(np.int32(x)), x)) if abs(x) < f32(8388608.0) else x


@generic
def floor_float32(x: Element, whole: Element) -> Element:
    """The largest whole number that is at most ``x``, of which ``whole`` is the whole part; -0.0, infinities and NaN stay."""
    if has_rounding():
        return whole_below(settled(x))  # LLVM would compute that of a float16 one by one
    return whole - f32(1.0) if whole > x else whole


@generic
def ceil_float32(x: Element, whole: Element) -> Element:
    """The smallest whole number that is at least ``x``; as ``floor_float32``."""
    if has_rounding():
        return whole_above(settled(x))
    return whole + f32(1.0) if whole < x else whole


@interleaved
@generic
def exp_float32(x: Element) -> Element:
    """``e ** x``; subnormal results too.  Of two x the larger one never has the smaller result."""
    x = f32(89.0) if x > f32(89.0) else x
    x = f32(-104.5) if x < f32(-104.5) else x
    # x = k * log(2) + r; 1.5 * 2 ** 23 leaves no bits for a fraction, so the sum rounds to k, and its last bits are k
    shifter = f32(12582912.0)
    t = multiply_add(x, f32(1.44269504), shifter)
    k = t - shifter
    # log(2) in two parts, the first short enough that its product with k is exact
    r = multiply_add(k, f32(-0.693359375), x)
    r = multiply_add(k, f32(2.12194440e-4), r)
    p = multiply_add(f32(0.00139517), r, f32(0.0083696))  # within 4e-9 of (exp(r) - 1 - r) / r ** 2
    p = multiply_add(p, r, f32(0.04166619))
    p = multiply_add(p, r, f32(0.16666513))
    p = multiply_add(p, r, f32(0.50000001))
    p = multiply_add(p, r * r, r) + f32(1.0)
    # 2 ** k in two factors: a single factor may be no normal number
    whole = float32_bits(t)
    half = whole >> 1
    return p * bits_float32((half << 23) + (127 << 23)) * bits_float32((whole - half << 23) + (127 << 23))


@generic
def exp_float32_below(x: Element) -> Element:
    """``e ** x`` for x <= 0 or NaN, in two thirds of the operations of ``exp_float32``; 0 below ``LEAST``.

    It is the exponential of sums that are at least 1, which absorb what is missing.
    """
    y = f32(LEAST) if x < f32(LEAST) else x
    # as in ``exp_float32``, but the result is a normal number, so its exponent is a sum
    shifter = f32(12582912.0)
    t = multiply_add(y, f32(1.44269504), shifter)
    k = t - shifter
    r = multiply_add(k, f32(-0.693359375), y)
    r = multiply_add(k, f32(2.12194440e-4), r)
    p = multiply_add(f32(0.00139517), r, f32(0.0083696))
    p = multiply_add(p, r, f32(0.04166619))
    p = multiply_add(p, r, f32(0.16666513))
    p = multiply_add(p, r, f32(0.50000001))
    p = multiply_add(p, r, f32(1.0))
    p = multiply_add(p, r, f32(1.0))
    y = bits_float32(float32_bits(p) + (float32_bits(t) << 23))
    # no product follows the choice: LLVM would choose between products, of which the other may be subnormal
    y = f32(0.0) if x < f32(LEAST) else y
    return y if x == x else x


@generic
def large_exp_float32_below(x: Element) -> Element:
    """``e ** x * 2 ** 64`` for x <= 0, a normal number; the result for NaN is undefined."""
    x = f32(-104.5) if x < f32(-104.5) else x
    # as in ``exp_float32``, but the last bits of the sum are k + 64
    shifter = f32(12582976.0)
    t = multiply_add(x, f32(1.44269504), shifter)
    k = t - shifter
    r = multiply_add(k, f32(-0.693359375), x)
    r = multiply_add(k, f32(2.12194440e-4), r)
    p = multiply_add(f32(0.00139517), r, f32(0.0083696))
    p = multiply_add(p, r, f32(0.04166619))
    p = multiply_add(p, r, f32(0.16666513))
    p = multiply_add(p, r, f32(0.50000001))
    p = multiply_add(p, r, f32(1.0))
    p = multiply_add(p, r, f32(1.0))
    # p * 2 ** (k + 64) is a normal number for every k, so its exponent is a sum
    return bits_float32(float32_bits(p) + (float32_bits(t) << 23))


@interleaved
@generic
def sigmoid_float32(x: Element) -> Element:
    """``1 / (1 + e ** -x)``; 0 below ``LEAST``.  Of two x the larger one never has the smaller result."""
    # e ** -x * 2 ** -64 is a normal number for every x of this range, and beyond it the result is the same
    vanishes = x < f32(LEAST)
    x = f32(40.0) if x > f32(40.0) else x
    x = f32(LEAST) if vanishes else x
    # as in ``large_exp_float32_below``, with the signs of -x, and the last bits of the sum are k - 64
    shifter = f32(12582848.0)
    t = multiply_add(x, f32(-1.44269504), shifter)
    k = t - shifter
    r = multiply_add(k, f32(0.693359375), x)
    r = multiply_add(k, f32(-2.12194440e-4), r)
    p = multiply_add(f32(0.00139517), r, f32(-0.0083696))
    p = multiply_add(p, r, f32(0.04166619))
    p = multiply_add(p, r, f32(-0.16666513))
    p = multiply_add(p, r, f32(0.50000001))
    # not 1 + r * (r * p - 1): the rounding error of the inner sum is as large as the step from one r to the next
    p = multiply_add(p, r * r, -r) + f32(1.0)
    e = bits_float32(float32_bits(p) + (float32_bits(t) << 23))
    small = f32(5.421010862427522e-20)
    # r is NaN for a NaN, whose e is any number
    return (f32(0.0) if vanishes else multiply_add(r, f32(0.0), small)) / (small + e)


@interleaved
@generic
def silu_float32(x: Element) -> Element:
    """``x * sigmoid(x)`` in three quarters of the operations; -0 below -88.375, NaN for -inf."""
    y = f32(88.0) if x > f32(88.0) else x
    y = f32(-89.0) if y < f32(-89.0) else y
    # as in ``exp_float32_below``, with the signs of -x, and the last bits of the sum are the exponent's bits of 2 ** k
    shifter = f32(12583039.0)
    t = multiply_add(y, f32(-1.44269504), shifter)
    k = t - shifter
    r = multiply_add(k, f32(0.693359375), y)
    r = multiply_add(k, f32(-2.12194440e-4), r)
    p = multiply_add(f32(0.00139517), r, f32(-0.0083696))
    p = multiply_add(p, r, f32(0.04166619))
    p = multiply_add(p, r, f32(-0.16666513))
    p = multiply_add(p, r, f32(0.50000001))
    p = multiply_add(p, r, f32(-1.0))
    p = multiply_add(p, r, f32(1.0))
    # for k of -127 and 128 the power is 0 and infinite: no number at the ends of the range is chosen
    return x / multiply_add(p, bits_float32(float32_bits(t) << 23), f32(1.0))


@generic
def _log_terms(x: Element) -> tuple[Element, Element, Element, Element]:
    """``k``, ``m``, ``s`` and ``t``: ``x`` is ``2 ** k * (1 + m)``, ``s`` is ``m ** 2``, ``log(1 + m)`` is ``m - s / 2 + t``."""
    small = x < f32(1.17549435e-38)
    y = x * f32(33554432.0) if small else x
    # 1 + m is between the square roots of 1/2 and 2
    word = (float32_bits(y) & 0x7FFFFFFF) + 0x4AFB0D
    one_m = bits_float32((word & 0x7FFFFF) + 0x3F3504F3)
    k = f32(word >> 23) - (f32(152.0) if small else f32(127.0))
    m = one_m - f32(1.0)
    q = multiply_add(f32(0.067466), m, f32(-0.11675641))  # within 8e-10 of (log(1 + m) - m + m ** 2 / 2) / m ** 3
    q = multiply_add(q, m, f32(0.11888175))
    q = multiply_add(q, m, f32(-0.12405592))
    q = multiply_add(q, m, f32(0.14219551))
    q = multiply_add(q, m, f32(-0.16667996))
    q = multiply_add(q, m, f32(0.20002119))
    q = multiply_add(q, m, f32(-0.2500001))
    q = multiply_add(q, m, f32(0.33333313))
    s = m * m
    return k, m, s, q * (s * m)


@generic
def _log_at_ends(x: Element, y: Element) -> Element:
    """``y``, the logarithm of ``x``, also where ``x`` is 0, infinite, or negative."""
    y = f32(-np.inf) if x == f32(0.0) else y
    y = x if x == f32(np.inf) else y
    return y if x >= f32(0.0) else f32(np.nan)


@generic
def log_float32(x: Element) -> Element:
    """The natural logarithm: -inf at 0, NaN below."""
    k, m, s, t = _log_terms(x)
    y = multiply_add(k, f32(-2.12194440e-4), t)
    y = multiply_add(s, f32(-0.5), y)
    return _log_at_ends(x, multiply_add(k, f32(0.693359375), m + y))


@generic
def log2_float32(x: Element) -> Element:
    """The logarithm to base 2, exact for powers of 2: -inf at 0, NaN below."""
    k, m, s, t = _log_terms(x)
    y = multiply_add(s, f32(-0.5), t)
    # 1 / log(2) without its 1, whose product needs no rounding
    y = multiply_add(m, f32(0.44269504), multiply_add(y, f32(0.44269504), y))
    return _log_at_ends(x, k + (m + y))


@interleaved
@generic
def tanh_float32(x: Element) -> Element:
    """The hyperbolic tangent."""
    s = x * x
    p = multiply_add(f32(0.0021309), s, f32(-0.00816503))  # within 2e-10 of (tanh(x) / x - 1) / x ** 2 up to 0.63
    p = multiply_add(p, s, f32(0.02169607))
    p = multiply_add(p, s, f32(-0.05394599))
    p = multiply_add(p, s, f32(0.13333201))
    p = multiply_add(p, s, f32(-0.33333331))
    near = multiply_add(p, s, f32(1.0)) * x
    t = abs(x)
    far = f32(1.0) - f32(2.0) / (exp_float32(t + t) + f32(1.0))
    far = -far if x < f32(0.0) else far
    return near if t < f32(0.625) else far


@interleaved
@generic
def erf_float32(x: Element) -> Element:
    """The error function: both of its formulas, in fewer dependent operations than a choice among their coefficients."""
    # below 1.2 the polynomial p is within 2e-8 of erf(x) / x - 1
    w = x * x
    s = w * w
    p = multiply_add(f32(6.52738963e-05), s, multiply_add(f32(-0.000756218971), w, f32(0.00513127353)))
    p = multiply_add(p, s, multiply_add(f32(-0.0268201716), w, f32(0.112826854)))
    p = multiply_add(p, s, multiply_add(f32(-0.376125365), w, f32(0.128379151)))
    # above, q ** 8 is within 2e-8 of 1 - erf(x); from 3.925 on it is 0
    t = abs(x)
    t = f32(3.925) if t > f32(3.925) else t
    s = t * t
    q = multiply_add(f32(0.000168749364), s, multiply_add(f32(-0.00267686509), t, f32(0.0138525665)))
    q = multiply_add(q, s, multiply_add(f32(-0.013541393), t, f32(-0.0586276278)))
    q = multiply_add(q, t, f32(-0.146952853))
    q = multiply_add(q, t, f32(1.00135863))
    q = q * q
    q = q * q
    far = math.copysign(multiply_add(-q, q, f32(1.0)), x)
    return multiply_add(p, x, x) if t < f32(1.2) else far


@interleaved
@generic
def gelu_float32(x: Element) -> Element:
    """``x * (1 + erf(x / sqrt(2))) / 2``, within 1.6 units in the last place above 0 and ``|x| * 7e-8`` below."""
    # erf(t / sqrt(2)) = 1 - (1 - d) ** 8, and d / t is a polynomial within 5e-9 / t; from 5.66 on the result is 1
    size = abs(x)
    t = f32(5.656854) if size > f32(5.656854) else size
    s = t * t
    d = multiply_add(f32(3.0759995e-07), t, f32(-7.948268e-06))
    d = multiply_add(d, s, multiply_add(f32(6.455094e-05), t, f32(-3.403603e-05)))
    d = multiply_add(d, s, multiply_add(f32(-0.0016459725), t, f32(0.00073772913)))
    d = multiply_add(d, s, multiply_add(f32(0.034815427), t, f32(0.09973555))) * t
    # 1 - (1 - d) ** 2 without the rounding errors of a number near 1; the last time half of it
    d = multiply_add(-d, d, d + d)
    d = multiply_add(-d, d, d + d)
    d = multiply_add(f32(-0.5) * d, d, d)
    return multiply_add(size, d, x * f32(0.5))
