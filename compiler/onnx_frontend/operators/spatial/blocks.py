"""Blocks of pictures that become channels, and back."""

from __future__ import annotations

from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator

#: Relay's names of the orders of the channel's parts.
_MODES = {"DCR": "DCR", "CRD": "CDR"}


def _mode(node: Node) -> str:
    mode = node.attr("mode", "DCR")
    if mode not in _MODES:
        raise node.error(f"there is no mode {mode!r}")
    return _MODES[mode]


@onnx_operator("DepthToSpace", since=1)
def depth_to_space(node: Node, x: Expr) -> Expr:
    return relay.nn.depth_to_space(x, node.required("blocksize"), "NCHW", _mode(node))


@onnx_operator("SpaceToDepth", since=1)
def space_to_depth(node: Node, x: Expr) -> Expr:
    block = node.required("blocksize")
    result = relay.nn.space_to_depth(x, block, "NCHW")
    if _mode(node) == "DCR":
        return result
    parts = relay.reshape(result, [0, -4, block * block, -1, 0, 0])  # the position in the block is the outer part
    return relay.reshape(relay.transpose(parts, [0, 2, 1, 3, 4]), [0, -3, 0, 0])
