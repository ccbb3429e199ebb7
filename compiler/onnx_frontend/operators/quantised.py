"""Quantised tensors: conversions, products and convolutions of integers, exact before their one rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....ops.core.dtype_rules import BYTES
from ....ops.core.tensor_types import ITEMSIZE, is_integer
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Constant, Expr, Tuple, TupleGetItem
from ..node import Node
from ..operator_table import MICROSOFT, onnx_operator
from ..tensors import dtype_name
from .elementwise import number
from .products import convolved, matrix_product, of_merged_batches
from .vectors import extent
from .windows import padded_for_windows, window_attributes

#: A scale in messages.
SCALE = "the scale"


def parameter(node: Node, x: Expr, value: Expr | None, axis: int, what: str) -> Expr | None:
    """A scale or zero point: a scalar, a vector along ``axis``, or a tensor that broadcasts to the data, made of its blocks.

    Raises ModelError, also for a constant scale of the tensor or of a channel that is not positive or not finite, and for one
    of a block that is not finite.
    """
    if value is None:
        return None
    block = node.attr("block_size", 0)
    if what == SCALE:
        check_scale(node, value)
    if node.rank(value) == 0:
        return value
    if node.rank(value) == 1 and not block:
        _check_sizes(node, value, what, [node.size(x, axis)] if node.rank(x) else [])
        return _scalar(node, value)
    if not block or node.rank(value) != node.rank(x):
        raise node.error(f"{what} has rank {node.rank(value)}, the data {node.rank(x)}, and block_size is {block}")
    if block < 0:
        raise node.error(f"block_size is {block}", "a block has one number or more along the axis")
    blocks = [size if k != axis or size is None else -(-size // block) for k, size in enumerate(node.sizes(x))]
    _check_sizes(node, value, what, blocks)
    return relay.slice_like(relay.repeat(value, block, axis), x, [axis])


def _check_sizes(node: Node, value: Expr, what: str, wanted: Sequence[int | None]) -> None:
    """Raise ModelError for a parameter that is known to have other sizes than the data ask for, or than one element."""
    sizes = list(node.sizes(value))
    if sizes == [1] or all(None in pair or pair[0] == pair[1] for pair in zip(sizes, wanted, strict=False)):
        return
    stated = f"and block_size {node.attr('block_size')} ask" if node.attr("block_size", 0) else "ask"
    help = "correct the attribute axis, or quantise the model again: a number for each index of the axis, or for each block"
    raise node.error(f"{what} has the shape {sizes}; the data {stated} for {list(wanted)}", help)


def check_scale(node: Node, scale: Expr, what: str = SCALE) -> None:
    """Raise ModelError for a constant scale with a number that stands for no distance between quanta.

    Scales of blocks may be negative: some tools let the quantum of the largest magnitude have a sign.  A block of zeros has any.
    """
    if not isinstance(scale, Constant):
        return
    numbers, is_blocked = scale.data.astype("float64"), scale.data.ndim > 1
    is_right = np.isfinite(numbers) if is_blocked else np.isfinite(numbers) & (numbers > 0)
    if not is_right.all():
        place = [int(n) for n in np.argwhere(~is_right)[0]] if numbers.ndim else []
        which = f"element {place if is_blocked else place[0]} of {what}" if place else what
        help = "quantise the model again, with data that reach every tensor; a tensor of zeros has the scale 1"
        rule = "a scale is finite" if is_blocked else "a scale is positive and finite"
        raise node.error(f"{which} is {numbers[tuple(place)]:g}; {rule}", help)


def axis_of(node: Node, x: Expr, *values: Expr | None) -> int:
    """The axis of vectors of parameters; -1 if all parameters are scalars."""
    if all(v is None or node.rank(v) == 0 or (node.rank(v) == 1 and node.size(v, 0) == 1) for v in values):
        return -1
    axis, rank = node.attr("axis", 1), node.rank(x)
    if not -rank <= axis < rank:
        help = f"correct the attribute axis: {-rank} to {rank - 1}" if rank else "a scalar has one scale"
        raise node.error(f"the data of rank {rank} have no axis {axis}", help)
    return node.axis(axis, rank)


def quantised(node: Node, x: Expr, scale: Expr, zero_point: Expr | None, dtype: str, axis: int = -1) -> Expr:
    """``round(x / scale) + zero_point``, halves to the even number, clipped to the range of ``dtype``."""
    x = x if not is_integer(node.dtype(x)) else relay.cast(x, "float32")
    zero = number(0, "int32") if zero_point is None else zero_point
    return relay.qnn.quantize(x, scale, zero, axis=axis, out_dtype=dtype, ties="even")


def real(x: Expr, scale: Expr, zero_point: Expr | None, dtype: str = "float32", axis: int = -1) -> Expr:
    """``(x - zero_point) * scale``."""
    zero = number(0, "int32") if zero_point is None else zero_point
    return relay.qnn.dequantize(x, scale, zero, axis=axis, out_dtype=dtype)


@onnx_operator("QuantizeLinear", since=10)
@onnx_operator("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(node: Node, x: Expr, scale: Expr, zero_point: Expr | None) -> Expr:
    """To integers of 8 and 16 bits."""
    dtype = node.dtype(zero_point) if zero_point is not None else "uint8"
    if node.attr("output_dtype", 0):
        dtype = dtype_name(node.attr("output_dtype"), f"{node.label}: the result")
    few = next((name for name in node.narrow[2:3] if name), None)
    if few or not is_integer(dtype) or ITEMSIZE[dtype] > 2:
        raise node.error(f"the result is {few or dtype}; integers of 8 and 16 bits are quantised")
    if node.attr("precision", 0):
        x, scale = (relay.cast(v, dtype_name(node.attr("precision"), f"{node.label}: precision")) for v in (x, scale))
    axis = axis_of(node, x, scale, zero_point)
    given = parameter(node, x, scale, axis, SCALE)
    assert given is not None
    return quantised(node, x, given, parameter(node, x, zero_point, axis, "the zero point"), dtype, axis)


@onnx_operator("DequantizeLinear", since=10)
@onnx_operator("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear(node: Node, x: Expr, scale: Expr, zero_point: Expr | None) -> Expr:
    """From integers of 8, 16 and 32 bits, and from stored ones of 2 and 4 bits and floats of 8 bits, which are wider here."""
    axis, dtype = axis_of(node, x, scale, zero_point), node.dtype(scale)
    if node.attr("output_dtype", 0):
        dtype = dtype_name(node.attr("output_dtype"), f"{node.label}: the result")
    given = parameter(node, x, scale, axis, SCALE)
    assert given is not None
    if zero_point is not None and node.dtype(zero_point) != node.dtype(x):
        message = f"the zero point is {node.dtype(zero_point)}, the data are {node.dtype(x)}"
        raise node.error(message, "store the zero point in the dtype of the data")
    if not is_integer(node.dtype(x)):  # zero points of floats are 0
        scaled = relay.multiply(relay.cast(x, "float32"), relay.cast(along(node, x, given, axis), "float32"))
        return relay.cast(scaled, dtype)
    return real(x, given, parameter(node, x, zero_point, axis, "the zero point"), dtype, axis)


def dynamically_quantised(node: Node, x: Expr) -> tuple[Expr, Expr, Expr]:
    """The data as uint8, its scale and zero point, by its least and its largest element and 0; of no elements 1 and 0."""
    x = node.bind(x)

    def of_elements(inner: Node) -> Expr:
        zero, most, one = (number(n, "float32") for n in (0, 255, 1))
        largest, least = relay.maximum(relay.max(x), zero), relay.minimum(relay.min(x), zero)
        width = relay.subtract(largest, least)
        scale = relay.where(relay.equal(width, zero), one, relay.divide(width, most))
        moved = relay.clip(relay.subtract(zero, relay.divide(least, scale)), 0.0, 255.0)
        return Tuple((scale, relay.cast(relay.rint(moved), "uint8")))

    if all(node.sizes(x)):
        both = of_elements(node)
    else:
        is_empty = relay.equal(relay.prod(relay.shape_of(x, dtype="int64")), const(0, "int64"))
        both = node.choose(is_empty, lambda _: Tuple((number(1, "float32"), number(0, "uint8"))), of_elements)
    both = node.bind(both)
    scale, zero_point = node.bind(TupleGetItem(both, 0)), node.bind(TupleGetItem(both, 1))
    return quantised(node, x, scale, zero_point, "uint8"), scale, zero_point


@onnx_operator("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(node: Node, x: Expr) -> list[Expr]:
    return list(dynamically_quantised(node, x))


# ---- products --------------------------------------------------------------------------------------------------------------


def centred(node: Node, x: Expr, zero_point: Expr | None, axis: int | None = None) -> Expr:
    """The integers without their zero point: those of 8 bits as int16, of 16 bits as int32.

    A vector of zero points lies along ``axis`` of the data; any other tensor broadcasts.
    """
    wide = "int16" if ITEMSIZE[node.dtype(x)] == 1 else "int32"
    whole = relay.cast(x, wide)
    return whole if zero_point is None else relay.subtract(whole, along(node, x, relay.cast(zero_point, wide), axis))


def _convolution(node: Node, x: Expr, weight: Expr, zero_x: Expr | None, zero_w: Expr | None) -> Expr:
    """The convolution of integers without their zero points, as int32."""
    zero = number(0, node.dtype(x)) if zero_x is None else _scalar(node, zero_x)
    spatial = node.rank(x) - 2
    if spatial in (1, 2) and node.rank(zero) == 0:
        window = window_attributes(node, x, weight)
        x, padding = padded_for_windows(node, x, window, zero)
        missing = 2 - spatial  # a convolution over one axis is one of a single row
        x, weight = (relay.expand_dims(v, 2) if missing else v for v in (x, weight))
        begin, end, ones = padding[:spatial], padding[spatial:], [1] * missing
        result = relay.qnn.conv2d(
            x, weight, zero, number(0, "int32") if zero_w is None else zero_w, number(1, "float32"), number(1, "float32"),
            strides=[*ones, *window.strides], padding=[*[0] * missing, *begin, *[0] * missing, *end],
            dilation=[*ones, *window.dilations], groups=node.attr("group", 1),
        )  # fmt: skip
        return relay.squeeze(result, [2]) if missing else result
    terms = centred(node, x, zero_x), centred(node, weight, zero_w, 0)
    wide = convolved(node, *(node.bind(relay.cast(t, "float64")) for t in terms))
    return relay.cast(relay.cast(wide, "int64"), "int32")


def along(node: Node, x: Expr, value: Expr, axis: int | None) -> Expr:
    """A vector with more than one element, reshaped to broadcast along ``axis`` of the data."""
    rank = node.rank(x)
    if axis is None or node.rank(value) != 1 or node.size(value, 0) == 1 or rank == 0:
        return value
    following = rank - 1 - node.axis(axis, rank)
    if isinstance(value, Constant):
        return const(value.data.reshape(-1, *[1] * following))
    return relay.expand_dims(value, 1, following) if following else value


def integer_product(node: Node, a: Expr, b: Expr, zero_a: Expr | None, zero_b: Expr | None) -> Expr:
    """The product of integers without their zero points, as int32; a vector of them is per row of a or per column of b."""
    if {node.dtype(a), node.dtype(b)} <= {*BYTES} and min(node.rank(a), node.rank(b)) > 1:
        batches = _product_of_batches(node, a, b, (zero_a, zero_b), lambda product: product)
        return _product_of_bytes(node, a, b, zero_a, zero_b) if batches is None else batches
    left = centred(node, a, zero_a, -2 if node.rank(a) > 1 else None)
    return matrix_product(node, node.bind(left), node.bind(centred(node, b, zero_b, -1)), "int32")


def _product_of_batches(
    node: Node, a: Expr, b: Expr, zeros: tuple[Expr | None, Expr | None], finish: Callable[[Expr], Expr]
) -> Expr | None:
    """``finish`` of the product of batches of bytes, whose batch has one axis there; None for other tensors.

    The second operand is transposed, and its bytes become signed, before batches of two axes become one: by one kernel, which
    transposes it as the program does, too.
    """
    rank = node.rank(b)
    if {node.dtype(a), node.dtype(b)} - {*BYTES} or node.rank(a) != rank or rank not in (3, 4):
        return None
    if not all(zero is None or node.rank(zero) == 0 or node.size(zero, 0) == 1 for zero in zeros):
        return None
    of_all = number(0, node.dtype(a)) if zeros[0] is None else _scalar(node, zeros[0])
    transposed = node.bind(relay.transpose(b, [*range(rank - 2), rank - 1, rank - 2]))
    columns, zero_b = _signed(node, transposed, None if zeros[1] is None else _scalar(node, zeros[1]))

    def product(a: Expr, columns: Expr) -> Expr:
        return finish(relay.qnn.batch_matmul(a, columns, of_all, zero_b, number(1, "float32"), number(1, "float32")))

    return product(a, columns) if rank == 3 else of_merged_batches(node, a, columns, product)


def _product_of_bytes(node: Node, a: Expr, b: Expr, zero_a: Expr | None, zero_b: Expr | None) -> Expr:
    """As ``integer_product``: the product of the bytes as they are, less zero points times sums of columns and of rows.

    All sums are modulo 2**32, as the result is.  Unsigned bytes of b are taken as signed ones, 128 less.
    """
    b, zero_b = _signed(node, b, zero_b)
    product = matrix_product(node, a, b, "int32")
    if zero_a is not None and not _is_zero(node, zero_a):
        zero_a = along(node, a, relay.cast(zero_a, "int32"), -2)
        product = relay.subtract(product, relay.multiply(_sums_of_columns(node, b), zero_a))
    if not _is_zero(node, zero_b):
        rows = relay.cast(a, "int32") if zero_a is None else relay.subtract(relay.cast(a, "int32"), relay.cast(zero_a, "int32"))
        product = relay.subtract(product, relay.multiply(relay.sum(rows, axis=-1, keepdims=True), along(node, b, zero_b, -1)))
    return product


def _signed(node: Node, b: Expr, zero_point: Expr | None) -> tuple[Expr, Expr]:
    """Bytes as signed ones, and their zero point as int32."""
    less, known = 128 if node.dtype(b) == "uint8" else 0, node.constant(zero_point)
    if less:
        b = node.bind(relay.cast(relay.bitwise_xor(b, number(less, "uint8")), "int8"))
    if zero_point is None or known is not None:
        return b, const((np.int32(0) if known is None else known.astype(np.int32)) - np.int32(less), "int32")
    return b, relay.subtract(relay.cast(zero_point, "int32"), number(less, "int32"))


def _sums_of_columns(node: Node, b: Expr) -> Expr:
    """The sums of the columns; of a parameter they are a product with ones, which is folded once the parameter is bound."""
    inner, known = node.size(b, -2), node.constant(b)
    if known is not None:
        return const(known.sum(-2, dtype=np.int32, keepdims=True))
    if inner is None or node.rank(b) != 2:
        return relay.sum(relay.cast(b, "int32"), axis=-2, keepdims=True)
    return matrix_product(node, const(np.ones((1, inner), np.uint8)), b, "int32")


def _is_zero(node: Node, zero_point: Expr) -> bool:
    """Whether all zero points are known to be 0."""
    known = node.constant(zero_point)
    return known is not None and not known.any()


@onnx_operator("MatMulInteger", since=10)
def matmul_integer(node: Node, a: Expr, b: Expr, zero_a: Expr | None, zero_b: Expr | None) -> Expr:
    return integer_product(node, a, b, zero_a, zero_b)


@onnx_operator("QLinearMatMul", since=10)
def qlinear_matmul(
    node: Node, a: Expr, scale_a: Expr, zero_a: Expr, b: Expr, scale_b: Expr, zero_b: Expr, scale: Expr, zero_point: Expr
) -> Expr:
    def scaled(product: Expr) -> Expr:
        first = along(node, a, scale_a, -2 if node.rank(a) > 1 else None)
        factor = scales_ratio(scales_product(first, along(node, b, scale_b, -1)), scale)
        return rescaled(node, product, factor, zero_point)

    # bytes are reshaped, not sums, so that the scale is part of the product's kernel
    batches = _product_of_batches(node, a, b, (zero_a, zero_b), scaled)
    return scaled(integer_product(node, a, b, zero_a, zero_b)) if batches is None else batches


def scales_product(a: Expr, b: Expr) -> Expr:
    """``a * b``; of constants a constant, which a network has for each layer."""
    return _of_scales(np.multiply, relay.multiply, a, b)


def scales_ratio(a: Expr, b: Expr) -> Expr:
    """``a / b``; of constants a constant."""
    return _of_scales(np.divide, relay.divide, a, b)


def _of_scales(known: np.ufunc, operator: Callable[[Expr, Expr], Expr], a: Expr, b: Expr) -> Expr:
    if not (isinstance(a, Constant) and isinstance(b, Constant) and a.data.dtype == b.data.dtype == np.float32):
        return operator(a, b)
    with np.errstate(all="ignore"):  # as kernels, which do not warn
        return const(np.asarray(known(a.data, b.data)))


def rescaled(node: Node, x: Expr, factor: Expr, zero_point: Expr | None, dtype: str = "") -> Expr:
    """``round(x * factor) + zero_point`` of integers; ``dtype``: of the result, "" for that of the zero point."""
    factor = factor if node.dtype(factor) == "float32" else relay.cast(factor, "float32")
    moved = relay.multiply(relay.cast(x, "float32"), factor)
    dtype = dtype or ("uint8" if zero_point is None else node.dtype(zero_point))
    zero = None if zero_point is None else _per_column(node, zero_point, x)
    return quantised(node, moved, number(1, "float32"), zero, dtype)


def _scalar(node: Node, value: Expr) -> Expr:
    """The only element of a vector, of a constant as a constant; any other value as it is."""
    if isinstance(value, Constant) and value.data.shape == (1,):
        return const(value.data.reshape(()))
    return relay.squeeze(value, [0]) if node.rank(value) == 1 and node.size(value, 0) == 1 else value


def _per_column(node: Node, value: Expr, x: Expr) -> Expr:
    """A scalar, or a vector with an element for each column of the data; one of unknown size may have one element for all."""
    value = _scalar(node, value)
    if node.rank(value) != 1 or node.size(value, 0) is not None:
        return value
    return relay.broadcast_to(value, relay.reshape(extent(x, node.rank(x) - 1), [1]))


@onnx_operator("ConvInteger", since=10)
def conv_integer(node: Node, x: Expr, weight: Expr, zero_x: Expr | None, zero_w: Expr | None) -> Expr:
    return _convolution(node, x, weight, zero_x, zero_w)


@onnx_operator("QLinearConv", since=10)
def qlinear_conv(
    node: Node, x: Expr, scale_x: Expr, zero_x: Expr, weight: Expr, scale_w: Expr, zero_w: Expr, scale: Expr, zero_point: Expr,
    bias: Expr | None,
) -> Expr:  # fmt: skip
    product = _convolution(node, x, weight, zero_x, zero_w)
    if bias is not None:
        product = relay.nn.bias_add(product, bias, axis=1)
    factor = scales_ratio(scales_product(scale_x, along(node, x, scale_w, 1)), scale)
    return rescaled(node, product, factor, zero_point)
