"""Parts of a graph: the longest ones whose operators all have a converter; the rest stays in torch."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..importing.graph import is_operator, name_of
from ..operator_table import converter
from ..size_arithmetic import on_sizes
from ..torch_package import torch_package
from .compiled_graph import CompiledGraph


def has_converter(node: Any) -> bool:
    """Whether a call can be converted."""
    if node.target in on_sizes() or node.target is operator.getitem:
        return True
    return is_operator(node.target) and converter(name_of(node.target)) is not None


def partitioned(graph: Any, settings: Mapping[str, Any]) -> tuple[Any, Counter[str]]:
    """The graph with its convertible parts compiled, and the number of calls of each operator that stays in torch.

    A graph without such operators is returned as it is.
    """
    missing = Counter(name_of(n.target) for n in graph.graph.nodes if n.op == "call_function" and not has_converter(n))
    if not missing:
        return graph, missing
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import create_op_support

    convertible = create_op_support(lambda submodules, node: node.op == "call_function" and has_converter(node))
    found = CapabilityBasedPartitioner(graph, convertible, allows_single_node_partition=False)
    fused = found.fuse_partitions(found.propose_partitions())
    for node in fused.graph.nodes:
        if node.op == "call_module":
            setattr(fused, node.target, _part(CompiledGraph(fused.get_submodule(node.target), {}, settings)))
    fused.recompile()
    return fused, missing


def _part(function: CompiledGraph) -> Any:
    """A module that calls a compiled graph."""

    def forward(self: Any, *given: Any) -> Any:
        results = function(*given)
        return results[0] if len(results) == 1 else results

    return type("Part", (torch_package().nn.Module,), {"forward": forward})()
