"""The matrices of Winograd's convolution: ``m`` results of a kernel of ``r`` elements, by ``m + r - 1`` products.

The algorithm is Cook and Toom's: polynomials are multiplied by evaluation at points, products, and interpolation; the last point
is infinity.  Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks", has the form ``A^T ((G g) * (B^T d))``;
the points are those of Barabasz et al. 2018, "Error Analysis and Improving the Accuracy of Winograd Convolution".
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

from ....declarations.frozen_dataclass import frozen

Matrix = tuple[tuple[Fraction, ...], ...]

#: Sizes of the tiles of results, and of the kernel, for which there are points.
TILES, KERNELS = range(2, 9), range(3, 8)

_COMMON = "0 -1 1 1/2 -1/2 2 -2 -1/4"
#: The finite points by their number, one less than the number of products.
_POINTS = {
    3: "0 -1 1",
    4: "0 -1 1 1/2",
    5: "0 -1 1 1/2 -2",
    6: "0 -1 1 1/2 -2 -1/2",
    7: "0 -1 1 1/2 -1/2 2 -2",
    8: _COMMON,
    9: f"{_COMMON} 4",
    10: f"{_COMMON} 3/4 -4/3",
    11: f"{_COMMON} 4 3/4 -4/3",
    12: f"{_COMMON} 4 3/4 -4/3 1/4",
    13: f"{_COMMON} 4 1/4 -3/4 4/3 -4",
    14: f"{_COMMON} 4 1/4 -3/4 4/3 3/4 -4/3",
}


@frozen
class Winograd:
    """``results``: A, ``[m + r - 1, m]``; ``data``: B, ``[m + r - 1, m + r - 1]``; ``kernel``: G, ``[m + r - 1, r]``."""

    results: Matrix
    data: Matrix
    kernel: Matrix


@functools.cache
def winograd(tile: int, kernel: int) -> Winograd:
    """The matrices for ``tile`` results of a kernel of ``kernel`` elements, ``tile`` in TILES, ``kernel`` in KERNELS."""
    points = [Fraction(text) for text in _POINTS[tile + kernel - 2].split()]
    scales = [math.prod((p - q for q in points if q is not p), start=Fraction(1)) for p in points]
    # the signs of the first row of G and the first column of B are free: G has a positive one
    sign = -1 if scales[0] < 0 else 1
    scales[0] *= sign
    columns = [_coefficients([q for q in points if q is not p]) for p in points]
    columns[0] = [sign * c for c in columns[0]]
    columns = [[*column, Fraction(0)] for column in columns] + [_coefficients(points)]
    return Winograd(
        results=(*(_powers(p, tile) for p in points), _powers(None, tile)),
        data=tuple(zip(*columns, strict=True)),
        kernel=(
            *(tuple(x / s for x in _powers(p, kernel)) for p, s in zip(points, scales, strict=True)),
            _powers(None, kernel),
        ),
    )


def _powers(point: Fraction | None, count: int) -> tuple[Fraction, ...]:
    """The powers of a point; at infinity, only the highest counts."""
    if point is None:
        return (*(Fraction(0),) * (count - 1), Fraction(1))
    return tuple(point**k for k in range(count))


def _coefficients(roots: list[Fraction]) -> list[Fraction]:
    """The coefficients of the polynomial with these roots, the lowest first."""
    found = [Fraction(1)]
    for root in roots:
        found = [shifted - root * own for shifted, own in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return found
