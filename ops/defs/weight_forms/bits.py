"""Bits of integers packed into words, and products of integers that are given by their lowest bits.

A packed axis has a word for ``w`` neighbours, the first in the highest bit; a further axis has one word per bit of the integers,
the lowest first.
"""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import data_layouts, kernel_layouts, layout_in
from ....shape_funcs.symbolic.argument_checks import axis_in, need_rank
from ....shape_funcs.symbolic.dim import const
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, cast, composite, number, table
from ...core.dtype_rules import INTEGERS, one_of, require
from ...core.op import DTypeRule, get
from ...core.tensor_types import ITEMSIZE
from ..arithmetic.broadcast import BITWISE_AND, LEFT_SHIFT, RIGHT_SHIFT
from ..axes.reduce import SUM, ReduceAttrs
from ..convolution.conv import Conv2dAttrs, Numbers
from ..movement.transform import ExpandDimsAttrs, ReshapeAttrs, TransposeAttrs
from ..products.nn import DenseAttrs

#: The dtypes of words.
_WORDS = ("uint8", "uint16", "uint32", "uint64")
#: The most bits of a packed integer.
_MOST = 8


@frozen
class BitpackAttrs:
    """``bits``: the number of lowest bits that are packed; ``pack_axis``: the packed axis of the data; ``bit_axis``: the axis of
    the result with a word per bit; ``pack_type``: dtype of a word; ``name``: any text, without effect."""

    bits: int = 1
    pack_axis: int = 1
    bit_axis: int = 2
    pack_type: str = "uint32"
    name: str = "BitPack"


@frozen
class BitserialConv2dAttrs:
    """``strides``, ``padding``, ``channels``, ``kernel_size``: as in Conv2dAttrs; ``activation_bits``, ``weight_bits``: bits of
    the data and of the weight; ``data_layout``, ``kernel_layout``: NCHW and OIHW, or NHWC and HWIO; ``pack_dtype``:
    dtype of the words of a packed weight; ``out_dtype``: dtype of the result; ``unipolar``: whether the bits of a weight are 1
    and -1, not 1 and 0."""

    strides: Numbers = 1
    padding: Numbers = 0
    channels: int | None = None
    kernel_size: Numbers | None = (3, 3)
    activation_bits: int = 1
    weight_bits: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    pack_dtype: str = "uint32"
    out_dtype: str = "int16"
    unipolar: bool = True


@frozen
class BitserialDenseAttrs:
    """``units``: number of rows of the weight, None for any; ``data_bits``, ``weight_bits``: the number of bits of the data and
    of the weight; the others as in BitserialConv2dAttrs."""

    units: int | None = None
    data_bits: int = 1
    weight_bits: int = 1
    pack_dtype: str = "uint32"
    out_dtype: str = "int16"
    unipolar: bool = True


def _few(name: str, bits: int) -> int:
    """``bits``, the attribute ``name``.  Raises ShapeError."""
    if not 1 <= bits <= _MOST:
        raise ShapeError(f"{name} must be 1 to {_MOST}, not {bits}")
    return bits


def _transposed(x: Term, axes: list[int]) -> Term:
    moved: Term = call(get("transpose"), x, attrs=TransposeAttrs(tuple(axes)))
    return moved


def _masked(x: Term, mask: int) -> Term:
    masked: Term = call(BITWISE_AND, x, number(mask, x.dtype))
    return masked


# ---- words -----------------------------------------------------------------------------------------------------------


def _bitpack(inputs: tuple[Term], attrs: BitpackAttrs) -> Term:
    (data,) = inputs
    axis, at = axis_in(attrs.pack_axis, data.rank, "pack_axis"), axis_in(attrs.bit_axis, data.rank + 1, "bit_axis")
    width, bits = 8 * ITEMSIZE[attrs.pack_type], _few("bits", attrs.bits)
    size = const(data.shape[axis])
    if size is not None and size % width:
        raise ShapeError(f"axis {axis} has size {size}, which is no multiple of the {width} bits of a word", input=0)
    before, after = (0,) * axis, (0,) * (data.rank - 1 - axis)
    parts = call(get("reshape"), data, attrs=ReshapeAttrs((*before, -4, -1, width, *after)))
    single = call(get("expand_dims"), parts, attrs=ExpandDimsAttrs(parts.rank))
    own = _masked(call(RIGHT_SHIFT, single, table(tuple(range(bits)), data.dtype)), 1)
    positions = _column(tuple(reversed(range(width))), len(after) + 1, attrs.pack_type)
    words = call(SUM, call(LEFT_SHIFT, cast(own, attrs.pack_type), positions), attrs=ReduceAttrs((axis + 1,)))
    order = list(range(data.rank))
    return _transposed(words, [*order[:at], data.rank, *order[at:]])


def _column(values: tuple[int, ...], after: int, dtype: str) -> Term:
    """A constant vector that broadcasts along ``after`` further axes."""
    column: Term = call(get("expand_dims"), table(values, dtype), attrs=ExpandDimsAttrs(1, after))
    return column


def _unpacked(words: Term, axis: int, bit_axis: int, dtype: str) -> Term:
    """The integers of packed words: the axis ``bit_axis`` summed, the axis ``axis``, left of it or right, unpacked."""
    width = 8 * ITEMSIZE[words.dtype]
    order = [k for k in range(words.rank) if k != bit_axis]
    last = _transposed(words, [*order, bit_axis])
    axis -= bit_axis < axis
    count = const(last.shape[-1])
    assert count is not None, "checked"
    single = call(get("expand_dims"), last, attrs=ExpandDimsAttrs(axis + 1))
    positions = _column(tuple(reversed(range(width))), last.rank - 1 - axis, words.dtype)
    own = cast(_masked(call(RIGHT_SHIFT, single, positions), 1), dtype)
    values = call(SUM, call(LEFT_SHIFT, own, table(tuple(range(count)), dtype)), attrs=ReduceAttrs((last.rank,)))
    joined: Term = call(get("reshape"), values, attrs=ReshapeAttrs((*(0,) * axis, -3, *(0,) * (last.rank - 2 - axis))))
    return joined


