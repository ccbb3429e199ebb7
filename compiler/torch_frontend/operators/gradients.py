"""Gradients among the core operators: programs here are not trained, but may contain the step of an optimisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..operator_table import aten
from ..torch_node import TorchNode


@aten("max_pool2d_with_indices_backward")
def max_pool_gradient(
    node: TorchNode, gradient: Expr, x: Expr, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool, at: Expr,
) -> Any:  # fmt: skip
    """Each number added to the element that was the largest of its window."""
    shape = [0] * (node.rank(x) - 2) + [-1]
    flat, parts, positions = (node.bind(relay.reshape(t, shape)) for t in (relay.zeros_like(x), gradient, at))
    return relay.reshape_like(relay.scatter_elements(flat, positions, parts, node.rank(x) - 2, "add"), x)
