"""Shapes of shape-preserving operators on matrices (the last two axes)."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import need_rank, same_size
from ...symbolic.dim import Shape, dim
from ...symbolic.dim_operations import any_, eq, lt, max_, min_
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func


@register_shape_func("trilu")
def trilu(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of the data; ``k`` is a scalar."""
    data, k = inputs
    need_rank(data, 2, "the data", 0, at_least=True)
    need_rank(k, 0, "k", 1)
    return data.shape


@register_shape_func("matrix_set_diag")
def matrix_set_diag(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of the data.

    The last axis of ``diagonal`` holds the elements of a diagonal, padded to the longest one; if there are several diagonals
    (``k1 < k2``), the axis before it enumerates them.
    """
    data, diagonal = inputs
    need_rank(data, 2, "the data", 0, at_least=True)
    if attrs.k1 > attrs.k2:
        raise ShapeError(f"k1 is {attrs.k1}, more than k2, which is {attrs.k2}")
    *batch, rows, columns = data.shape
    several = attrs.k1 != attrs.k2
    need_rank(diagonal, data.rank - 1 + several, "the diagonal", 1)
    for k in (attrs.k1, attrs.k2):
        # also an empty matrix has a main diagonal
        inside = any_(eq(k, 0), lt(-k, rows)) if k <= 0 else lt(k, columns)
        check(inside, f"a matrix of {{}} rows and {{}} columns has no diagonal {k}", rows, columns, input=0)
    for axis, (a, b) in enumerate(zip(batch, diagonal.shape, strict=False)):
        batch[axis] = same_size(a, b, f"axis {axis} is {{}} in the data and {{}} in the diagonal", 1, axis)
    if several:
        count = attrs.k2 - attrs.k1 + 1
        message = "there are {} diagonals, from k1 to k2, but {} are given"
        same_size(dim(count), diagonal.shape[-2], message, 1, diagonal.rank - 2)
    longest = min_(rows + min(attrs.k2, 0), columns - max(attrs.k1, 0))
    same_size(max_(longest, 0), diagonal.shape[-1], "the longest diagonal has {} elements, {} are given", 1, diagonal.rank - 1)
    return (*batch, rows, columns)
