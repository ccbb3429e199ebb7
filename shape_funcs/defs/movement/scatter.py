"""Shapes of scatter operators."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import as_size, axis_in, dimensions, need_rank, same_size, vector
from ...symbolic.dim import Shape, const, dim, result_size
from ...symbolic.dim_operations import eq, le
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func


@register_shape_func("scatter_elements")
def scatter_elements(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """The shape of the data.  Indices and updates have one shape; except along ``attrs.axis``, no size exceeds the data's."""
    data, indices, updates = inputs
    axis = axis_in(attrs.axis, data.rank)
    for number, x, what in ((1, indices, "the indices"), (2, updates, "the updates")):
        need_rank(x, data.rank, what, number)
    for k, (a, b) in enumerate(zip(indices.shape, updates.shape, strict=True)):
        same_size(a, b, f"axis {k} is {{}} in the indices and {{}} in the updates", 2, k)
        if k != axis:
            message = f"axis {k} is {{}} in the indices, but only {{}} in the data"
            check(le(a, data.shape[k]), message, a, data.shape[k], input=1, axis=k)
    return data.shape


@register_shape_func("scatter_nd")
def scatter_nd(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """The shape of the data.  Axis 0 of the indices holds the ``M`` coordinates of an index tuple; the updates have the shape
    ``indices.shape[1:] + data.shape[M:]``."""
    data, indices, updates = inputs
    need_rank(indices, 1, "the indices", 1, at_least=True)
    coordinates = const(indices.shape[0])
    if coordinates is None:
        raise ShapeError("the size of axis 0 of the indices (how many coordinates) must be known at compile time", input=1)
    if coordinates > data.rank:
        raise ShapeError(f"{coordinates} coordinates are more than the data's {dimensions(data.rank)}", input=1)
    wanted = (*indices.shape[1:], *data.shape[coordinates:])
    need_rank(updates, len(wanted), "the updates", 2)
    for k, (a, b) in enumerate(zip(wanted, updates.shape, strict=True)):
        same_size(a, b, f"axis {k} of the updates must be {{}}, not {{}}", 2, k)
    return data.shape


@register_shape_func("strided_set")
def strided_set(inputs: tuple[Operand, ...], attrs: Any) -> Shape:
    """The shape of the data; begin, end and strides are vectors of one known length, for the first axes.

    The kernel checks that ``v`` has the shape of the slice.
    """
    data, v, *limits = inputs
    lengths = []
    for number, (x, what) in enumerate(zip(limits, ("begin", "end", "strides"), strict=True), 2):
        need_rank(x, 1, what, number)
        length = const(x.shape[0])
        if length is None:
            raise ShapeError(f"the length of {what} must be known at compile time", input=number)
        lengths.append(length)
    if len(set(lengths)) != 1:
        raise ShapeError("begin, end and strides differ in length: {}, {} and {}".format(*lengths))
    if lengths[0] > data.rank:
        raise ShapeError(f"begin has {lengths[0]} elements, the data only {dimensions(data.rank)}", input=2)
    need_rank(v, data.rank, "v", 1)
    for k in range(lengths[0], data.rank):
        same_size(data.shape[k], v.shape[k], f"axis {k} is {{}} in the data and {{}} in v", 1, k)
    return data.shape


@register_shape_func("invert_permutation")
def invert_permutation(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The shape of the data, a vector."""
    need_rank(inputs[0], 1, "the data", 0)
    return inputs[0].shape


@register_shape_func("sparse_to_dense")
def sparse_to_dense(inputs: tuple[Operand, ...], attrs: Any) -> Shape:
    """``attrs.output_shape``; its rank is the number of coordinates of an index."""
    return _dense(inputs, tuple(as_size(dim(d), "a size of output_shape") for d in attrs.output_shape))


@register_shape_func("dyn.sparse_to_dense", data_dependent=[False, False, False, True])
def dyn_sparse_to_dense(inputs: tuple[Operand, ...], attrs: Any) -> Shape:
    """The values of ``output_shape``; their number is the number of coordinates of an index."""
    return _dense(inputs, tuple(as_size(v, "a size of output_shape", 3) for v in vector(inputs[3], "output_shape", 3)))


def _dense(inputs: tuple[Operand, ...], shape: Shape) -> Shape:
    indices, values, default = inputs[:3]
    need_rank(default, 0, "the default value", 2)
    if indices.rank > 2:
        raise ShapeError(f"the indices must have at most 2 dimensions, not {indices.rank}", input=0)
    if values.rank > min(indices.rank, 1):
        raise ShapeError(f"the values must have at most {dimensions(min(indices.rank, 1))}, not {values.rank}", input=1)
    if values.rank:
        same_size(indices.shape[0], values.shape[0], "there are {} indices and {} values", 1, 0)
    if indices.rank == 2:
        same_size(dim(len(shape)), indices.shape[1], "output_shape has {} sizes, an index has {} coordinates", 0, 1)
    elif len(shape) != 1:
        raise ShapeError(f"output_shape has {len(shape)} sizes, but an index has 1 coordinate", input=0)
    return shape


@register_shape_func("sparse_fill_empty_rows", data_dependent=[False, False, True, False], upper_bound=True)
def sparse_fill_empty_rows(inputs: tuple[Operand, Operand, Operand, Operand], attrs: Any) -> list[Shape]:
    """The indices and values with one more for each empty row, at most for every row; per row whether it is empty."""
    indices, values, dense_shape, default = inputs
    for number, x, rank, what in ((0, indices, 2, "the indices"), (1, values, 1, "the values")):
        need_rank(x, rank, what, number)
    if default.rank:
        need_rank(default, 1, "the default", 3)
        check(eq(default.shape[0], 1), "the default has {} elements, not 1", default.shape[0], input=3)
    sizes = vector(dense_shape, "dense_shape", 2)
    if not sizes:
        raise ShapeError("dense_shape has no sizes: there are no rows", input=2)
    coordinates = same_size(dim(len(sizes)), indices.shape[1], "dense_shape has {} sizes, an index has {} coordinates", 0, 1)
    count = same_size(indices.shape[0], values.shape[0], "there are {} indices and {} values", 1, 0)
    rows = as_size(sizes[0], "the number of rows", 2)
    found = result_size(count + rows)
    return [(found, coordinates), (found,), (rows,)]
