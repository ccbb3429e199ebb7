"""Shapes, views and arrangements of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....shape_funcs.symbolic.dim import const as known_size
from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ...onnx_frontend.operators.parts import known_parts, open_parts
from ..operator_table import aten
from ..torch_node import TorchNode


@aten("view", "reshape", "_unsafe_view")
def view(node: TorchNode, x: Expr, size: Sequence[Any]) -> Any:
    numbers = [node.number(n) for n in size]
    made = node.bind(relay.reshape(x, node.vector(size), allowzero=-1 not in numbers))
    lost = [n not in (None, -1) and have is None for n, have in zip(numbers, node.sizes(made), strict=True)]
    # a size that is a number beside others that are not
    return relay.reshape(made, [n if is_lost else 0 for n, is_lost in zip(numbers, lost, strict=True)]) if any(lost) else made


@aten("permute")
def permute(node: TorchNode, x: Expr, axes: Sequence[int]) -> Any:
    return relay.transpose(x, node.axes(axes, len(axes))) if axes else x


@aten("transpose.int")
def transpose(node: TorchNode, x: Expr, a: int, b: int) -> Any:
    rank = node.rank(x)
    axes = list(range(rank))
    if not rank:
        return x
    a, b = node.axes([a], rank)[0], node.axes([b], rank)[0]
    axes[a], axes[b] = axes[b], axes[a]
    return relay.transpose(x, axes)


@aten("t")
def matrix_transpose(node: TorchNode, x: Expr) -> Any:
    return relay.transpose(x, [1, 0]) if node.rank(x) == 2 else x


@aten("expand")
def expand(node: TorchNode, x: Expr, size: Sequence[Any], implicit: bool) -> Any:
    have = node.shape(x)
    added = len(size) - len(have)
    wanted: list[Any] = []
    for k, n in enumerate(size):
        is_kept = node.number(n) == -1 or (k >= added and known_size(have[k - added]) != 1)
        wanted.append(node.extent(x, k - added) if is_kept else n)
    if not added and all(known_size(d) != 1 or node.number(n) == 1 for d, n in zip(have, wanted, strict=True)):
        return x
    return relay.broadcast_to(x, node.vector(wanted))


@aten("squeeze.dims")
def squeeze_axes(node: TorchNode, x: Expr, axes: Sequence[int]) -> Any:
    sizes = node.sizes(x)
    chosen = [a for a in node.axes(axes, max(len(sizes), 1)) if sizes and sizes[a] == 1]
    return relay.squeeze(x, chosen) if chosen else x


@aten("squeeze.dim")
def squeeze_axis(node: TorchNode, x: Expr, axis: int) -> Any:
    return squeeze_axes(node, x, [axis])


@aten("squeeze")
def squeeze(node: TorchNode, x: Expr) -> Any:
    return squeeze_axes(node, x, range(node.rank(x)))


@aten("unsqueeze")
def unsqueeze(node: TorchNode, x: Expr, axis: int) -> Any:
    return relay.expand_dims(x, axis + node.rank(x) + 1 if axis < 0 else axis)


@aten("slice.Tensor")
def slice_of(node: TorchNode, x: Expr, axis: int, start: Any, end: Any, step: Any) -> Any:
    axis = node.axes([axis], node.rank(x))[0]
    begin = 0 if start is None else node.number(start)
    stop, stride = INT64_MAX if end is None else node.number(end), node.number(step)
    if begin == 0 and stop == INT64_MAX and stride == 1:
        return x
    if begin is not None and stop is not None and stride is not None:
        return relay.strided_slice(x, [begin], [stop], [stride], [axis])
    bounds = []
    for value, rest in ((0 if start is None else start, 0), (INT64_MAX if end is None else end, INT64_MAX), (step, 1)):
        bounds.append(node.vector([value if a == axis else rest for a in range(node.rank(x))]))
    return relay.dyn.strided_slice(x, *map(_as_vector, bounds))


def _as_vector(bound: Any) -> Any:
    return bound if isinstance(bound, Expr) else const(bound, "int64")


@aten("select.int")
def select(node: TorchNode, x: Expr, axis: int, index: Any) -> Any:
    axis, number = node.axes([axis], node.rank(x))[0], node.number(index)
    if number is None:
        size = node.extent(x, axis)
        index = relay.where(relay.less(index, const(0, "int64")), relay.add(index, _int64(size)), index)
        return relay.take(x, index, axis=axis, mode="fast")
    part = relay.strided_slice(x, [number], [INT64_MAX if number == -1 else number + 1], [1], [axis])
    return relay.squeeze(part, [axis])


def _int64(size: Any) -> Any:
    return size if isinstance(size, Expr) else const(size, "int64")


@aten("cat")
def cat(node: TorchNode, tensors: Sequence[Expr], axis: int) -> Any:
    # torch passes over vectors without elements
    tensors = [x for x in tensors if not (node.rank(x) == 1 and node.sizes(x) == (0,) and node.result_rank > 1)]
    tensors = [node.cast(x, node.result_dtype) for x in tensors]
    axis = node.axes([axis], node.rank(tensors[0]))[0]
    return relay.concatenate(tensors, axis) if len(tensors) > 1 else tensors[0]


@aten("stack")
def stack(node: TorchNode, tensors: Sequence[Expr], axis: int) -> Any:
    return relay.stack([node.cast(x, node.result_dtype) for x in tensors], node.axes([axis], node.rank(tensors[0]) + 1)[0])


@aten("split_with_sizes", "split_with_sizes_copy")
def split_with_sizes(node: TorchNode, x: Expr, sizes: Sequence[Any], axis: int) -> list[Any]:
    axis, known = node.axes([axis], node.rank(x))[0], [node.number(n) for n in sizes]
    if None in known:
        return open_parts(node, x, axis, node.vector(sizes), len(sizes))
    return known_parts(node, x, axis, known)


@aten("split.Tensor")
def split(node: TorchNode, x: Expr, size: Any, axis: int) -> list[Any]:
    count, axis, number = len(node.meta), node.axes([axis], node.rank(x))[0], node.number(size)
    if number is None:
        return open_parts(node, x, axis, node.vector([size] * count), count)
    return [relay.strided_slice(x, [k * number], [(k + 1) * number], [1], [axis]) for k in range(count)]


@aten("unbind.int")
def unbind(node: TorchNode, x: Expr, axis: int) -> list[Any]:
    return [select(node, x, axis, k) for k in range(len(node.meta))]


@aten("flip")
def flip(node: TorchNode, x: Expr, axes: Sequence[int]) -> Any:
    for axis in node.axes(axes, max(node.rank(x), 1)) if node.rank(x) else ():
        x = relay.reverse(x, axis)
    return x


@aten("repeat")
def repeat(node: TorchNode, x: Expr, repeats: Sequence[Any]) -> Any:
    for _ in range(len(repeats) - node.rank(x)):
        x = node.bind(relay.expand_dims(x, 0))
    return relay.tile(x, node.vector(repeats)) if repeats else x


@aten("repeat_interleave.self_int")
def repeat_each(node: TorchNode, x: Expr, count: Any, axis: int | None, size: Any) -> Any:
    number = node.number(count)
    if number is None:
        raise node.error("the number of repetitions must be known at import")
    if axis is None:
        x, axis = node.bind(relay.reshape(x, [-1])), 0
    return relay.repeat(x, number, node.axes([axis], node.rank(x))[0])


@aten("repeat_interleave.Tensor")
def positions_repeated(node: TorchNode, counts: Expr, size: Any) -> Any:
    """Each position as often as the number there says."""
    ends = node.bind(relay.cumsum(node.cast(counts, "int64"), axis=0))
    total = relay.sum(node.cast(counts, "int64"))
    at = relay.arange(const(0, "int64"), total, const(1, "int64"), dtype="int64")
    return relay.searchsorted(ends, node.bind(at), right=True, dtype="int64")


@aten("roll")
def roll(node: TorchNode, x: Expr, shifts: Sequence[int], axes: Sequence[int]) -> Any:
    if not axes:
        flat = roll(node, node.bind(relay.reshape(x, [-1])), shifts, [0])
        return relay.reshape_like(flat, x)
    for shift, axis in zip(shifts, node.axes(axes, node.rank(x)), strict=True):
        size = node.sizes(x)[axis]
        if size is None:
            count = _int64(node.extent(x, axis))
            at = relay.arange(const(0, "int64"), count, const(1, "int64"), dtype="int64")
            x = node.bind(relay.take(x, relay.floor_mod(relay.subtract(at, const(shift, "int64")), count), axis=axis))
        elif size and shift % size:
            cut = size - shift % size
            parts = [relay.strided_slice(x, [b], [e], [1], [axis]) for b, e in ((cut, size), (0, cut))]
            x = node.bind(relay.concatenate(parts, axis))
    return x


@aten("pixel_shuffle")
def pixel_shuffle(node: TorchNode, x: Expr, factor: int) -> Any:
    return relay.nn.depth_to_space(x, factor, mode="CRD")


@aten("tril")
def tril(node: TorchNode, x: Expr, diagonal: int) -> Any:
    return relay.trilu(x, const(diagonal, "int64"), upper=False)


@aten("triu")
def triu(node: TorchNode, x: Expr, diagonal: int) -> Any:
    return relay.trilu(x, const(diagonal, "int64"), upper=True)


@aten("copy")
def copy(node: TorchNode, to: Expr, x: Expr, *others: Any) -> Any:
    return relay.broadcast_to_like(node.cast(x, node.result_dtype), to)


@aten("slice_scatter")
def slice_scatter(node: TorchNode, x: Expr, update: Expr, axis: int, start: Any, end: Any, step: int) -> Any:
    if (start or 0) == 0 and (end is None or node.number(end) == INT64_MAX) and step == 1:
        return node.cast(update, node.dtype(x))
    axis = node.axes([axis], node.rank(x))[0]
    at = relay.arange(const(0, "int64"), _int64(node.extent(x, axis)), const(1, "int64"), dtype="int64")
    at = slice_of(node, node.bind(at), 0, start, end, step)
    shape = [-1 if a == axis else 1 for a in range(node.rank(x))]
    at = relay.broadcast_to_like(relay.reshape(at, shape), update)
    return relay.scatter_elements(x, at, node.cast(update, node.dtype(x)), axis, "update")


@aten("select_scatter")
def select_scatter(node: TorchNode, x: Expr, update: Expr, axis: int, index: int) -> Any:
    axis = node.axes([axis], node.rank(x))[0]
    end = INT64_MAX if index == -1 else index + 1
    return slice_scatter(node, x, node.bind(relay.expand_dims(update, axis)), axis, index, end, 1)


@aten("diagonal")
def diagonal(node: TorchNode, x: Expr, offset: int, first: int, second: int) -> Any:
    rank = node.rank(x)
    a, b = node.axes([first, second], rank)
    rest = [k for k in range(rank) if k not in (a, b)]
    x = node.bind(relay.transpose(x, [a, b, *rest]))
    zero, one = const(0, "int64"), const(1, "int64")
    sizes = [_int64(node.extent(x, k)) for k in (0, 1)]
    down, across = const(max(-offset, 0), "int64"), const(max(offset, 0), "int64")
    count = relay.minimum(relay.subtract(sizes[0], down), relay.subtract(sizes[1], across))
    at = node.bind(relay.arange(zero, relay.maximum(count, zero), one, dtype="int64"))
    found = relay.adv_index([x, relay.add(at, down), relay.add(at, across)])
    return relay.transpose(found, [*range(1, rank - 1), 0])


@aten("as_strided")
def as_strided(node: TorchNode, x: Expr, size: Sequence[int], stride: Sequence[int], offset: int | None) -> Any:
    """Of a tensor whose elements are stored in the order of its shape."""
    if not node.given[0].is_contiguous() or node.given[0].storage_offset():
        raise node.error("the data are a view, whose storage a program does not know")
    if any(node.number(n) is None for n in (*size, *stride, offset or 0)):
        raise node.error("its sizes and strides must be known at import")
    at = np.full((), offset or 0, np.int64)
    for n, step in zip(size, stride, strict=True):
        at = at[..., None] + np.arange(int(n)) * int(step)
    return relay.take(relay.reshape(x, [-1]), const(at), axis=0, mode="fast")
