"""Import of a graph of dynamo's: its inputs are tensors, sizes, and the model's own tensors, in any order."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from ...onnx_frontend.scope import constant
from ..importing.program import ProgramImport, as_array
from ..size_checks import SizeChecks
from ..torch_node import TorchNode
from ..torch_package import torch_package

#: Forms of results: elements that numpy has a dtype for, other elements, a number.
ARRAY, TENSOR, SIZE = "array", "tensor", "size"


class GraphImport(ProgramImport):
    """One import.

    ``arguments``: the positions of the inputs that the module takes.  ``results``: of each result of the graph its position among
    the module's, and its form, ARRAY, TENSOR or SIZE; or its value, and ``""``.
    """

    def __init__(self, graph: Any, own: Mapping[int, Any]) -> None:
        placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
        (last,) = [n for n in graph.graph.nodes if n.op == "output"]
        returned = last.args[0] if isinstance(last.args[0], (tuple, list)) else [last.args[0]]
        kept = list(dict.fromkeys(r for r in returned if isinstance(r, torch_package().fx.Node)))
        inputs = [_spec("PARAMETER" if k in own else "USER_INPUT", n.name) for k, n in enumerate(placeholders)]
        signature = SimpleNamespace(input_specs=inputs, output_specs=[_spec("USER_OUTPUT", n.name) for n in kept])
        stored = {placeholders[k].name: tensor for k, tensor in own.items()}
        super().__init__(
            SimpleNamespace(
                graph=graph.graph, graph_module=graph, graph_signature=signature, state_dict=stored, constants={},
                range_constraints={},
            ),
            freeze=True,
        )  # fmt: skip
        self.returned = kept
        self._axes = {
            s.node.expr for n in placeholders for s in getattr(n.meta.get("val"), "shape", ()) if not isinstance(s, int)
        }
        self.arguments = [k for k, n in enumerate(placeholders) if k not in own and not self._is_axis(n)]
        self.results = [(kept.index(r), _kind(r)) if isinstance(r, torch_package().fx.Node) else (r, "") for r in returned]
        for node in graph.graph.nodes:
            if node.op == "get_attr":
                self.graph.values[node] = constant(as_array(getattr(graph, node.target)))

    def _is_axis(self, node: Any) -> bool:
        """Whether an input is the size of an axis of another input."""
        meta = node.meta.get("val")
        return isinstance(meta, torch_package().SymInt) and meta.node.expr in self._axes

    def _given(self, node: Any, spec: Any) -> Any:
        return None if self._is_axis(node) else super()._given(node, spec)

    def _check_sizes(self, placeholders: list[Any]) -> None:
        """Define the sizes that are axes.  torch's guards have checked all others."""
        given = [(n.name, self.graph.values[n], n.meta["val"].shape) for n in placeholders if self._is_input(n)]
        view = TorchNode("inputs", "inputs", 0, {}, [], None, self.scope, self.graph, lambda a: a)
        sizes = SizeChecks(view, {})
        sizes.add(given)
        for node in placeholders:
            if self._is_axis(node):
                self.graph.values[node] = sizes.value(node.meta["val"].node.expr)

    def _returned(self) -> list[Any]:
        return self.returned


def _spec(kind: str, name: str) -> SimpleNamespace:
    return SimpleNamespace(kind=SimpleNamespace(name=kind), target=name)


def _kind(node: Any) -> str:
    meta, torch = node.meta.get("val"), torch_package()
    if not isinstance(meta, torch.Tensor):
        return SIZE
    return TENSOR if meta.dtype is torch.bfloat16 else ARRAY
