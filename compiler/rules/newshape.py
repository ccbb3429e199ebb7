"""Attributes of static operators for sizes that are known as Dims: ``newshape`` of ``reshape``, the bounds of ``strided_slice``.

``dyn.reshape`` of data ``(b, s, 12, 64)`` to the values ``(b, s, 768)`` is ``reshape`` with ``newshape=[0, 0, -3]``.

A run-time 0 in the values of ``dyn.reshape`` keeps the size of the data, and a computed size may be 0.  Attributes are found only
where the static operator has the result of ``dyn.reshape`` whenever this has a result.  Data ``(b, s, 768)`` and the values
``(b * s, 768)``: where ``s`` is 0, ``dyn.reshape`` keeps ``b`` and fails, and ``reshape`` gives no rows.  Data ``(n, 4, m)`` and
the values ``(n, 4 * m)``: where both are 0, ``dyn.reshape`` gives ``(0, 4)`` and ``reshape`` ``(0, 0)``; no attributes are found.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from ...ops.core.op import TypeRelError
from ...ops.core.tensor_types import TensorType
from ...ops.core.type_relation import relate
from ...ops.defs.movement.transform import RESHAPE, ReshapeAttrs, SliceAttrs
from ...shape_funcs.symbolic.dim import INT, POLY, Dim, Shape, const, dim, is_nonneg, product
from ...shape_funcs.symbolic.dim_operations import lt
from ...shape_funcs.symbolic.int_operations import INT64_MAX

KEEP, INFER, MERGE, SPLIT = 0, -1, -3, -4
#: The most values of ``newshape`` that are tried for a call.
MAX_TRIALS = 64


def static_newshape(data: TensorType, values: Sequence[Dim], allowzero: bool) -> tuple[int, ...] | None:
    """``newshape`` of the ``reshape`` that has the result of ``dyn.reshape`` with ``values``; None if there is none."""
    if not allowzero:
        kept = _kept(data.shape, values)
        if kept is not None:
            return kept
        values = [data.shape[k] if const(v) == 0 and k < data.rank else v for k, v in enumerate(values)]
    wanted = _inferred(data.shape, values) if allowzero else tuple(values)
    if not all(is_nonneg(v) and const(v) != 0 for v in wanted) or not (allowzero or _is_same_where_zero(data.shape, wanted)):
        return None
    for newshape in itertools.islice(_candidates(data.shape, wanted, 0, 0, True), MAX_TRIALS):
        if _gives(data, newshape, wanted):
            return newshape
    return None


def _inferred(data: Shape, values: Sequence[Dim]) -> Shape:
    """The values with the quotient of the sizes in the place of a -1.  ``dyn.reshape`` fails where a size beside it is 0."""
    others = [v for v in values if const(v) != INFER]
    found = _quotient(product(data), product(others)) if len(others) == len(values) - 1 else None
    return tuple(found if const(v) == INFER and found is not None else v for v in values)


def _quotient(a: Dim, b: Dim) -> Dim | None:
    """The product that is ``a`` divided by ``b``, products of sizes, of which ``b`` is not 0; None if there is none."""
    (number, atoms), (divisor, without) = _monomial(a), _monomial(b)
    left = Counter(atoms)
    left.subtract(without)
    if not divisor or number % divisor or min(left.values(), default=0) < 0:
        return None
    return product([number // divisor, *left.elements()])


def _monomial(d: Dim) -> tuple[int, tuple[Dim, ...]]:
    """A product as its number and the other factors; a sum is one factor."""
    if d.op == INT:
        return d.args[0], ()
    if d.op == POLY and len(d.args) == 1:
        number, atoms = d.args[0]
        return number, atoms
    return 1, (d,)


def _kept(data: Shape, values: Sequence[Dim]) -> tuple[int, ...] | None:
    """Numbers as they are, and 0 for each size that equals the data's size of that axis; None for any other size."""
    kept = [KEEP if k < len(data) and v is data[k] else const(v) for k, v in enumerate(values)]
    numbers = tuple(n for n in kept if n is not None)
    return numbers if len(numbers) == len(kept) and min(numbers, default=0) >= INFER else None


