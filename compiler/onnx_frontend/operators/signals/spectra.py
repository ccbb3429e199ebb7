"""Discrete Fourier transforms."""

from __future__ import annotations

from .....shape_funcs.symbolic.int_operations import INT64_MAX
from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from ..elementwise import number
from ..run_time_axes import along_axis
from ..vectors import as_int64, extent, numbers


@onnx_operator("DFT", since=17)
def transform_by_attribute(node: Node, x: Expr, length: Expr | None) -> Expr:
    axis = const(node.attr("axis", 1), "int64")
    return _transform(node, x, length, axis)


@onnx_operator("DFT", since=20)
def transform(node: Node, x: Expr, length: Expr | None, axis: Expr | None) -> Expr:
    """The last axis holds the real, or the real and the imaginary part."""
    return _transform(node, x, length, const(-2, "int64") if axis is None else axis)


def _transform(node: Node, x: Expr, length: Expr | None, axis: Expr) -> Expr:
    rank, x = node.rank(x), node.bind(x)
    parts = node.size(x, rank - 1)
    if parts is None:  # known at run time: the real part, or both; zeros are the imaginary part that is not given
        parts, x = 2, node.bind(relay.concatenate([x, relay.zeros_like(x)], rank - 1))
    elif parts not in (1, 2):
        raise node.error("the last axis must have the size 1 or 2, the real and the imaginary part")

    def along(inner: Node, k: int) -> Expr:
        if k == rank - 1:
            raise node.error("the last axis is not transformed")
        order = [a for a in range(rank - 1) if a != k] + [k]
        back = [order.index(a) for a in range(rank - 1)]
        moved = relay.transpose(x, [*order, rank - 1])
        real = inner.bind(_part(moved, 0, rank))
        imaginary = inner.bind(relay.zeros_like(real) if parts == 1 else _part(moved, 1, rank))
        results = _of_last_axis(inner, real, imaginary, length)
        return relay.stack([relay.transpose(r, back) for r in results], rank - 1)

    known = node.constant(axis)
    if known is None:  # the last axis is none of the possible axes
        wanted = relay.reshape(as_int64(node, axis), [])
        front = relay.where(relay.less(wanted, const(0, "int64")), relay.add(wanted, const(rank, "int64")), wanted)
        return along_axis(node, front, rank - 1, along)
    return along(node, node.axis(int(known.reshape(-1)[0]), rank))


def _part(x: Expr, part: int, rank: int) -> Expr:
    return relay.squeeze(relay.strided_slice(x, [part], [part + 1], [1], [rank - 1]), [rank - 1])


def _of_last_axis(node: Node, real: Expr, imaginary: Expr, length: Expr | None) -> list[Expr]:
    """The parts of the transform: both, or, of the inverse of half a spectrum, the real part."""
    rank, one, two = node.rank(real), const(1, "int64"), const(2, "int64")
    axis = rank - 1
    inverse, half = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    have = extent(real, axis)
    if length is not None:
        total = relay.reshape(as_int64(node, length), [])
    else:
        total = relay.multiply(two, relay.subtract(have, one)) if inverse and half else have
    total = node.bind(total)
    bins = relay.add(relay.floor_divide(total, two), one)
    if length is not None:
        wanted = node.bind(bins if inverse and half else total)
        real, imaginary = (node.bind(_with_length(node, part, axis, have, wanted)) for part in (real, imaginary))
    if inverse and half:
        at = relay.arange(const(0, "int64"), total, one, dtype="int64")
        is_stored = relay.less(at, bins)
        source = node.bind(relay.where(is_stored, at, relay.subtract(total, at)))
        real, imaginary = (relay.take(part, source, axis=axis, mode="fast") for part in (real, imaginary))
        imaginary = relay.where(is_stored, imaginary, relay.negative(imaginary))
    result = relay.dft(real, imaginary, inverse)
    if inverse and half:
        return [result[0]]
    if not half:
        return [result[0], result[1]]
    end = relay.concatenate([numbers([INT64_MAX] * axis), relay.reshape(bins, [1])], 0)
    return [relay.dyn.strided_slice(result[k], numbers([0] * rank), end, numbers([1] * rank)) for k in (0, 1)]


def _with_length(node: Node, x: Expr, axis: int, have: Expr, wanted: Expr) -> Expr:
    """The data with zeros after its last axis, or without its end."""
    missing = relay.reshape(relay.maximum(relay.subtract(wanted, have), const(0, "int64")), [1])
    width = relay.reshape(relay.concatenate([numbers([0] * (2 * axis + 1)), missing], 0), [axis + 1, 2])
    padded = relay.dyn.nn.pad(x, width, number(0, node.dtype(x)))
    end = relay.concatenate([numbers([INT64_MAX] * axis), relay.reshape(wanted, [1])], 0)
    return relay.dyn.strided_slice(padded, numbers([0] * (axis + 1)), end, numbers([1] * (axis + 1)))


@onnx_operator("STFT", since=17)
def windowed_transform(node: Node, x: Expr, step: Expr, window: Expr | None, length: Expr | None) -> Expr:
    """The transforms of frames of the signal; a window has the length of a frame."""
    rank = node.rank(x)
    parts = node.size(x, 2) if rank == 3 else 1
    zero, one, two = (const(k, "int64") for k in (0, 1, 2))
    if length is not None:
        size = relay.reshape(as_int64(node, length), [])
    elif window is not None:
        size = extent(window, 0)
    else:
        raise node.error("it has neither a window nor the length of a frame")
    size, step = node.bind(size), relay.reshape(as_int64(node, step), [])
    frames = relay.add(relay.floor_divide(relay.subtract(extent(x, 1), size), step), one)
    begin = relay.multiply(relay.arange(zero, frames, one, dtype="int64"), step)
    inside = relay.arange(zero, size, one, dtype="int64")
    at = node.bind(relay.add(relay.expand_dims(begin, 1), relay.expand_dims(inside, 0)))

    def framed(part: int) -> Expr:
        signal = x if rank == 2 else _part(x, part, rank)
        taken = relay.take(signal, at, axis=1, mode="fast")
        return taken if window is None else relay.multiply(taken, window)

    real = node.bind(framed(0))
    result = relay.dft(real, framed(1) if parts == 2 else relay.zeros_like(real), False)
    both = [result[k] for k in (0, 1)]
    if node.attr("onesided", 1):
        bins = relay.reshape(relay.add(relay.floor_divide(size, two), one), [1])
        end = relay.concatenate([numbers([INT64_MAX] * 2), bins], 0)
        both = [relay.dyn.strided_slice(part, numbers([0] * 3), end, numbers([1] * 3)) for part in both]
    return relay.stack(both, 3)
