"""Shapes of operators that gather elements by index."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import as_size, axis_in, dimensions, need_rank, same_size, scalar
from ...symbolic.dim import Dim, Shape, const, dim
from ...symbolic.dim_operations import eq
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func
from ..arithmetic.broadcast import broadcast_shapes


@register_shape_func("take")
def take(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of the data with axis ``attrs.axis`` replaced by the axes of the indices (None: the data is flattened).

    Data and indices share the first ``attrs.batch_dims`` axes.
    """
    data, indices = inputs
    if attrs.axis is None:
        return indices.shape
    axis = axis_in(attrs.axis, data.rank)
    batch = _batch_dims(attrs.batch_dims, indices)
    if batch > axis:
        raise ShapeError(f"batch_dims {batch} must not be greater than axis {axis}")
    shared = _shared(data, indices.shape[:batch])
    return (*shared, *data.shape[batch:axis], *indices.shape[batch:], *data.shape[axis + 1 :])


@register_shape_func("weighted_take")
def weighted_take(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """The shape of the data; axis ``attrs.axis`` has the size of axis 0 of the indices, whose axis 1 is known."""
    data, indices, weights = inputs
    axis = axis_in(attrs.axis, data.rank)
    need_rank(indices, 2, "the indices", 1)
    need_rank(weights, 2, "the weights", 2)
    message = "axis {} has size {{}} in the weights and {{}} in the indices"
    size, taps = (
        same_size(w, i, message.format(k), 2, k) for k, (w, i) in enumerate(zip(weights.shape, indices.shape, strict=True))
    )
    if not const(taps):
        raise ShapeError("the size of axis 1 of the indices (how many elements a sum has) must be known, and at least 1", input=1)
    return (*data.shape[:axis], size, *data.shape[axis + 1 :])


@register_shape_func("gather")
def gather(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of the indices, equal to the shape of the data except for axis ``attrs.axis``."""
    data, indices = inputs
    axis = axis_in(attrs.axis, data.rank)
    if indices.rank != data.rank:
        raise ShapeError(f"the indices have {dimensions(indices.rank)}, the data {data.rank}", input=1)
    message = "axis {} has size {{}} in the indices and {{}} in the data"
    return tuple(d if k == axis else same_size(d, data.shape[k], message.format(k), 1, k) for k, d in enumerate(indices.shape))


@register_shape_func("gather_nd")
def gather_nd(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """``indices.shape[1:] + data.shape[batch_dims + M:]``; axis 0 of the indices holds the ``M`` coordinates of an element."""
    data, indices = inputs
    need_rank(indices, 1, "the indices", 1, at_least=True)
    coordinates = _coordinates(indices, attrs.index_rank)
    batch = _batch_dims(attrs.batch_dims, indices)
    if batch + coordinates > data.rank:
        raise ShapeError(
            f"batch_dims {batch} and {coordinates} coordinates are more than the data's {dimensions(data.rank)}", input=1
        )
    shared = _shared(data, indices.shape[1 : 1 + batch])
    return (*shared, *indices.shape[1 + batch :], *data.shape[batch + coordinates :])


def _coordinates(indices: Operand, index_rank: int | None) -> int:
    """The number of coordinates of an index tuple: the size of axis 0 if known, else ``index_rank``; both must agree."""
    size = indices.shape[0]
    coordinates = const(size) if index_rank is None else index_rank
    if coordinates is None:
        raise ShapeError(
            "the size of axis 0 of the indices (how many coordinates) must be known at compile time, or said by index_rank",
            input=1,
        )
    check(eq(size, coordinates), "axis 0 of the indices has size {}, index_rank is {}", size, coordinates, input=1, axis=0)
    return coordinates


def _batch_dims(given: int, indices: Operand) -> int:
    if not -indices.rank <= given <= indices.rank:
        raise ShapeError(f"batch_dims {given} is out of range for indices with {dimensions(indices.rank)}")
    return given + indices.rank if given < 0 else given


def _shared(data: Operand, indices: Shape) -> list[Dim]:
    if len(indices) > data.rank:
        raise ShapeError(f"batch_dims {len(indices)} are more than the data's {dimensions(data.rank)}")
    message = "batch axis {} has size {{}} in the indices and {{}} in the data"
    return [same_size(d, data.shape[k], message.format(k), 1, k) for k, d in enumerate(indices)]


@register_shape_func("one_hot")
def one_hot(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """The shape of the indices with a new axis ``attrs.axis`` of size ``attrs.depth``."""
    return _one_hot(inputs, dim(attrs.depth), attrs)


@register_shape_func("dyn.one_hot", data_dependent=[False, False, False, True])
def dyn_one_hot(inputs: tuple[Operand, Operand, Operand, Operand], attrs: Any) -> Shape:
    """The shape of the indices with a new axis ``attrs.axis`` whose size is the value of ``depth``."""
    return _one_hot(inputs, scalar(inputs[3], "depth", 3), attrs)


def _one_hot(inputs: tuple[Operand, ...], depth: Dim, attrs: Any) -> Shape:
    indices, on, off = inputs[:3]
    need_rank(on, 0, "on_value", 1)
    need_rank(off, 0, "off_value", 2)
    axis = axis_in(attrs.axis, indices.rank + 1)
    return (*indices.shape[:axis], as_size(depth, "depth"), *indices.shape[axis:])


@register_shape_func("adv_index")
def adv_index(inputs: tuple[tuple[Operand, ...]], attrs: Any) -> Shape:
    """The shape of the first tensor; its first k axes are replaced by the broadcast shape of the k index tensors."""
    (fields,) = inputs
    if len(fields) < 2:
        raise ShapeError("needs the data and at least one tensor of indices", input=0)
    data, *indices = fields
    if len(indices) > data.rank:
        raise ShapeError(f"{len(indices)} tensors of indices are more than the data's {dimensions(data.rank)}", input=0)
    out: Shape = ()
    for x in indices:
        out = broadcast_shapes(out, x.shape, 0)
    return (*out, *data.shape[len(indices) :])


@register_shape_func("unravel_index")
def unravel_index(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of the indices with a new first axis for the coordinates, one per element of ``shape``."""
    indices, shape = inputs
    need_rank(shape, 1, "shape", 1)
    if const(shape.shape[0]) is None:
        raise ShapeError("the length of shape (how many coordinates) must be known at compile time", input=1)
    return (shape.shape[0], *indices.shape)
