"""Discrete Fourier transforms in float64, O(n log n) for every n.

A size that is a power of 2 is transformed in place (Cooley and Tukey 1965), any other as a convolution with a chirp of a power
of 2 (Bluestein 1970).  An inverse transform swaps real and imaginary parts.

A *plan* is one array: the data (real, imaginary), the roots of unity (cosines, sines), and for Bluestein's algorithm the chirp
and the transform of its conjugate.
"""

from __future__ import annotations

import math

from ...native.memory import Array, Axes, generic
from ...native.status import OK


@generic
def length_of(n: int) -> int:
    """The power of 2 that transforms of ``n`` elements compute with: ``n``, or enough for the convolution."""
    m = 1
    while m < n:
        m *= 2
    return m if m == n else (2 * m if m >= 2 * n - 1 - m else m)


@generic
def plan_length(n: int, m: int) -> int:
    """The number of elements of a plan for ``n`` elements, given ``m = length_of(n)``."""
    return 3 * m if m == n else 3 * m + 2 * n + 2 * m


#: An upper bound of a plan's length per element: ``length_of(n)`` is less than 4 n.
MOST_FOR_EACH = 22


@generic
def transform_power(plan: Array, at: int, m: int) -> None:
    """Transform the ``m`` elements at ``at`` (real parts, then imaginary parts) of a plan, in place."""
    other = 0
    for i in range(m):
        if i < other:
            plan[at + i], plan[at + other] = plan[at + other], plan[at + i]
            plan[at + m + i], plan[at + m + other] = plan[at + m + other], plan[at + m + i]
        bit = m // 2
        while bit > 0 and other & bit != 0:
            other -= bit
            bit //= 2
        other += bit
    half, roots = 1, 2 * m
    while half < m:
        step = m // 2 // half
        for start in range(0, m, 2 * half):
            for k in range(half):
                c, s = plan[roots + k * step], plan[roots + m // 2 + k * step]
                low = at + start + k
                high = low + half
                x, y = plan[high] * c + plan[high + m] * s, plan[high + m] * c - plan[high] * s
                plan[high], plan[high + m] = plan[low] - x, plan[low + m] - y
                plan[low], plan[low + m] = plan[low] + x, plan[low + m] + y
        half *= 2


@generic
def prepare(plan: Array, n: int, m: int) -> None:
    """Fill in the parts of the plan that all transforms of ``n`` elements share."""
    for k in range(m // 2):
        plan[2 * m + k], plan[2 * m + m // 2 + k] = math.cos(2 * math.pi * k / m), math.sin(2 * math.pi * k / m)
    if m == n:
        return
    chirp = 3 * m
    other = chirp + 2 * n
    for k in range(2 * m):
        plan[other + k] = 0.0
    for k in range(n):
        angle = math.pi * (k * k % (2 * n)) / n  # small, so sufficiently accurate
        c, s = math.cos(angle), math.sin(angle)
        plan[chirp + k], plan[chirp + n + k] = c, s
        plan[other + k], plan[other + m + k] = c, s
        plan[other + (m - k) % m], plan[other + m + (m - k) % m] = c, s
    transform_power(plan, other, m)


@generic
def transform(plan: Array, n: int, m: int) -> None:
    """Transform the first ``n`` elements of the plan's data (imaginary parts ``m`` after the real parts), in place."""
    if m == n:
        transform_power(plan, 0, m)
        return
    chirp = 3 * m
    other = chirp + 2 * n
    for k in range(n):
        c, s, x, y = plan[chirp + k], plan[chirp + n + k], plan[k], plan[m + k]
        plan[k], plan[m + k] = x * c + y * s, y * c - x * s
    for k in range(n, m):
        plan[k] = plan[m + k] = 0.0
    transform_power(plan, 0, m)
    for k in range(m):
        a, b, x, y = plan[other + k], plan[other + m + k], plan[k], plan[m + k]
        # swapped parts: the inverse transform
        plan[m + k], plan[k] = (x * a - y * b) / m, (x * b + y * a) / m
    transform_power(plan, 0, m)
    for k in range(n):
        c, s, y, x = plan[chirp + k], plan[chirp + n + k], plan[k], plan[m + k]
        plan[k], plan[m + k] = x * c + y * s, y * c - x * s


@generic
def dft(
    real: Array, dims: Axes, imaginary: Array, imaginary_dims: Axes, out_real: Array, out_real_dims: Axes, out_imaginary: Array,
    out_dims: Axes, plan: Array, inverse: bool,
) -> int:  # fmt: skip
    """Transform each row."""
    n = dims[len(dims) - 1]
    if len(real) == 0:
        return OK
    m = length_of(n)
    prepare(plan, n, m)
    factor = 1.0 / n if inverse else 1.0
    first, second = (m, 0) if inverse else (0, m)
    for start in range(0, len(real), n):
        for k in range(n):
            plan[first + k], plan[second + k] = real[start + k], imaginary[start + k]
        transform(plan, n, m)
        for k in range(n):
            out_real[start + k], out_imaginary[start + k] = plan[first + k] * factor, plan[second + k] * factor
    return OK


@generic
def stft(
    data: Array, dims: Axes, window: Array, window_dims: Axes, out: Array, out_dims: Axes, plan: Array, n: int, hop: int,
    before: int, factor: float,
) -> int:  # fmt: skip
    """Transform each frame of each row; ``before``: the zeros of a frame before the window."""
    size, frequencies, frames = dims[len(dims) - 1], out_dims[len(out_dims) - 3], out_dims[len(out_dims) - 2]
    if len(out) == 0:
        return OK
    m = length_of(n)
    prepare(plan, n, m)
    for row in range(len(data) // size):
        for frame in range(frames):
            for k in range(m):
                plan[k] = plan[m + k] = 0.0
            for k in range(len(window)):
                plan[before + k] = data[row * size + frame * hop + before + k] * window[k] * 1.0
            transform(plan, n, m)
            for k in range(frequencies):
                to = 2 * ((row * frequencies + k) * frames + frame)
                out[to], out[to + 1] = plan[k] * factor, plan[m + k] * factor
    return OK
