"""Shapes of neural-network operators: matrix products."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import as_size, need_rank, same_size, vector
from ...symbolic.dim import Dim, Shape, dim
from ...symbolic.dim_operations import all_, any_, eq, le, lt, max_
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func
from ..arithmetic.broadcast import broadcast_shapes

#: Columns of a panel of bytes, and places along the inner axis of a step of it.
BYTE_COLUMNS, BYTE_DEPTH = 16, 4

_INNER = "the inner sizes of the product differ: {} and {}"


@register_shape_func("nn.dense")
def dense(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """``data[..., k]`` times ``weight[n, k]`` transposed: ``[..., n]``."""
    data, weight = inputs
    need_rank(data, 1, "the data", 0, at_least=True)
    need_rank(weight, 2, "the weight", 1)
    same_size(data.shape[-1], weight.shape[1], _INNER, 1, 1)
    return (*data.shape[:-1], _units(weight.shape[0], attrs))


@register_shape_func("nn.dense_panels")
def dense_panels(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """``data[..., k]`` times ``units`` columns in panels ``[panels, k, width]``: ``[..., units]``."""
    data, weight = inputs
    need_rank(data, 1, "the data", 0, at_least=True)
    need_rank(weight, 3, "the weight", 1)
    same_size(data.shape[-1], weight.shape[1], _INNER, 1, 1)
    panels, _, width = weight.shape
    units = dim(attrs.units)
    text = f"{{}} panels of {{}} columns do not hold {attrs.units} units"
    check(all_(le(units, panels * width), lt((panels - 1) * width, units)), text, panels, width, input=1)
    return (*data.shape[:-1], units)


@register_shape_func("nn.dense_byte_panels")
def dense_byte_panels(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """``data[..., k]`` times columns in panels ``[panels, steps, columns, depth]``, with a sum for each: ``[..., units]``."""
    data, weight, sums = inputs
    need_rank(data, 1, "the data", 0, at_least=True)
    need_rank(weight, 4, "the weight", 1)
    need_rank(sums, 1, "the sums", 2)
    (panels, steps, width, depth), units, inner = weight.shape, sums.shape[0], data.shape[-1]
    text = f"panels of {{}} columns and steps of {{}} places; they have {BYTE_COLUMNS} and {BYTE_DEPTH}"
    check(all_(eq(width, BYTE_COLUMNS), eq(depth, BYTE_DEPTH)), text, width, depth, input=1)
    text = f"{{}} steps of {BYTE_DEPTH} places do not hold {{}} inner elements"
    check(eq(steps, (inner + BYTE_DEPTH - 1) // BYTE_DEPTH), text, steps, inner, input=1)
    text = f"{{}} panels of {BYTE_COLUMNS} columns do not hold {{}} units"
    check(eq(panels, (units + BYTE_COLUMNS - 1) // BYTE_COLUMNS), text, panels, units, input=1)
    return (*data.shape[:-1], units)


@register_shape_func("nn.dense_bit_panels")
def dense_bit_panels(inputs: tuple[Operand, ...], attrs: Any) -> Shape:
    """``data[..., k]`` times ``units`` columns of few bits in panels ``[panels, blocks, bytes]``: ``[..., units]``."""
    data, weight, scales, zeros = inputs
    need_rank(data, 1, "the data", 0, at_least=True)
    for number, name in enumerate(("the weight", "the scales", "the zero points"), 1):
        need_rank(inputs[number], 3, name, number)
    panels, blocks, nbytes = weight.shape
    columns = scales.shape[2]
    units, inner = dim(attrs.units), data.shape[-1]
    text = f"{{}} panels of {{}} columns do not hold {attrs.units} units"
    check(all_(le(units, panels * columns), lt((panels - 1) * columns, units)), text, panels, columns, input=1)
    text = f"{{}} blocks of {attrs.block} numbers do not hold {{}}"
    check(all_(le(inner, blocks * attrs.block), lt((blocks - 1) * attrs.block, inner)), text, blocks, inner, input=1)
    of_block = columns * (attrs.block * attrs.bits // 8)
    same_size(nbytes, of_block, "a block of a panel has {} bytes of {}", 1, 2)
    for axis in (0, 1):
        same_size(scales.shape[axis], weight.shape[axis], "the weight and the scales differ: {} and {}", 2, axis)
    of_all = all_(eq(zeros.shape[0], 1), eq(zeros.shape[1], 1))
    of_each = all_(eq(zeros.shape[0], panels), eq(zeros.shape[1], blocks))
    text = "zero points of {} panels and {} blocks are those of no block, nor of all"
    check(all_(any_(of_all, of_each), eq(zeros.shape[2], columns)), text, *zeros.shape[:2], input=3)
    return (*data.shape[:-1], units)


@register_shape_func("nn.matmul")
def matmul(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """``a[..., m, k]`` times ``b[k, n]``: ``[..., m, n]``; ``transpose_a`` and ``transpose_b`` swap the last two axes."""
    a, b = inputs
    need_rank(a, 2, "the first matrix", 0, at_least=True)
    need_rank(b, 2, "the second matrix", 1)
    (m, k), (k2, n) = _matrix(a, attrs.transpose_a), _matrix(b, attrs.transpose_b)
    same_size(k, k2, _INNER, 1)
    return (*a.shape[:-2], m, _units(n, attrs))


@register_shape_func("nn.batch_matmul")
def batch_matmul(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """``a[b, m, k]`` times ``b[b, k, n]``: ``[b, m, n]``.  A batch of 1 is broadcast."""
    a, b = inputs
    need_rank(a, 3, "the first batch", 0)
    need_rank(b, 3, "the second batch", 1)
    (m, k), (k2, n) = _matrix(a, attrs.transpose_a), _matrix(b, attrs.transpose_b)
    same_size(k, k2, _INNER, 1)
    return (*broadcast_shapes(a.shape[:1], b.shape[:1], 1), m, n)


@register_shape_func("nn.tiled_batch_matmul", data_dependent=[False, False, True])
def tiled_batch_matmul(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """``nn.batch_matmul`` of ``a`` and ``b`` repeated ``reps`` times, ``(r, 1, 1)``."""
    a, b, reps = inputs
    need_rank(b, 3, "the second batch", 1)
    sizes = vector(reps, "reps", 2)
    if len(sizes) != 3:
        raise ShapeError(f"reps has {len(sizes)} elements; a batch of matrices has 3 axes", input=2)
    check(
        all_(eq(sizes[1], 1), eq(sizes[2], 1)), "matrices are repeated {} times along rows, {} along columns", *sizes[1:], input=2
    )
    batch = b.shape[0] * as_size(sizes[0], "a repetition", 2)
    made: Shape = batch_matmul((a, Operand((batch, *b.shape[1:]), b.dtype)), attrs)
    return made


def _units(size: Dim, attrs: Any) -> Dim:
    """The number of units of the result, checked against the attribute if that is stated."""
    if attrs.units is None:
        return size
    return same_size(dim(attrs.units), size, "units says {}, the weight has {}", 1)


def _matrix(x: Operand, transposed: bool) -> Shape:
    rows, columns = x.shape[-2:]
    return (columns, rows) if transposed else (rows, columns)


@register_shape_func("nn.batch_attention")
def batch_attention(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """``query[b, m, h, d]``, ``key[b, n, h, d]``, ``value[b, n, h, e]``: ``[b, m, h, e]``."""
    for number, (operand, name) in enumerate(zip(inputs, ("query", "key", "value"), strict=True)):
        need_rank(operand, 4, f"the {name}", number)
    query, key, value = (operand.shape for operand in inputs)
    for number, other in ((1, key), (2, value)):
        same_size(query[0], other[0], "the batches differ: {} and {}", number, 0)
        same_size(query[2], other[2], "the numbers of heads differ: {} and {}", number, 2)
    same_size(query[3], key[3], "the queries have {} elements, the keys {}", 1, 3)
    same_size(key[1], value[1], "there are {} keys and {} values", 2, 1)
    return (*query[:3], value[3])


@register_shape_func("nn.grouped_attention")
def grouped_attention(inputs: tuple[Operand, Operand, Operand, Operand], attrs: Any) -> Shape:
    """``query[b, m, h, d]``, ``key[b, n, g, d]``, ``value[b, n, g, e]``, ``bias[b, h, m, n]`` or sizes of 1: the result
    ``[b, m, h, e]``."""
    for number, (operand, name) in enumerate(zip(inputs, ("query", "key", "value", "bias"), strict=True)):
        need_rank(operand, 4, f"the {name}", number)
    query, key, value, bias = (operand.shape for operand in inputs)
    for number, other in ((1, key), (2, value)):
        same_size(query[0], other[0], "the batches differ: {} and {}", number, 0)
    same_size(key[2], value[2], "the keys have {} heads, the values {}", 2, 2)
    of_groups = query[2] // max_(key[2], 1) * key[2]
    check(eq(of_groups, query[2]), "{} heads are no groups for the keys of {}", query[2], key[2], input=1, axis=2)
    same_size(query[3], key[3], "the queries have {} elements, the keys {}", 1, 3)
    same_size(key[1], value[1], "there are {} keys and {} values", 2, 1)
    for axis, size in enumerate((query[0], query[2], query[1], key[1])):
        message = f"axis {axis} of the bias has size {{}}; {{}} or 1 is wanted"
        check(any_(eq(bias[axis], 1), eq(bias[axis], size)), message, bias[axis], size, input=3, axis=axis)
    return (*query[:3], value[3])


@register_shape_func("nn.attention")
def attention(inputs: tuple[Operand, Operand, Operand, Operand], attrs: Any) -> Shape:
    """``query[m, b, h, d]``, ``key[n, b, h, d]``, ``value[n, b, h, e]``, ``bias[b, h, m, n]``: ``[m, b, h, e]``."""
    for number, (operand, name) in enumerate(zip(inputs, ("query", "key", "value", "bias"), strict=True)):
        need_rank(operand, 4, f"the {name}", number)
    query, key, value, bias = (operand.shape for operand in inputs)
    m, batch, heads, _ = query
    for number, other in ((1, key), (2, value)):
        same_size(batch, other[1], "the batches differ: {} and {}", number, 1)
        same_size(heads, other[2], "the numbers of heads differ: {} and {}", number, 2)
    same_size(query[3], key[3], "the queries have {} elements, the keys {}", 1, 3)
    same_size(key[0], value[0], "there are {} keys and {} values", 2, 0)
    for axis, size in enumerate((batch, heads, m, key[0])):
        same_size(size, bias[axis], f"axis {axis} of the bias must be {{}}, and is {{}}", 3, axis)
    return (m, batch, heads, value[3])
