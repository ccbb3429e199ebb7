"""Shapes of views: reshape, squeeze, expand_dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...symbolic.argument_checks import as_size, axes_in, axis_in, dimensions, scalar, vector
from ...symbolic.dim import MAX_RANK, Dim, Shape, const, dim, product, total
from ...symbolic.dim_operations import all_, any_, eq, le, lt, not_, where
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func

INFER, COPY_REST, MERGE, SPLIT = -1, -2, -3, -4


@register_shape_func("reshape")
def reshape(inputs: tuple[Operand], attrs: Any) -> Shape:
    """``attrs.newshape`` with Relay's special values.

    0 copies the axis (with ``allowzero``: the size 0), -1 is inferred, -2 copies all remaining axes, -3 merges two axes,
    -4 splits an axis into the next two values; one of them may be -1.
    """
    data = inputs[0].shape
    return _planned(data, _ReshapePlan(data, tuple(attrs.newshape), attrs.allowzero))


@register_shape_func("contrib_reverse_reshape")
def reverse_reshape(inputs: tuple[Operand], attrs: Any) -> Shape:
    """As ``reshape``, but the special values are interpreted from right to left; -4 is not valid."""
    data, newshape = inputs[0].shape, tuple(attrs.newshape)
    if SPLIT in newshape:
        raise ShapeError(f"newshape {newshape} has -4, which splits from left to right; valid are sizes, 0, -1, -2 and -3")
    plan = _ReshapePlan(data[::-1], newshape[::-1], attrs.allowzero, from_the_right=True)
    plan.out.reverse()
    plan.copied = {len(data) - 1 - axis for axis in plan.copied}
    return _planned(data, plan)


def _planned(data: Shape, plan: _ReshapePlan) -> Shape:
    """The shape of ``plan``, with the inferred size."""
    sizes = [d for d in plan.out if d is not None]
    if len(sizes) == len(plan.out):
        return _view(data, tuple(sizes))
    rest = product(d for axis, d in enumerate(data) if axis not in plan.copied)
    inferred = rest // product(plan.explicit)
    check(eq(inferred * product(plan.explicit), rest), *_cannot_view(data, plan.out), input=0)
    return tuple(inferred if d is None else d for d in plan.out)


class _ReshapePlan:
    """Interpretation of ``newshape`` from left to right; with ``from_the_right`` data and newshape are given turned round.

    ``out``: the sizes of the result, None for the inferred size; ``copied``: the axes of the data copied to the result;
    ``explicit``: the sizes stated in newshape.
    """

    def __init__(self, data: Shape, newshape: tuple[int, ...], allowzero: bool, from_the_right: bool = False) -> None:
        self.data, self.from_the_right = data, from_the_right
        self.newshape = newshape[::-1] if from_the_right else newshape  # as the program has it
        self.out: list[Dim | None] = []
        self.copied: set[int] = set()
        self.explicit: list[Dim] = []
        axis, at = 0, 0  # position in the data, in newshape
        while at < len(newshape):
            value = newshape[at]
            if value > 0 or (value == 0 and allowzero):
                self.explicit.append(dim(value))
                self.out.append(dim(value))
                axis += 1
            elif value == 0:
                self.out += self._copy(axis, 1, at)
                axis += 1
            elif value == INFER:
                self.out.append(None)
                axis += 1
            elif value == COPY_REST:
                self.out += self._copy(axis, max(0, len(data) - axis), at)
                axis = max(axis, len(data))
            elif value == MERGE:
                self.out.append(product(self._copy(axis, 2, at)))
                axis += 2
            elif value == SPLIT:
                self.out += self._split(self._copy(axis, 1, at)[0], newshape[at + 1 : at + 3])
                axis, at = axis + 1, at + 2
            else:
                raise ShapeError(f"newshape {self.newshape} has {value}; valid are sizes, 0, -1, -2, -3 and -4")
            at += 1
        if self.out.count(None) > 1:
            raise ShapeError(f"newshape {self.newshape} has more than one -1")

    def _copy(self, axis: int, count: int, at: int) -> list[Dim]:
        if axis + count > len(self.data):
            missing, entry = axis + count - 1, at
            if self.from_the_right:
                missing, entry = -1 - missing, len(self.newshape) - 1 - at
            raise ShapeError(
                f"newshape {self.newshape} wants axis {missing} of the data for its entry {entry}, "
                f"but the data has {dimensions(len(self.data))}"
            )
        self.copied.update(range(axis, axis + count))
        return list(self.data[axis : axis + count])

    def _split(self, size: Dim, parts: tuple[int, ...]) -> list[Dim]:
        if len(parts) != 2 or parts.count(INFER) > 1 or not all(p > 0 or p == INFER for p in parts):
            raise ShapeError(f"newshape {self.newshape}: -4 needs two sizes after it, one of which may be -1")
        known = parts[0] if parts[1] == INFER else parts[1]
        a, b = (size // known if p == INFER else dim(p) for p in parts)
        check(eq(a * b, size), f"cannot split an axis of size {{}} into {parts}", size, input=0)
        return [a, b]


@register_shape_func("reshape_like")
def reshape_like(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of input 1, or the shape of the data with the axes ``lhs_begin:lhs_end`` replaced by the axes
    ``rhs_begin:rhs_end`` of input 1 (end None: through the last axis)."""
    data, like = inputs[0].shape, inputs[1].shape
    begin, end = _axes_between(attrs.lhs_begin, attrs.lhs_end, len(data), "lhs")
    first, last = _axes_between(attrs.rhs_begin, attrs.rhs_end, len(like), "rhs")
    return _view(data, data[:begin] + like[first:last] + data[end:])


