"""Mixtures of experts whose weights have few bits."""

from __future__ import annotations

from .....declarations.frozen_dataclass import frozen
from .....ops.kernels.weight_bits.weight_layout import BITS, LEAST_BLOCK
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import MICROSOFT, onnx_operator
from ..elementwise import number
from .experts import Layer, mixture, part_of
from .weight_bits import check_block


@frozen
class _Stored:
    """The weights of a layer of all experts, ``[experts, rows, bytes]``, their scales, biases and zero points."""

    weights: Expr
    scales: Expr | None
    bias: Expr | None
    zeros: Expr | None


@onnx_operator("QMoE", domain=MICROSOFT)
def quantised_mixture(
    node: Node, x: Expr, router: Expr, first: Expr, first_scales: Expr | None, first_bias: Expr | None, second: Expr,
    second_scales: Expr | None, second_bias: Expr | None, third: Expr | None, third_scales: Expr | None,
    third_bias: Expr | None, first_zeros: Expr | None, second_zeros: Expr | None, third_zeros: Expr | None,
    mixing: Expr | None, first_whole: Expr | None, second_whole: Expr | None, first_data: Expr | None, second_data: Expr | None,
    first_blocks: Expr | None, second_blocks: Expr | None,
) -> Expr:  # fmt: skip
    """Weights of 2, 4 or 8 bits, which are read as they are stored; otherwise as `MoE`."""
    if node.attr("quant_type", "int") != "int":
        raise node.error(f"quant_type is {node.attr('quant_type')!r}", "quantise the weights to integers: quant_type='int'")
    of_floats = first_whole, second_whole, first_data, second_data, first_blocks, second_blocks
    if any(given is not None for given in of_floats):
        raise node.error("it has scales of all weights or of data, which weights of integers have not", "leave them out")
    if node.attr("weights_prepacked", -1) == 1:
        raise node.error("weights_prepacked is 1", "store the weights as [experts, rows, bytes]: weights_prepacked=0")
    layers = (
        _Stored(first, first_scales, first_bias, first_zeros), _Stored(second, second_scales, second_bias, second_zeros),
        None if third is None else _Stored(third, third_scales, third_bias, third_zeros),
    )  # fmt: skip

    def layer(number: int, expert: int) -> Layer | None:
        stored = layers[number]
        return None if stored is None else _product(node, stored, f"fc{number + 1}", expert)

    return mixture(node, x, router, mixing, node.size(first, 0), layer)


def _product(node: Node, stored: _Stored, name: str, expert: int) -> Layer:
    """The product with the weight of an expert, and its bias."""
    bits = int(node.attr(f"{name}_expert_weight_bits", node.attr("expert_weight_bits", 4)))
    if bits not in BITS:
        raise node.error(f"weights of {bits} bits are not supported", f"quantise the weight to {', '.join(map(str, BITS))} bits")
    sizes = node.sizes(stored.weights)
    if stored.scales is None or len(sizes) != 3 or sizes[1] is None or sizes[2] is None:
        raise node.error(f"{name} has no scales, or weights whose sizes are not known at import")
    rows, inner = sizes[1], sizes[2] * 8 // bits
    is_by_row = node.rank(stored.scales) == 2
    block = _block_of_rows(node, inner) if is_by_row else int(node.attr("block_size", 0))
    check_block(node, block, "weight")
    blocks = -(-inner // block)
    packed = relay.reshape(part_of(node, stored.weights, expert), [rows, blocks, block * bits // 8])
    scales = relay.reshape(part_of(node, stored.scales, expert), [rows, 1 if is_by_row else blocks])
    if is_by_row:
        scales = relay.repeat(scales, blocks, axis=1)
    zeros: Expr = number(2 ** (bits - 1), "uint8")
    if stored.zeros is not None:
        if is_by_row:
            raise node.error(f"{name} has zero points of rows", "quantise the weights by blocks: block_size")
        zeros = part_of(node, stored.zeros, expert)
    bias = None if stored.bias is None else part_of(node, stored.bias, expert)
    packed, scales = node.bind(packed), node.bind(scales)

    def product(x: Expr) -> Expr:
        found = relay.nn.dense_bits(x, packed, scales, zeros, bits=bits, block=block, inner=inner, rounds_data=False)
        return node.bind(found if bias is None else relay.add(found, bias))

    return product


def _block_of_rows(node: Node, inner: int) -> int:
    """The largest power of 2 that divides a row: a scale of a row is one of each of its blocks."""
    block = inner & -inner
    if block < LEAST_BLOCK:
        raise node.error(f"rows of weights have {inner} numbers", f"scales of rows are converted for multiples of {LEAST_BLOCK}")
    return min(block, 128)
