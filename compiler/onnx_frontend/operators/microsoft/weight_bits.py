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
    if block < LEAST_BLOCK or block & (block - 1):
        help = f"quantise the weight in blocks of {LEAST_BLOCK}, {2 * LEAST_BLOCK}, {4 * LEAST_BLOCK} ... numbers"
        raise node.error(f"block_size is {block}, which is no power of 2 from {LEAST_BLOCK} on", help)
    if group is not None:
        help = "quantise the weight without a reordering"
        raise node.error("a reordering of groups, g_idx, is not supported", help)
    if node.size(a, -1) not in (None, inner):
        raise node.error(f"rows of A have {node.size(a, -1)} elements, K is {inner}", "correct the attribute K")
    blocks = -(-inner // block)
    packed = _shaped(node, packed, (outer, blocks, block * bits // 8), "B")
    scales = _shaped(node, scales, (outer, blocks), "scales")
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
