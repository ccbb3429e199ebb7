"""A model as it was read: graphs and nodes with places in a listing, functions, versions of the operators' domains."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...vm.diagnostics import codes
from ...vm.diagnostics.source import ModelError, SourceText, Span
from .operator_table import domain_of
from .tensors import TensorReader

#: The deepest nesting of subgraphs and of calls of functions.
MAX_NESTING = 32
#: The most nodes that are converted: so many, and so many for each node of the file.
MOST_NODES, EACH_NODE = 4_000, 128
#: Versions are below this number; the package takes 32 bits.
_VERSIONS = 1 << 31
_GRAPH, _GRAPHS = 5, 10


@dataclass(eq=False)
class NodeDef:
    """A node: its protobuf, its name, and its line in the listing."""

    proto: Any
    name: str
    span: Span | None = None
    #: The subgraphs of each attribute.
    graphs: dict[str, list[GraphDef]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Operator and name for messages."""
        return label_of(str(self.proto.op_type), self.name)


def label_of(operator: str, name: str) -> str:
    """Operator and name of a node for messages."""
    return f"{operator} {name!r}" if name else operator


@dataclass(eq=False)
class GraphDef:
    """A graph, or the body of a function: its protobuf and its nodes."""

    proto: Any
    nodes: list[NodeDef]


@dataclass(eq=False)
class FunctionDef:
    """A function of a model, or the body that the standard gives for an operator."""

    proto: Any
    body: GraphDef
    versions: Mapping[str, int]


class ModelWarning(UserWarning):
    """A declaration of a model contradicts what its nodes compute; it is ignored."""


@dataclass(eq=False)
class Model:
    """A model.  ``versions``: the version of each domain; ``functions``: by domain, name and overload."""

    proto: Any
    graph: GraphDef
    versions: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], FunctionDef]
    source: SourceText
    tensors: TensorReader
    #: The nodes that may still be converted: functions are converted at each call, and bodies of loops until their types settle.
    nodes_left: int = 0
    #: Whether other shapes or dtypes of inputs replace the declared ones, and the declared types of other values say nothing.
    retyped: bool = False
    #: The warnings that were given: bodies of loops and of functions are converted more than once.
    warned: set[str] = field(default_factory=set)

    def warn(self, message: str) -> None:
        """Warn of a part of the model that says nothing right, once."""
        if message not in self.warned:
            self.warned.add(message)
            warnings.warn(f"{self.source.name}: {printable(message)}", ModelWarning, stacklevel=2)

    @staticmethod
    def of(proto: Any, name: str, tensors: TensorReader, opset: int | None) -> Model:
        """The model of a ModelProto.  Raises ModelError for a model without versions or with too deep subgraphs."""
        graphs = [_graph(proto.graph, proto.graph.node)]
        functions = {}
        for f in proto.functions:
            body = _graph(f, f.node)
            graphs.append(body)
            functions[domain_of(f.domain), f.name, f.overload] = FunctionDef(f, body, _versions(f.opset_import))
        versions = _versions(proto.opset_import)
        if opset is not None:
            versions[""] = opset
        if not versions:
            help = "give the version as opset="
            raise ModelError("the model does not say which version of the operators it uses (opset_import)", help=help)
        count = sum(len(nodes_of(g)) for g in graphs)
        return Model(proto, graphs[0], versions, functions, _listing(graphs, name), tensors, MOST_NODES + EACH_NODE * count)


def _versions(imports: Any) -> dict[str, int]:
    for i in imports:
        if not 0 <= i.version < _VERSIONS:
            message = f"the operators of {i.domain or 'ai.onnx'} have the impossible version {i.version}"
            raise ModelError(message, code=codes.Model.FORMAT)
    return {domain_of(i.domain): i.version for i in imports}


def function_of(proto: Any) -> FunctionDef:
    """A function that is not of the model; its nodes have no places.  Raises ModelError for too deep subgraphs."""
    return FunctionDef(proto, _graph(proto, proto.node), _versions(proto.opset_import))


def _graph(proto: Any, nodes: Any) -> GraphDef:
    """A graph and the graphs in it, without recursion."""
    root = GraphDef(proto, [])
    todo: list[tuple[GraphDef, Any, int]] = [(root, nodes, 1)]
    while todo:
        graph, protos, depth = todo.pop()
        for p in protos:
            node = NodeDef(p, printable(p.name or next((o for o in p.output if o), "")))
            graph.nodes.append(node)
            for a in p.attribute:
                inner = [a.g] if a.type == _GRAPH else list(a.graphs) if a.type == _GRAPHS else []
                if inner and depth >= MAX_NESTING:
                    raise too_deep(node.label)
                for g in inner:
                    made = GraphDef(g, [])
                    node.graphs.setdefault(a.name, []).append(made)
                    todo.append((made, g.node, depth + 1))
    return root


def too_deep(label: str) -> ModelError:
    """The error for a node with a subgraph that is nested too deep."""
    return ModelError(f"{label}: its subgraph is nested more than {MAX_NESTING} deep", code=codes.Model.GRAPH)


def nodes_of(graph: GraphDef) -> list[NodeDef]:
    """All nodes of a graph and of the graphs in it, in the order of the file."""
    found, todo = [], graph.nodes[::-1]
    while todo:
        node = todo.pop()
        found.append(node)
        for graphs in reversed(node.graphs.values()):
            for g in reversed(graphs):
                todo += reversed(g.nodes)
    return found


def _listing(graphs: Sequence[GraphDef], name: str) -> SourceText:
    """The text with a line for each node; sets the nodes' spans."""
    lines, nodes = [], [n for g in graphs for n in nodes_of(g)]
    for node in nodes:
        inputs = ", ".join(map(printable, node.proto.input))
        lines.append(f"{node.name}: {printable(node.proto.op_type)}({inputs})")
    source, start = SourceText(name, "\n".join(lines)), 0
    for node, line in zip(nodes, lines, strict=True):
        node.span = Span(source, start, start + len(line))
        start += len(line) + 1
    return source


def printable(text: str) -> str:
    """The text with a question mark for each character that is not printable."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