def _candidates(data: Shape, wanted: Shape, k: int, axis: int, may_infer: bool) -> Iterator[tuple[int, ...]]:
    """Values of ``newshape`` from position ``k``, which is at ``axis`` of the data."""
    if k == len(wanted):
        yield ()
        return
    for codes, sizes, axes in _codes(data, wanted, k, axis):
        for rest in _candidates(data, wanted, k + sizes, axis + axes, may_infer):
            yield (*codes, *rest)
    if may_infer:
        for rest in _candidates(data, wanted, k + 1, axis + 1, False):
            yield (INFER, *rest)


def _codes(data: Shape, wanted: Shape, k: int, axis: int) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Codes for the size at ``k`` and perhaps the next, each with the number of sizes and of axes that the codes stand for."""
    size, number = wanted[k], const(wanted[k])
    if axis < len(data) and size is data[axis]:
        yield (KEEP,), 1, 1
    elif number is not None:
        yield (number,), 1, 1
    if axis + 1 < len(data) and size is data[axis] * data[axis + 1]:
        yield (MERGE,), 1, 2
    if axis < len(data) and k + 1 < len(wanted) and size * wanted[k + 1] is data[axis]:
        other = const(wanted[k + 1])
        if number is not None:
            yield (SPLIT, number, INFER), 2, 1
        elif other is not None:
            yield (SPLIT, INFER, other), 2, 1


def _gives(data: TensorType, newshape: tuple[int, ...], wanted: Shape) -> bool:
    """Whether ``reshape`` has the shape ``wanted`` for all sizes, without a check at run time."""
    try:
        found, checks = relate(RESHAPE, [data], ReshapeAttrs(newshape))
    except TypeRelError:
        return False
    return not checks and isinstance(found, TensorType) and found.shape == wanted


# ---- sizes that may be 0 ---------------------------------------------------------------------------------------------


def _is_same_where_zero(data: Shape, wanted: Shape) -> bool:
    """Whether ``dyn.reshape`` has the shape ``wanted`` or fails, for all sizes.

    Where ``wanted[k]`` is 0 and ``data[k]`` is not, ``dyn.reshape`` has ``data[k]`` there.  The data are empty, so it fails
    unless another axis is kept at 0.
    """
    may_be_zero = [k for k in range(min(len(data), len(wanted))) if not _is_positive(wanted[k])]
    for k in may_be_zero:
        others = [j for j in may_be_zero if j != k and not _is_positive(data[j])]
        if others and not _zero_with(data[k], wanted[k]):
            return False
    return True


def _is_positive(size: Dim) -> bool:
    return const(lt(0, size)) == 1


def _zero_with(size: Dim, other: Dim) -> bool:
    """Whether ``size`` is known to be 0 wherever ``other`` is 0."""
    if size is other:
        return True
    terms = _products(other)
    return len(terms) == 1 and all(atom in term for atom in terms[0] for term in _products(size))


def _products(size: Dim) -> list[tuple[Dim, ...]]:
    """The terms of a sum, each as its factors without numbers."""
    if size.op == POLY:
        return [atoms for _, atoms in size.args]
    return [()] if size.op == INT else [(size,)]


# ---- slices ----------------------------------------------------------------------------------------------------------


def static_slice(
    data: TensorType, begin: Sequence[Dim], end: Sequence[Dim], strides: Sequence[Dim], mode: Literal["end", "size"]
) -> SliceAttrs | None:
    """The bounds of the ``strided_slice`` that equals ``dyn.strided_slice`` with these values; None if there are none.

    With a positive stride, a bound at the size of the axis is the largest number, and the bound before it is -1.  With the
    ``mode`` "size", ``end`` holds sizes.
    """
    steps = [n for s in strides if (n := 1 if mode == "size" else const(s)) is not None]
    if len(steps) < len(strides) or len(begin) > data.rank or len(begin) != len(strides):
        return None
    bounds = [[_bound(v, data.shape[k], steps[k]) for k, v in enumerate(values)] for values in (begin, end)]
    if mode == "size":
        bounds[1] = [INT64_MAX if v is d and const(v) is None else const(v) for v, d in zip(end, data.shape, strict=False)]
    first, last = (tuple(n for n in side if n is not None) for side in bounds)
    if len(first) < len(begin) or len(last) < len(end):
        return None
    return SliceAttrs(first, last, tuple(steps), slice_mode=mode)


def _bound(value: Dim, size: Dim, stride: int) -> int | None:
    number = const(value)
    if number is not None or stride <= 0:
        return number
    # size - 2 would differ from -2 where the size is 1
    return {size: INT64_MAX, size - dim(1): -1}.get(value)
