"""Products with weights of few bits, of the domain com.microsoft."""

from __future__ import annotations

import math

from .....ops.kernels.weight_bits.weight_layout import BITS, LEAST_BLOCK
from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import MICROSOFT, onnx_operator
from ..elementwise import number
from ..indexing import from_the_front
from ..quantised import SCALE, check_scale, parameter, real

#: The accuracy level that lets data be rounded to int8.
_ROUNDED = 4


@onnx_operator("MatMulNBits", domain=MICROSOFT)
def matmul_nbits(
    node: Node, a: Expr, packed: Expr, scales: Expr, zero_points: Expr | None, group: Expr | None, bias: Expr | None
) -> Expr:
    """Weights of 2, 4 or 8 bits; without a reordering of groups.  With accuracy_level 4 data are rounded to int8 by block."""
    inner, outer, block = (_size(node, name) for name in ("K", "N", "block_size"))
    bits = int(node.attr("bits", 4))
    if bits not in BITS:
        raise node.error(f"weights of {bits} bits are not supported", f"quantise the weight to {', '.join(map(str, BITS))} bits")
    check_block(node, block, "weight")
    if group is not None:
        help = "quantise the weight without a reordering"
        raise node.error("a reordering of groups, g_idx, is not supported", help)
    if node.size(a, -1) not in (None, inner):
        raise node.error(f"rows of A have {node.size(a, -1)} elements, K is {inner}", "correct the attribute K")
    blocks = -(-inner // block)
    packed = _shaped(node, packed, (outer, blocks, block * bits // 8), "B")
    scales = _shaped(node, scales, (outer, blocks), "scales")
    check_scale(node, scales, "scales")
    if zero_points is None:
        zeros: Expr = number(2 ** (bits - 1), "uint8")
    else:
        count = -(-blocks * bits // 8) if node.dtype(zero_points) == "uint8" else blocks
        zeros = _shaped(node, zero_points, (outer, count), "zero_points")
    is_rounded = node.attr("accuracy_level", 0) == _ROUNDED
    result = relay.nn.dense_bits(a, packed, scales, zeros, bits=bits, block=block, inner=inner, rounds_data=is_rounded)
    return result if bias is None else relay.add(result, bias)


def _size(node: Node, name: str) -> int:
    """A required attribute that is a size."""
    size = int(node.required(name))
    if size < 1:
        raise node.error(f"the attribute {name} is {size}", "a size is 1 at least")
    return size


def _shaped(node: Node, given: Expr, shape: tuple[int, ...], what: str) -> Expr:
    """An input in the shape that the attributes ask for; models store it in any shape of as many elements."""
    sizes = node.sizes(given)
    if sizes == shape:
        return given
    known = [size for size in sizes if size is not None]
    if len(known) == len(sizes) and math.prod(known) != math.prod(shape):
        message = f"{what} has the shape {list(sizes)}; K, N, bits and block_size ask for {list(shape)}"
        raise node.error(message, "correct the attributes, or quantise the weight again")
    value = node.constant(given)
    return relay.reshape(given, list(shape)) if value is None else const(value.reshape(shape))


@onnx_operator("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(node: Node, data: Expr, indices: Expr, scales: Expr, zero_points: Expr | None) -> Expr:
    """Of 4 and 8 bits: the rows that are gathered alone are unpacked and dequantised.  An index out of range is an error."""
    is_packed, bits = _has_pairs(node, data)
    block, rank = int(node.attr("block_size", 128)), node.rank(data)
    axis, blocked = (node.axis(node.attr(name, default), rank) for name, default in (("gather_axis", 0), ("quantize_axis", 1)))
    if axis == blocked:
        raise node.error(f"gather_axis and quantize_axis are both {axis}", "gather along another axis than that of the blocks")
    if is_packed and blocked != rank - 1:
        raise node.error(f"quantize_axis is {blocked}, but bytes have pairs of the axis {rank - 1}", "quantise the last axis")
    check_block(node, block, "data")
    size = node.size(data, blocked)
    _check_blocks(node, scales, data, blocked, -(-size * (1 + is_packed) // block) if size else None)
    at = node.bind(from_the_front(node, indices, data, axis))
    moved = blocked + (node.rank(indices) - 1 if blocked > axis else 0)

    def rows(table: Expr, has_pairs: bool) -> Expr:
        found = node.bind(relay.take(table, at, axis=axis, mode="fast"))
        return _apart(node, found) if has_pairs else found

    numbers, scale = rows(data, is_packed), rows(scales, False)
    is_unsigned = node.narrow[0] is None and node.dtype(data) == "uint8"
    zeros: Expr | None = number(2 ** (bits - 1) if is_unsigned else 0, "int32")
    if zero_points is not None:
        # a byte may have a number more than there are blocks
        own = relay.slice_like(rows(zero_points, is_packed), scale, [moved])
        zeros = parameter(node, numbers, node.bind(own), moved, "the zero point")
    given = parameter(node, numbers, scale, moved, SCALE)
    assert given is not None
    return real(numbers, given, zeros, node.dtype(scales))


def _has_pairs(node: Node, data: Expr) -> tuple[bool, int]:
    """Whether bytes have two numbers of 4 bits, and the bits of a number.  Raises ModelError for other numbers of bits."""
    bits = int(node.attr("bits", 4))
    if bits not in (4, 8):
        raise node.error(f"data of {bits} bits are not supported", "quantise the data to 4 or 8 bits")
    return bits == 4 and node.narrow[0] is None and node.dtype(data) == "uint8", bits


def check_block(node: Node, block: int, what: str) -> None:
    """Raise ModelError unless a block is a power of 2 that kernels have."""
    if block < LEAST_BLOCK or block & (block - 1):
        help = f"quantise the {what} in blocks of {LEAST_BLOCK}, {2 * LEAST_BLOCK}, {4 * LEAST_BLOCK} ... numbers"
        raise node.error(f"block_size is {block}, which is no power of 2 from {LEAST_BLOCK} on", help)


def _check_blocks(node: Node, given: Expr, data: Expr, axis: int, blocks: int | None) -> None:
    """Raise ModelError unless scales have a number for each block along an axis of the data, as far as sizes are known."""
    wanted = [blocks if k == axis else size for k, size in enumerate(node.sizes(data))]
    found = list(node.sizes(given))
    if len(found) != len(wanted) or any(None not in pair and pair[0] != pair[1] for pair in zip(found, wanted, strict=True)):
        message = f"scales has the shape {found}; the data, quantize_axis and block_size ask for {wanted}"
        raise node.error(message, "correct the attributes, or quantise the data again")


def _apart(node: Node, packed: Expr) -> Expr:
    """The numbers of 4 bits in the bytes of the last axis, the lower first."""
    rank = node.rank(packed)
    both = relay.right_shift(relay.expand_dims(packed, rank), const([0, 4], "uint8"))
    return node.bind(relay.reshape(relay.bitwise_and(both, number(15, "uint8")), [*[0] * (rank - 1), -3]))