# ---- products --------------------------------------------------------------------------------------------------------


def _lowest(x: Term, name: str, bits: int) -> Term:
    """The ``bits`` lowest bits of integers, as int16; ``name``: the attribute that states the number."""
    return _masked(cast(x, "int16"), 2 ** _few(name, bits) - 1)


def _weights(weight: Term, axis: int, bit_axis: int, attrs: Any, rank: int) -> Term:
    """The numbers of a weight of ``rank`` axes, as int16; one with an axis more is packed.

    ``axis``, ``bit_axis``: the axis that is packed, the axis with a word per bit.
    """
    bits = _few("weight_bits", attrs.weight_bits)
    if weight.rank not in (rank, rank + 1):
        raise ShapeError(f"the weight must have {rank} dimensions, or {rank + 1} if it is packed, not {weight.rank}", input=1)
    if weight.rank == rank:
        values = _lowest(weight, "weight_bits", bits)
    else:
        if weight.dtype != attrs.pack_dtype:
            raise ShapeError(f"the packed weight is {weight.dtype}, pack_dtype says {attrs.pack_dtype}", input=1)
        if const(weight.shape[bit_axis]) != bits:
            message = f"axis {bit_axis} of the packed weight must have size {bits}, one word per bit, known at compile time"
            raise ShapeError(message, input=1)
        values = _unpacked(weight, axis, bit_axis, "int16")
    return values * number(2, "int16") - number(2**bits - 1, "int16") if attrs.unipolar else values


#: By the layout of the data: that of the weight, and the axes of its input channels and of its bits if it is packed.
_KERNELS = dict(zip(data_layouts(2), ((kernel_layouts(2)[0], 1, 4), (kernel_layouts(2)[1], 2, 4)), strict=True))


def _conv2d(inputs: tuple[Term, Term], attrs: BitserialConv2dAttrs) -> Term:
    data, weight = inputs
    need_rank(data.operand, 4, "the data", 0)
    layout, axis, bit_axis = _KERNELS[layout_in(attrs.data_layout, tuple(_KERNELS), "data_layout")]
    layout_in(attrs.kernel_layout, (layout,), "kernel_layout")
    values = _weights(weight, axis, bit_axis, attrs, 4)
    plain = Conv2dAttrs(
        attrs.strides, attrs.padding, channels=attrs.channels, kernel_size=attrs.kernel_size,
        data_layout=attrs.data_layout, kernel_layout=attrs.kernel_layout, out_dtype=attrs.out_dtype,
    )  # fmt: skip
    result: Term = call(get("nn.conv2d"), _lowest(data, "activation_bits", attrs.activation_bits), values, attrs=plain)
    return result


def _dense(inputs: tuple[Term, Term], attrs: BitserialDenseAttrs) -> Term:
    data, weight = inputs
    values = _weights(weight, 2, 1, attrs, 2)
    plain = DenseAttrs(attrs.units, attrs.out_dtype)
    product: Term = call(get("nn.dense"), _lowest(data, "data_bits", attrs.data_bits), values, attrs=plain)
    return product


def _pack_rule(dtypes: tuple[Any, ...], attrs: BitpackAttrs) -> str:
    require("nn.bitpack", dtypes[0], INTEGERS, 0, "data")
    one_of("nn.bitpack", "pack_type", attrs.pack_type, _WORDS)
    return attrs.pack_type


def _product_rule(op: str) -> DTypeRule:
    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
        for n, name in enumerate(("data", "weight")):
            require(op, dtypes[n], INTEGERS, n, name)
        one_of(op, "pack_dtype", attrs.pack_dtype, _WORDS)
        one_of(op, "out_dtype", attrs.out_dtype, INTEGERS)
        return str(attrs.out_dtype)

    return rule


composite(
    name="nn.bitpack",
    doc="The lowest bits of integers packed into words, one word per bit, the first integer in the highest bit: "
    '`nn.bitpack([1, 2, 3, 0, 0, 0, 0, 1], bits=2, pack_axis=0, bit_axis=0, pack_type="uint8") = [[161], [96]]`.',
    inputs=("data",),
    attrs=BitpackAttrs,
    dtype=_pack_rule,
    expand=_bitpack,
)
_BITS = "each weight is the sum of its bits times 1, 2, 4 and so on, where with `unipolar` a bit is 1 or -1, else 1 or 0"
composite(
    name="nn.bitserial_conv2d",
    doc=f"`nn.conv2d` of the lowest bits of integers; {_BITS}. A weight of "
    "five dimensions is packed as by `nn.bitpack`, its bits last.",
    inputs=("data", "weight"),
    attrs=BitserialConv2dAttrs,
    dtype=_product_rule("nn.bitserial_conv2d"),
    expand=_conv2d,
)
composite(
    name="nn.bitserial_dense",
    doc=f"`nn.dense` of the lowest bits of integers; {_BITS}: `nn.bitserial_dense([[1, 0, 1]], [[1, 1, 0]]) = [[0]]`. "
    "A weight of three dimensions is packed as by `nn.bitpack`, its bits in the middle.",
    inputs=("data", "weight"),
    attrs=BitserialDenseAttrs,
    dtype=_product_rule("nn.bitserial_dense"),
    expand=_dense,
)