def _axes_between(begin: int, end: int | None, rank: int, side: str) -> tuple[int, int]:
    """``begin`` and ``end`` as nonnegative indices; each may be ``rank``."""
    out = []
    for name, given in ((f"{side}_begin", begin), (f"{side}_end", rank if end is None else end)):
        if not -rank <= given <= rank:
            raise ShapeError(f"{name} {given} is out of range for {dimensions(rank)}")
        out.append(given + rank if given < 0 else given)
    if out[0] > out[1]:
        raise ShapeError(f"{side}_begin {out[0]} is behind {side}_end {out[1]}")
    return out[0], out[1]


@register_shape_func("nn.batch_flatten")
def batch_flatten(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The first size and the product of all others."""
    (data,) = inputs
    axis_in(0, data.rank)
    return (data.shape[0], product(data.shape[1:]))


@register_shape_func("dyn.reshape", data_dependent=[False, True])
def dyn_reshape(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The values of ``newshape``: 0 copies the axis, -1 (at most once) is inferred."""
    data, wanted = inputs[0].shape, vector(inputs[1], "newshape", 1)
    allowzero = getattr(attrs, "allowzero", False)
    copies = [dim(0) if allowzero else eq(v, 0) for v in wanted]
    inferred = [eq(v, INFER) for v in wanted]
    for axis, (v, copy) in enumerate(zip(wanted, copies, strict=True)):
        check(le(INFER, v), f"newshape[{axis}] is {{}}; valid are sizes, 0 and -1", v, input=1)
        if axis >= len(data):
            check(not_(copy), f"newshape[{axis}] copies axis {axis}, but the data has {dimensions(len(data))}", input=1)
    check(le(total(inferred), 1), "newshape has more than one -1", input=1)
    # copied axes are left out of the quotient, so that (0, -1) is valid for an empty axis
    rest = product(where(copies[axis], 1, d) if axis < len(copies) else d for axis, d in enumerate(data))
    explicit = product(where(any_(i, c), 1, v) for v, i, c in zip(wanted, inferred, copies, strict=True))
    if allowzero:
        message = "newshape has -1 beside a size of 0: any size fits"
        check(any_(not_(any_(*inferred)), not_(eq(explicit, 0))), message, input=1)
    out = tuple(
        where(i, rest // explicit, where(c, data[axis], v) if axis < len(data) else v)
        for axis, (v, i, c) in enumerate(zip(wanted, inferred, copies, strict=True))
    )
    return _view(data, out)


@register_shape_func("squeeze")
def squeeze(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The shape without the axes ``attrs.axis``, which must have size 1 (None: without all axes known to have size 1)."""
    (data,) = inputs
    if attrs.axis is None:
        for axis, d in enumerate(data.shape):
            if const(d) is None:
                raise ShapeError(f"without axis, every size must be known, and that of axis {axis} is not", input=0, axis=axis)
        return tuple(d for d in data.shape if const(d) != 1)
    gone = axes_in(attrs.axis, data.rank)
    for axis in gone:
        check(eq(data.shape[axis], 1), f"axis {axis} has size {{}}, not 1", data.shape[axis], input=0, axis=axis)
    return tuple(d for axis, d in enumerate(data.shape) if axis not in gone)


@register_shape_func("dyn.squeeze", data_dependent=[False, True])
def dyn_squeeze(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape without the axes in the values of ``axes``; they must be distinct and of size 1."""
    data, given = inputs[0], inputs[1].values
    rank = data.rank
    if inputs[1].rank > 1:
        raise ShapeError(f"axes must have at most 1 dimension, not {inputs[1].rank}", input=1)
    if len(given) > rank:
        raise ShapeError(f"cannot remove {len(given)} axes of {rank}", input=1)
    for v in given:
        valid = f"valid: {-rank} to {rank - 1}"
        check(all_(le(-rank, v), lt(v, rank)), f"axis {{}} is out of range for {dimensions(rank)} ({valid})", v, input=1)
    axes = [where(lt(v, 0), v + rank, v) for v in given]
    gone = [any_(*(eq(v, axis) for v in axes)) for axis in range(rank)]
    check(eq(total(gone), len(given)), "an axis is given twice", input=1)
    for axis, d in enumerate(data.shape):
        check(any_(not_(gone[axis]), eq(d, 1)), f"axis {axis} has size {{}}, not 1", d, input=0, axis=axis)
    before = [total(not_(g) for g in gone[:axis]) for axis in range(rank)]
    out: list[Dim] = []
    for k in range(rank - len(given)):
        # the k-th remaining axis is axis k, or a later one
        size = data.shape[k + len(given)]
        for axis in reversed(range(k, k + len(given))):
            size = where(all_(not_(gone[axis]), eq(before[axis], k)), data.shape[axis], size)
        out.append(size)
    return tuple(out)


@register_shape_func("expand_dims")
def expand_dims(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The shape with ``attrs.num_newaxis`` axes of size 1 inserted before axis ``attrs.axis``."""
    (data,) = inputs
    axis = axis_in(attrs.axis, data.rank + 1)
    return data.shape[:axis] + (dim(1),) * _new_axes(attrs, data.rank) + data.shape[axis:]


@register_shape_func("dyn.expand_dims", data_dependent=[False, True])
def dyn_expand_dims(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape with ``attrs.num_newaxis`` axes of size 1 inserted before the axis in the value of ``axis``."""
    data, given, new = inputs[0], scalar(inputs[1], "axis", 1), _new_axes(attrs, inputs[0].rank)
    rank = data.rank
    valid = f"valid: -{rank + 1} to {rank}"
    check(all_(le(-rank - 1, given), le(given, rank)), f"axis {{}} is out of range ({valid})", given, input=1)
    first = where(lt(given, 0), given + rank + 1, given)
    out: list[Dim] = []
    for k in range(rank + new):
        size = where(lt(k, first + new), 1, data.shape[k - new]) if k >= new else dim(1)
        out.append(where(lt(k, first), data.shape[k], size) if k < rank else size)
    return tuple(out)


def _new_axes(attrs: Any, rank: int) -> int:
    if not 0 <= attrs.num_newaxis <= MAX_RANK - rank:
        valid = f"0 to {MAX_RANK - rank}, for a tensor has at most {dimensions(MAX_RANK)}"
        raise ShapeError(f"num_newaxis is {attrs.num_newaxis}; valid: {valid}")
    return int(attrs.num_newaxis)


def _view(data: Shape, out: Shape) -> Shape:
    """``out``, checked to have the same number of elements as ``data``."""
    for d in out:
        as_size(d, "a size of the new shape")
    check(eq(product(data), product(out)), *_cannot_view(data, out), input=0)
    return out


def _cannot_view(data: Shape, out: Sequence[Dim | None]) -> tuple[Any, ...]:
    """The message and operands of a check."""
    shown = ", ".join("{}" if d is not None else "-1" for d in out)
    message = f"cannot view {{}} elements as ({shown}{',' if len(out) == 1 else ''})"
    return message, product(data), *(d for d in out if d is not None)
