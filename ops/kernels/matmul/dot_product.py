"""The step of a dot product in CUDA C: one instruction where the hardware has a fused multiplication and addition.

Texts are compiled without contraction, so that elementwise results have the bits of the CPU's.  A dot product has no order of
additions that both devices share, so its products need no rounding of their own.
"""

from __future__ import annotations

#: ``plus_product(sum, a, b)``: ``sum + a * b``, of floats rounded once.
PLUS_PRODUCT = r"""
template <class T> DEVICE T plus_product(T sum, T a, T b) { return sum + a * b; }
DEVICE float32 plus_product(float32 sum, float32 a, float32 b) { return fmaf(a, b, sum); }
DEVICE float64 plus_product(float64 sum, float64 a, float64 b) { return fma(a, b, sum); }
"""
