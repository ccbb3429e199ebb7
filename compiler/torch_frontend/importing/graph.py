"""Conversion of a graph of torch's, node by node."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....vm.diagnostics import codes
from ....vm.diagnostics.source import ModelError, RelayError
from ...ir.expr import Expr
from ...onnx_frontend.scope import Scope, constant
from ..operator_table import converter
from ..size_arithmetic import on_sizes
from ..torch_node import TorchNode
from ..torch_package import torch_package
from .listing import Listing, made_at


class GraphConverter:
    """The converter of a graph into a scope.

    ``values``: an expression, a number, or a list of these by node.  ``over_graphs``: the converters of operators over graphs.
    """

    def __init__(self, program: Any, scope: Scope, listing: Listing, over_graphs: Mapping[Any, Callable[..., Any]]) -> None:
        self.program, self.scope, self.listing, self.over_graphs = program, scope, listing, over_graphs
        self.values: dict[Any, Any] = {}

    def convert_nodes(self, graph: Any) -> None:
        """Convert the calls of a graph."""
        for node in graph.nodes:
            if node.op == "call_function":
                self.values[node] = self._call(node)

    def resolved(self, value: Any) -> Any:
        """The value of an argument."""
        if isinstance(value, torch_package().fx.Node):
            return self.values[value]
        if isinstance(value, (list, tuple)):
            return [self.resolved(v) for v in value]
        return value

    def as_expr(self, value: Any) -> Expr:
        """A result as an expression; a size is an int64."""
        if isinstance(value, Expr):
            return self.scope.bind(value, None)
        if isinstance(value, bool):
            return constant(np.array(value))
        return constant(np.array(value, np.int64 if isinstance(value, int) else np.float32))

    def _call(self, node: Any) -> Any:
        target = node.target
        view = TorchNode(
            str(target), node.name, 0, {}, [node.name], self.listing.spans[node], self.scope, self, lambda a: a,
            meta=node.meta.get("val"), given=[a.meta.get("val") for a in node.args if isinstance(a, torch_package().fx.Node)],
        )  # fmt: skip
        view.label = f"{name_of(target)} ({node.name})"
        if (of_graphs := self.over_graphs.get(target)) is not None:
            return of_graphs(self, view, *node.args)
        if target is operator.getitem:
            whole, index = map(self.resolved, node.args)
            return whole[index]
        try:
            if (of_sizes := on_sizes().get(target)) is not None:
                return self._bound(view, of_sizes(view, *map(self.resolved, node.args)), node.name)
            convert = converter(name_of(target))
            assert convert is not None, target
            return self._bound(view, convert(view, *_arguments(target, self.resolved(node.args), _kwargs(self, node))), node.name)
        except ModelError:
            raise
        except RelayError as error:
            raise view.error(error.diagnostics[0].message, error.diagnostics[0].help) from None

    def results(self, graph: Any, operands: list[Any], call: TorchNode) -> list[Expr]:
        """The results of a subgraph, in this converter's scope, with these values for its placeholders."""
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        self.values = dict(zip(placeholders, operands, strict=True))
        self.listing = Listing.of_one(graph, call.span)
        self.convert_nodes(graph)
        (last,) = [n for n in graph.nodes if n.op == "output"]
        returned = last.args[0] if isinstance(last.args[0], (tuple, list)) else [last.args[0]]
        return [self.as_expr(v) for v in self.resolved(returned)]

    def within(self, scope: Scope) -> GraphConverter:
        """The converter of a subgraph into another scope."""
        return GraphConverter(self.program, scope, self.listing, self.over_graphs)

    def _bound(self, view: TorchNode, result: Any, name: str) -> Any:
        if isinstance(result, (list, tuple)):
            return [self._bound(view, r, name) for r in result]
        return view.bind(result, name) if isinstance(result, Expr) else result

    def subgraph(self, graph: Any, scope: Scope, inputs: Sequence[Expr] = ()) -> list[Expr]:
        """No converter that takes the nodes of torch asks for a subgraph of ONNX."""
        raise AssertionError(graph)


def _kwargs(graph: GraphConverter, node: Any) -> dict[str, Any]:
    return {k: graph.resolved(v) for k, v in node.kwargs.items()}


def _arguments(target: Any, args: Any, kwargs: dict[str, Any]) -> list[Any]:
    """The arguments of an operator in the order of its schema."""
    found = []
    for k, argument in enumerate(target._schema.arguments):
        if k < len(args):
            found.append(args[k])
        else:
            found.append(kwargs.get(argument.name, argument.default_value))
    return found


def name_of(target: Any) -> str:
    """``namespace.operator.overload`` of an operator; the name of a function of Python."""
    return str(target) if is_operator(target) else str(getattr(target, "__name__", target))


def is_operator(target: Any) -> bool:
    """Whether a target is an overload of an operator, not a function of Python."""
    return isinstance(target, type(torch_package().ops.aten.add.Tensor))


def check_supported(program: Any, over_graphs: Mapping[Any, Callable[..., Any]]) -> None:
    """Raise a ModelError that names all operators without a converter."""
    known = (operator.getitem, *on_sizes(), *over_graphs)
    missing, first = Counter[str](), dict[str, str]()
    modules = [m for m in program.graph_module.modules() if isinstance(m, torch_package().fx.GraphModule)]
    for node in (node for module in modules for node in module.graph.nodes):
        if node.op != "call_function" or node.target in known:
            continue
        name = name_of(node.target)
        if not is_operator(node.target) or converter(name) is None:
            missing[name] += 1
            first.setdefault(name, made_at(node))
    if missing:
        listed = ", ".join(
            f"{name} ({count} {'call' if count == 1 else 'calls'}{', ' + first[name] if first[name] else ''})"
            for name, count in sorted(missing.items())
        )
        many = "operators have" if len(missing) > 1 else "operator has"
        raise ModelError(f"{len(missing)} {many} no converter: {listed}", code=codes.Model.OPERATOR)
