"""Conversion of a graph, node by node: names of values to expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....vm.diagnostics import codes
from ....vm.diagnostics.source import ModelError, RelayError, Span
from ...ir.expr import Expr, type_of
from ..attributes import attribute_value, check_attributes
from ..function_bodies import body_for, default_attributes, model_function, newest_version
from ..model import MAX_NESTING, FunctionDef, GraphDef, Model, NodeDef
from ..node import BranchTypes, Node
from ..operator_table import Converter, converter, domain_of
from ..scope import Scope, constant
from ..tensors import NARROW
from ..value_types import contradiction, declared_ranks, declared_values, other_shape
from .forks import forked
from .support import unsupported

_DECLARATION_HELP = "correct the declaration, or delete it: only the inputs of a model need types"


class GraphConverter:
    """The converter of a graph, subgraph or function body into a scope.

    ``outer``: the graph around a subgraph, whose values it may use.  ``versions``: the version of each domain.  ``arguments``:
    the attributes of the call of a function.  ``caller``: that call, whose place its nodes have.  ``forks``: the number of forks
    around.
    """

    def __init__(
        self, model: Model, scope: Scope, versions: Mapping[str, int], *, outer: GraphConverter | None = None,
        arguments: Mapping[str, Any] | None = None, caller: NodeDef | None = None, depth: int = 0,
        forks: int = 0,
    ) -> None:  # fmt: skip
        self.model, self.scope, self.versions, self.outer = model, scope, versions, outer
        self.arguments, self.caller, self.depth = arguments or {}, caller, depth
        self.forks = forks
        self.values: dict[str, Expr] = {}
        self.absent: set[str] = set()  # the inputs of a function that its call omits
        self.ranks: dict[str, int] = {}  # declared ranks, by name
        self.declared: dict[str, Any] = {}  # declared types, by name
        self.inputs: frozenset[str] = frozenset()  # the names of declared inputs
        if depth > MAX_NESTING:
            message = f"subgraphs and functions are nested more than {MAX_NESTING} deep"
            label, span = ("", None) if caller is None else (f"{caller.label}: ", caller.span)
            raise ModelError(label + message, span, code=codes.Model.GRAPH)

    # ---- values ----------------------------------------------------------------------------------------------------------

    def value(self, name: str, span: Span | None) -> Expr:
        """The value of a name.  Raises ModelError for a name that no earlier node defines."""
        graph: GraphConverter | None = self
        while graph is not None:
            if name in graph.values:
                return graph.values[name]
            if name in graph.absent:
                help = "a value that may be absent at run time has no type"
                raise ModelError(f"{name!r} is an optional without a value", span, help=help, code=codes.Model.GRAPH)
            graph = graph.outer
        help = "nodes are listed in the order of their execution, and a graph has no cycles"
        raise ModelError(f"the value {name!r} is used before a node defines it", span, help=help, code=codes.Model.GRAPH)

    def define(self, name: str, value: Expr, span: Span | None, label: str = "") -> None:
        """Name a value of the node ``label``.

        Raises ModelError for a name that is taken, for a kind or dtype that is not the declared one, and for a stored tensor of
        another shape than the input that it is the default of; warns of any other wrong shape, except after a fork: the computed
        shape holds.
        """
        if name in self.values:
            raise ModelError(f"the name {name!r} is given to two values", span, code=codes.Model.GRAPH)
        if name in self.declared:
            subject = f"{label}{': ' if label else ''}the value {name!r}"
            found = contradiction(self.declared[name], type_of(value))
            if found:
                raise ModelError(f"{subject} {found}", span, help=_DECLARATION_HELP, code=codes.Model.TYPE)
            found = other_shape(self.declared[name], type_of(value))
            if found and (name in self.inputs or self.forks):  # after a fork, declared shapes tell which branch is meant
                raise ModelError(f"{subject} {found}", span, help=_DECLARATION_HELP, code=codes.Model.TYPE)
            if found:
                self.model.warn(f"{subject} {found}; the declaration is ignored")
        self.values[name] = value

    def add_tensors(self, graph: GraphDef, weight: Callable[[str, Any], Expr] | None = None) -> None:
        """Name the tensors that are stored in a graph.

        ``weight`` makes the expression of a tensor from its name and its array: an argument, since a method that were kept here
        would keep the model alive for as long as Python's collector is paused.
        """
        for name, read in self.model.tensors.stored(graph.proto):
            array = read()
            self.define(name, constant(array) if weight is None else weight(name, array), None)

    def expect(self, graph: GraphDef) -> None:
        """Check the values of a graph against their declared types, unless types of inputs are replaced."""
        if not self.model.retyped:
            self.declared = declared_values(graph.proto)
            self.inputs = frozenset(i.name for i in graph.proto.input if not isinstance(i, str))

    # ---- nodes -----------------------------------------------------------------------------------------------------------

    def convert(self, graph: GraphDef, outputs: Sequence[str]) -> list[Expr]:
        """The values of these names after all nodes of a graph."""
        self.ranks.update(declared_ranks(graph.proto))
        return self.convert_nodes(graph.nodes, outputs)

    def convert_nodes(self, nodes: Sequence[NodeDef], outputs: Sequence[str]) -> list[Expr]:
        """The values of these names after these nodes."""
        for at, node in enumerate(nodes):
            try:
                self._node(node)
            except BranchTypes as error:
                if error.node.outputs != list(node.proto.output) or node.proto.op_type != "If":
                    raise  # an `If` within a subgraph or function, whose rest fits no branch
                return forked(self, nodes[at:], outputs, error)
        missing = [name for name in outputs if not self._is_defined(name)]
        if missing:
            raise ModelError(f"the output {missing[0]!r} is defined by no node", code=codes.Model.GRAPH)
        absent = next((name for name in outputs if name in self.absent), None)
        maker = next((n for n in nodes if absent in n.proto.output), None)
        if absent is not None and maker is not None:
            help = "a value that may be absent at run time has no type"
            message = f"{maker.label}: the output {absent!r} is an optional without a value"
            raise ModelError(message, maker.span if self.caller is None else self.caller.span, help=help, code=codes.Model.GRAPH)
        return [self.value(name, None) for name in outputs]

    def _is_defined(self, name: str) -> bool:
        graph: GraphConverter | None = self
        while graph is not None and name not in graph.values and name not in graph.absent:
            graph = graph.outer
        return graph is not None

    def path(self, scope: Scope) -> GraphConverter:
        """This converter with the values of now, for one branch of a fork, into another scope."""
        made = GraphConverter(
            self.model, scope, self.versions,
            outer=self.outer, arguments=self.arguments, caller=self.caller, depth=self.depth, forks=self.forks + 1,
        )  # fmt: skip
        made.values, made.absent, made.ranks = dict(self.values), set(self.absent), dict(self.ranks)
        made.declared, made.inputs = self.declared, self.inputs
        return made

    def subgraph(self, graph: GraphDef, scope: Scope, inputs: Sequence[Expr] = ()) -> list[Expr]:
        """The outputs of a subgraph, converted into a scope with these values for its inputs."""
        inner = GraphConverter(
            self.model, scope, self.versions,
            outer=self, arguments=self.arguments, caller=self.caller, depth=self.depth + 1, forks=self.forks,
        )  # fmt: skip
        inner.expect(graph)
        for info, value in zip(graph.proto.input, inputs, strict=True):
            inner.define(info.name, value, None)
        inner.add_tensors(graph)
        return inner.convert(graph, [o.name for o in graph.proto.output])

    def _node(self, node: NodeDef) -> None:
        span = node.span if self.caller is None else self.caller.span
        self.model.nodes_left -= 1
        if self.model.nodes_left < 0:
            message = f"{(self.caller or node).label}: calls of functions and rounds of loops make too many nodes"
            raise ModelError(message, span, code=codes.Model.GRAPH)
        own = model_function(self.model, node)
        if own is not None:
            self._inline(node, own, {**self.model.versions, **own.versions})
            return
        domain = domain_of(node.proto.domain)
        version = self.versions.get(domain)
        found = None if version is None else converter(domain, node.proto.op_type, version)
        if found is not None:
            assert version is not None
            self._convert(node, found, version, span)
            return
        types = [self._type_of(n, span) for n in node.proto.input]
        body = None if version is None else body_for(node, version, types, self._attributes(node))
        if body is None:
            raise unsupported([(node, self.caller or node, version)])
        assert version is not None
        versions = {"": newest_version(), **self.versions, **body.versions}
        self._inline(node, body, versions, default_attributes(domain, node.proto.op_type, version))

    def _is_absent(self, name: str) -> bool:
        """Whether an input is not given: it has no name, or the name of an input that the call of this function omits."""
        graph: GraphConverter | None = self
        while graph is not None and name not in graph.absent:
            graph = graph.outer
        return not name or graph is not None

    def _type_of(self, name: str, span: Span | None) -> Any:
        return None if self._is_absent(name) else self.value(name, span).ty

    def _attributes(self, node: NodeDef) -> dict[str, Any]:
        """The attributes, those of the function around for references to them."""
        given = {}
        for a in node.proto.attribute:
            found = self.arguments.get(a.ref_attr_name) if a.ref_attr_name else a
            if found is not None:
                given[a.name] = found
        return given

    def _convert(self, node: NodeDef, found: Converter, version: int, span: Span | None) -> None:
        names = list(node.proto.output)
        inputs = [None if self._is_absent(n) else self.value(n, span) for n in node.proto.input]
        attributes = self._attributes(node)
        label = node.label if self.caller is None else f"{node.proto.op_type} in {self.caller.label}"
        check_attributes(node, label, attributes, version, span)

        def decode(attribute: Any) -> Any:
            return attribute_value(attribute, node, self.model.tensors)

        ranks = [self.ranks.get(n) for n in names]
        stored = attributes.get("value") if node.proto.op_type == "Constant" else None
        if stored is not None and stored.t.data_type in NARROW:
            self.model.tensors.narrow[names[0]] = NARROW[stored.t.data_type][0]
        narrow = [self.model.tensors.narrow.get(n) for n in node.proto.input]
        view = Node(str(node.proto.op_type), label, version, attributes, names, span, self.scope, self, decode, ranks, narrow)
        if found.inputs is not None:
            if len(inputs) > found.inputs:
                raise view.error(f"it has {len(inputs)} inputs; {found.inputs} are possible")
            inputs += [None] * (found.inputs - len(inputs))
        for number, value in enumerate(inputs):
            if value is None and found.needs(number):
                name = node.proto.input[number] if number < len(node.proto.input) else ""
                raise view.error(f"the input {number} ({name!r}) has no value" if name else f"the input {number} is missing")
        try:
            result = found.convert(view, *inputs)
        except ModelError:
            raise
        except RelayError as error:
            raise view.error(error.diagnostics[0].message, error.diagnostics[0].help) from None
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        if len(results) < len(names):
            raise view.error(f"it has {len(names)} outputs; {len(results)} are possible")
        for name, value in zip(names, results, strict=False):
            if name and value is None:
                self.absent.add(name)
            elif name:
                self.define(name, view.bind(value, name), span, label)

    def _inline(
        self, node: NodeDef, function: FunctionDef, versions: Mapping[str, int], defaults: Mapping[str, Any] | None = None
    ) -> None:
        """Convert the body of a function in place of its call; ``defaults``: attributes that the call may omit."""
        span = node.span if self.caller is None else self.caller.span
        p = function.proto
        attributes = {**(defaults or {}), **{a.name: a for a in function.proto.attribute_proto}}
        attributes.update(self._attributes(node))
        inner = GraphConverter(
            self.model, self.scope, versions,
            arguments=attributes, caller=self.caller or node, depth=self.depth + 1, forks=self.forks,
        )  # fmt: skip
        if len(node.proto.input) > len(p.input) or len(node.proto.output) > len(p.output):
            message = f"{node.label}: the function has {len(p.input)} inputs and {len(p.output)} outputs"
            raise ModelError(message, span, code=codes.Model.NODE)
        inner.expect(function.body)
        for name, outer in zip(p.input, node.proto.input, strict=False):
            if not self._is_absent(outer):
                inner.define(name, self.value(outer, span), span)
        inner.absent = set(p.input) - set(inner.values)
        outer_ranks = ((inside, self.ranks.get(outside)) for inside, outside in zip(p.output, node.proto.output, strict=False))
        inner.ranks = {name: rank for name, rank in outer_ranks if rank is not None}
        wanted = [inside for inside, outside in zip(p.output, node.proto.output, strict=False) if outside]
        results = inner.convert(function.body, wanted)
        for name, value in zip([o for o in node.proto.output if o], results, strict=True):
            self.define(name, value, span, (self.caller or node).label)
