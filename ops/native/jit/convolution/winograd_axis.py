"""Winograd's algorithm along one axis: 2 results of a window of 3 elements, whose places are ``stride`` elements apart.

Stride 1 is F(2, 3) of Lavin and Gray: ``a g0 + b g1 + c g2`` and ``b g0 + c g1 + d g2`` by 4 products instead of 6.  With
stride 2 the results ``a g0 + b g1 + c g2`` and ``c g0 + d g1 + e g2`` share one element, and take 5 products: ``(a - c) g0``,
``c (g0 + g2)`` and ``(e - c) g2`` are F(2, 2) of the even elements; the odd ones are multiplied as they are.

Both take 4 transformed elements of a window: with stride 2 the last two products have the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from .....declarations.frozen_dataclass import frozen
from ...memory import generic
from ...static_values import at_compile_time, static_range
from ...vectors import Vector

#: Results of a tile along an axis, elements of a window, and transformed elements of a window.
RESULTS, WINDOW, FILTERS = 2, 3, 4
#: Signed numbers of elements whose sum, from the first on, is a transformed element; the first sign is 1.
Sum = tuple[tuple[int, int], ...]


@frozen
class Axis:
    """``data``: the products' elements of the data; ``sums``: the results of the products."""

    stride: int
    data: tuple[Sum, ...]
    sums: tuple[Sum, ...]

    @property
    def tile(self) -> int:
        """The elements of a tile, and its products: products are as many as elements."""
        return len(self.data)

    @property
    def step(self) -> int:
        """The elements from a tile to the next."""
        return RESULTS * self.stride


#: By stride.
AXES = {
    1: Axis(
        1,
        (((1, 0), (-1, 2)), ((1, 1), (1, 2)), ((1, 2), (-1, 1)), ((1, 1), (-1, 3))),
        (((1, 0), (1, 1), (1, 2)), ((1, 1), (-1, 2), (-1, 3))),
    ),
    2: Axis(
        2,
        (((1, 0), (-1, 2)), ((1, 2),), ((1, 4), (-1, 2)), ((1, 1),), ((1, 3),)),
        (((1, 0), (1, 1), (1, 3)), ((1, 1), (1, 2), (1, 4))),
    ),
}
MOST_STRIDE = max(AXES)


@at_compile_time
def terms_of_data(stride: int) -> tuple[Sum, ...]:
    """The terms of the products' elements of the data."""
    return AXES[stride].data


@at_compile_time
def terms_of_sums(stride: int) -> tuple[Sum, ...]:
    """The terms of the results."""
    return AXES[stride].sums


@generic
def total(terms: Sum, elements: Sequence[Vector]) -> Vector:
    """The sum of signed elements, in order."""
    found = elements[terms[0][1]]
    for n in static_range(1, len(terms)):
        found = found + elements[terms[n][1]] if terms[n][0] > 0 else found - elements[terms[n][1]]
    return found
