"""Shapes of operators that create tensors from a shape or a range."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import as_size, need_rank, scalar, vector
from ...symbolic.dim import Shape, dim
from ...symbolic.dim_operations import all_, arange_length, eq, max_, not_
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func

#: The bit pattern of -0.0 as an int64.
_MINUS_ZERO = -(2**63)


@register_shape_func("full")
def full(inputs: tuple[Operand], attrs: Any) -> Shape:
    """``attrs.shape``; the fill value is a scalar."""
    need_rank(inputs[0], 0, "the fill value", 0)
    return tuple(as_size(dim(d), "a size of shape") for d in attrs.shape)


@register_shape_func("zeros")
@register_shape_func("ones")
def from_shape(inputs: tuple[()], attrs: Any) -> Shape:
    """``attrs.shape``."""
    return tuple(as_size(dim(d), "a size of shape") for d in attrs.shape)


@register_shape_func("dyn.full", data_dependent=[False, True])
def dyn_full(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The values of ``shape``; the fill value is a scalar."""
    need_rank(inputs[0], 0, "the fill value", 0)
    return tuple(as_size(v, "a size of shape", 1) for v in vector(inputs[1], "shape", 1))


@register_shape_func("dyn.zeros", data_dependent=[True])
@register_shape_func("dyn.ones", data_dependent=[True])
def dyn_from_shape(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The values of ``shape``."""
    return tuple(as_size(v, "a size of shape", 0) for v in vector(inputs[0], "shape", 0))


@register_shape_func("arange", data_dependent=[True, True, True])
def arange(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """``max(0, ceil((stop - start) / step))`` elements.  ``start``, ``stop`` and ``step`` are scalars of one dtype."""
    start, stop, step = (scalar(x, what, i) for i, (what, x) in enumerate(zip(("start", "stop", "step"), inputs, strict=True)))
    dtypes = [x.dtype for x in inputs]
    if len(set(dtypes)) != 1:
        raise ShapeError(f"start, stop and step must have one dtype, not {', '.join(dtypes)}")
    if "float" in dtypes[0]:  # also bfloat16
        check(all_(not_(eq(step, 0)), not_(eq(step, _MINUS_ZERO))), "step is 0", input=2)
        return (arange_length(start, stop, step),)
    check(not_(eq(step, 0)), "step is 0", input=2)
    return (max_(0, -((start - stop) // step)),)


@register_shape_func("shape_of")
def shape_of(inputs: tuple[Operand], attrs: Any) -> Shape:
    """A vector with one element per axis of the data."""
    return (dim(inputs[0].rank),)
