"""Shapes of elementwise and broadcasting operators: the default shape functions of their patterns."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import as_size, axis_in, dimensions, need_rank, same_size, vector
from ...symbolic.dim import Dim, IntLike, Shape, const, dim, shape
from ...symbolic.dim_operations import any_, eq, where
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func


@register_shape_func("elementwise")
def elementwise(inputs: tuple[Operand, ...], attrs: Any) -> Shape:
    """The common shape of all inputs."""
    out = list(inputs[0].shape)
    for i, other in enumerate(inputs[1:], 1):
        if other.rank != len(out):
            raise ShapeError(f"argument {i + 1} has {dimensions(other.rank)}, argument 1 has {len(out)}", input=i)
        for axis, size in enumerate(other.shape):
            out[axis] = same_size(out[axis], size, f"axis {axis} is {{}} in argument 1 and {{}} in argument {i + 1}", i, axis)
    return tuple(out)


@register_shape_func("broadcast")
@register_shape_func("where")
def broadcast(inputs: tuple[Operand, ...], attrs: Any) -> Shape:
    """numpy broadcasting of all inputs."""
    out: Shape = ()
    for i, x in enumerate(inputs):
        out = broadcast_shapes(out, x.shape, i, f"argument {i + 1}")
    return out


@register_shape_func("full_like")
def full_like(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of the data; the fill value is a scalar."""
    need_rank(inputs[1], 0, "the fill value", 1)
    return inputs[0].shape


@register_shape_func("nn.bias_add")
def bias_add(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of the data; the bias has one element per index of ``axis``."""
    return _along_axis(inputs, attrs.axis, "the bias")


@register_shape_func("nn.prelu")
def prelu(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of the data; alpha has one element per index of ``axis``."""
    return _along_axis(inputs, attrs.axis, "alpha")


def _along_axis(inputs: tuple[Operand, Operand], axis: int, what: str) -> Shape:
    data, vector = inputs
    axis = axis_in(axis, data.rank)
    need_rank(vector, 1, what, 1)
    size = same_size(data.shape[axis], vector.shape[0], f"axis {axis} of the data has size {{}}, {what} {{}} elements", 1, 0)
    return (*data.shape[:axis], size, *data.shape[axis + 1 :])


@register_shape_func("broadcast_to")
def broadcast_to(inputs: tuple[Operand], attrs: Any) -> Shape:
    """``attrs.shape``; the data must broadcast to it."""
    return _broadcast_to(inputs[0], shape(as_size(dim(d), "a size of shape") for d in attrs.shape))


@register_shape_func("broadcast_to_like")
def broadcast_to_like(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of input 1; the data must broadcast to it."""
    return _broadcast_to(inputs[0], inputs[1].shape)


@register_shape_func("dyn.broadcast_to", data_dependent=[False, True])
def dyn_broadcast_to(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The values of ``shape``; the data must broadcast to them."""
    return _broadcast_to(inputs[0], tuple(as_size(v, "a size of shape", 1) for v in vector(inputs[1], "shape", 1)))


def _broadcast_to(data: Operand, target: Shape) -> Shape:
    if data.rank > len(target):
        raise ShapeError(f"data with {dimensions(data.rank)} does not broadcast to {dimensions(len(target))}", input=0)
    skipped = len(target) - data.rank
    for axis, (have, want) in enumerate(zip(data.shape, target[skipped:], strict=True)):
        message = f"size {{}} of axis {axis} does not broadcast to {{}}"
        check(any_(eq(have, 1), eq(have, want)), message, have, want, input=0, axis=axis)
    return target


def broadcast_shapes(a: Shape, b: Shape, input: int | None = None, what: str = "") -> Shape:
    """numpy broadcasting of two shapes.  Raises ShapeError, or records a run-time check; ``what`` names ``b`` in the message."""
    rank = max(len(a), len(b))
    x, y = (dim(1),) * (rank - len(a)) + a, (dim(1),) * (rank - len(b)) + b
    return tuple(_broadcast_size(p, q, input, axis - rank + len(b), what) for axis, (p, q) in enumerate(zip(x, y, strict=True)))


def _broadcast_size(a: Dim, b: Dim, input: int | None, axis: int, what: str) -> Dim:
    p, q = const(a), const(b)
    if a is b or q == 1:
        return a
    if p == 1:
        return b
    message = "sizes {} and {} do not broadcast" + (f" (axis {axis} of {what})" if what else "")
    check(any_(eq(a, b), eq(a, 1), eq(b, 1)), message, a, b, input=input, axis=axis)
    if is_not_one(a):
        return a
    return b if is_not_one(b) else where(eq(a, 1), b, a)


def is_not_one(a: IntLike) -> bool:
    """Whether ``a`` is known to differ from 1."""
    return const(eq(a, 1)) == 0
