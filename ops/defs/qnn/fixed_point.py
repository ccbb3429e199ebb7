"""Products of int32 with fixed-point numbers of 31 bits, as composite operators; exact in int64."""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.argument_checks import axes_in, need_rank
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, cast, composite, equal_sizes, number
from ...core.dtype_rules import like_inputs
from ...core.op import TypeRelError, get
from ..arithmetic.broadcast import LEFT_SHIFT, RIGHT_SHIFT
from ..movement.transform import ExpandDimsAttrs

#: Bits of the multiplier's fraction.
_FRACTION = 31


@frozen
class FixedPointAttrs:
    """``multiplier``: the number times 2**31; ``shift``: power of two of a second factor."""

    multiplier: int
    shift: int


@frozen
class FixedPointPerAxisAttrs:
    """``is_lshift_required``, ``is_rshift_required``: whether the shift is applied; ``axes``: the axes of ``x``, ascending, that
    correspond to the axes of the other inputs."""

    is_lshift_required: bool
    is_rshift_required: bool
    axes: tuple[int, ...]


def _shifted(x: Term, shift: Term) -> Term:
    """``x / 2 ** shift``, halves rounded up; ``shift`` is at least 1."""
    half = call(LEFT_SHIFT, number(1, "int64"), shift - 1)
    result: Term = call(RIGHT_SHIFT, x + half, shift)
    return result


def _multiply(inputs: tuple[Term], attrs: FixedPointAttrs) -> Term:
    product = cast(inputs[0], "int64") * attrs.multiplier
    right = _FRACTION - attrs.shift
    if right > 2 * _FRACTION:  # less than a half
        product, right = product * 0, 1
    shifted = _shifted(product, number(right, "int64")) if right > 0 else call(LEFT_SHIFT, product, number(-right, "int64"))
    return cast(shifted, "int32")


def _multiply_rule(dtypes: tuple[Any, ...], attrs: FixedPointAttrs) -> str | tuple[str, ...]:
    if not -(2**31) <= attrs.multiplier < 2**31:
        raise TypeRelError(f"fixed_point_multiply: multiplier={attrs.multiplier} is no int32")
    return like_inputs("fixed_point_multiply", ["data"], ["int32"])(dtypes, attrs)


_INPUTS = ("x", "y", "lshift", "rshift")


def _multiply_per_axis(inputs: tuple[Term, ...], attrs: FixedPointPerAxisAttrs) -> Term:
    x = inputs[0]
    y, left, right = (cast(_spread(t, x, attrs.axes, n), "int64") for n, t in enumerate(inputs[1:], 1))
    whole = cast(x, "int64")
    if attrs.is_lshift_required:
        whole = call(LEFT_SHIFT, whole, left)
    shift = right + _FRACTION if attrs.is_rshift_required else number(_FRACTION, "int64")
    return cast(_shifted(whole * y, shift), "int32")


def _spread(vector: Term, x: Term, axes: tuple[int, ...], input: int) -> Term:
    """An input whose axes are those of ``x`` at ``axes``, with an axis of size 1 for each other axis of ``x``."""
    at, what = axes_in(axes, x.rank), _INPUTS[input]
    if list(at) != sorted(at):
        raise ShapeError(f"axes {list(axes)} are not in ascending order")
    need_rank(vector.operand, len(at), what, input)
    for k, axis in enumerate(at):
        message = f"fixed_point_multiply_per_axis: axis {k} of {what} has size {{}}, axis {axis} of x has size {{}}"
        vector = equal_sizes(vector, k, x, axis, message, input)
    for axis in range(x.rank):
        if axis not in at:
            vector = call(get("expand_dims"), vector, attrs=ExpandDimsAttrs(axis))
    return vector


composite(
    name="fixed_point_multiply",
    doc="`data * multiplier / 2**31 * 2**shift`, halves rounded up: "
    "`fixed_point_multiply([3, -3], multiplier=1073741824, shift=0) = [2, -1]`.",
    inputs=("data",),
    attrs=FixedPointAttrs,
    dtype=_multiply_rule,
    expand=_multiply,
)
composite(
    name="fixed_point_multiply_per_axis",
    doc="`x * 2**lshift * y / 2**(31 + rshift)`, halves rounded up; the other inputs have the sizes of `x` at `axes`: "
    "`fixed_point_multiply_per_axis([3, 4], [1073741824, 1073741824], [0, 1], [0, 0], True, False, axes=[0]) = [2, 4]`.",
    inputs=_INPUTS,
    attrs=FixedPointPerAxisAttrs,
    dtype=like_inputs("fixed_point_multiply_per_axis", _INPUTS, ["int32"]),
    expand=_multiply_per_axis,
)
