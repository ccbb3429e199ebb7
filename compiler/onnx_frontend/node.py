"""A node under conversion: its attributes, and the types and known values of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from ...ops.core.tensor_types import TensorType
from ...shape_funcs.symbolic.dim import Dim
from ...shape_funcs.symbolic.dim import const as known_size
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import ModelError, Span
from ..ir.expr import Expr, If, type_of
from ..type_inference.call_rules import Mistake
from ..type_inference.type_match import TypeMismatch, join
from .model import GraphDef
from .scope import Scope

#: The values that an attribute chooses from.
Chosen = TypeVar("Chosen")


class Graph(Protocol):
    """The conversion of the graph around a node."""

    def subgraph(self, graph: GraphDef, scope: Scope, inputs: Sequence[Expr] = ()) -> list[Expr]:
        """The outputs of a subgraph, converted into a scope with these values for its inputs."""
        ...


@dataclass(eq=False)
class Node:
    """A node under conversion.

    ``label``: operator and name for messages.  ``outputs``: the names of the outputs, "" for one that is not used.  ``version``:
    the version of the operator's domain.  ``graph``: the converter of the graph around it, for subgraphs.  ``ranks``: the ranks
    that the model declares for the outputs.  ``narrow``: the dtypes of inputs that are stored in fewer bits than they have here.
    """

    op_type: str
    label: str
    version: int
    attributes: dict[str, Any]
    outputs: Sequence[str]
    span: Span | None
    scope: Scope
    graph: Graph
    decode: Callable[[Any], Any]
    ranks: Sequence[int | None] = ()
    narrow: Sequence[str | None] = ()
    _decoded: dict[str, Any] = field(default_factory=dict)

    # ---- attributes ------------------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self.attributes

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute: a number, text, array, list of these, or a graph; ``default`` if it is not given."""
        if name not in self.attributes:
            return default
        if name not in self._decoded:
            self._decoded[name] = self.decode(self.attributes[name])
        return self._decoded[name]

    def required(self, name: str) -> Any:
        """An attribute that the standard requires.  Raises ModelError."""
        if name not in self.attributes:
            raise self.error(f"the attribute {name} is missing")
        return self.attr(name)

    def choice(self, name: str, values: Mapping[Any, Chosen], default: Any) -> Chosen:
        """The value of ``values`` that an attribute chooses.  Raises ModelError for an attribute that is none of its keys."""
        given = self.attr(name, default)
        if given not in values:
            valid = ", ".join(map(str, values))
            raise self.error(f"the attribute {name} is {given!r}", f"its values are {valid}")
        return values[given]

    # ---- expressions -----------------------------------------------------------------------------------------------------

    def bind(self, expr: Expr, hint: str = "") -> Expr:
        """The expression bound to a variable with a type.  Raises ModelError for operands that do not fit."""
        try:
            return self.scope.bind(expr, self.span, hint)
        except Mistake as mistake:
            raise self.error(mistake.diagnostic.message, mistake.diagnostic.help) from None

    def subgraph(self, graph: GraphDef, inputs: Sequence[Expr] = ()) -> list[Expr]:
        """The outputs of a subgraph in this node's scope.  Raises ModelError for another number of inputs."""
        count = len(graph.proto.input)
        if count != len(inputs):
            raise self.error(f"the subgraph {graph.proto.name!r} has {count} inputs; {len(inputs)} are wanted")
        return self.graph.subgraph(graph, self.scope, inputs)

    def choose(self, condition: Expr, then: Callable[[Node], Expr], other: Callable[[Node], Expr]) -> Expr:
        """One of two values, of which only the one that is chosen is computed; each is made by a node in a scope of its own.

        Raises ModelError for a condition that is no bool, BranchTypes for values whose types have no common type.
        """
        known = self.constant(condition)
        if known is not None:
            return (then if known.any() else other)(self)
        branches = []
        for make in (then, other):
            inner = replace(self, scope=Scope(self.scope.values))
            atom = inner.bind(make(inner))
            branches.append(inner.scope.chain(atom))
        return self.conditional(condition, *branches)

    def conditional(self, condition: Expr, then: Expr, other: Expr) -> Expr:
        """The ``if`` of two typed branches.  Raises ModelError as ``choose``."""
        condition = self.bind(condition)
        if type_of(condition) != TensorType((), "bool"):
            raise self.error(f"the condition is {condition.ty}, not one bool")
        try:
            ty = join(type_of(then), type_of(other))
        except TypeMismatch as mismatch:
            raise BranchTypes.of(self, f"the branches have different types: {mismatch}") from None
        return self.scope.add(If(condition, then, other, span=self.span, ty=ty), "branch")

    def type(self, expr: Expr) -> TensorType:
        """The type of a tensor.  Raises ModelError for an expression that is no tensor."""
        ty = type_of(self.bind(expr))
        if not isinstance(ty, TensorType):
            raise self.error(f"a tensor is wanted, not {ty}")
        return ty

    def dtype(self, expr: Expr) -> str:
        """The dtype of a tensor."""
        return self.type(expr).dtype

    def rank(self, expr: Expr) -> int:
        """The rank of a tensor."""
        return self.type(expr).rank

    @property
    def declared_rank(self) -> int | None:
        """The rank that the model declares for the first output; None if it declares none."""
        return self.ranks[0] if self.ranks else None

    def shape(self, expr: Expr) -> tuple[Dim, ...]:
        """The sizes of a tensor."""
        return self.type(expr).shape

    def size(self, expr: Expr, axis: int) -> int | None:
        """The size of an axis if it is known at import.  Raises ModelError as ``axis``."""
        shape = self.shape(expr)
        if not -len(shape) <= axis < len(shape):
            raise self.error(f"a tensor of rank {len(shape)} has no axis {axis}")
        return known_size(shape[axis])

    def sizes(self, expr: Expr) -> tuple[int | None, ...]:
        """The sizes of a tensor, None for one that is not known at import."""
        return tuple(map(known_size, self.shape(expr)))

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front.  Raises ModelError for an axis that a tensor of this rank does not have."""
        if not -rank <= axis < max(rank, 1):
            raise self.error(f"a tensor of rank {rank} has no axis {axis}")
        return axis + rank if axis < 0 else axis

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Axes counted from the front.  Raises ModelError as ``axis``, and for an axis that occurs twice."""
        counted = [self.axis(int(a), rank) for a in axes]
        if len(set(counted)) < len(counted):
            raise self.error(f"the axes {list(axes)} are not distinct")
        return counted

    def constant(self, expr: Expr | None) -> np.ndarray | None:
        """The value of an expression, if the model determines it; None if not, or if there is no expression."""
        return None if expr is None else self.scope.values.constant(self.bind(expr))

    def known(self, expr: Expr, what: str) -> np.ndarray:
        """The value of an input that decides the rank of a result.  Raises ModelError if the model does not determine it."""
        value = self.constant(expr)
        if value is None:
            help = "make it a constant of the model; a rank that is known at run time only has no type"
            raise self.unknown_rank(f"{what} must be known at import", "it", help)
        return value

    def error(self, message: str, help: str | None = None) -> ModelError:
        """The error of this node."""
        return ModelError(f"{self.label}: {message}", self.span, help=help, code=codes.Model.NODE)

    def unknown_rank(self, message: str, what: str, help: str | None = None) -> UnknownRank:
        """The error of this node whose result has a rank that ``what`` decides at run time."""
        message = f"{self.label}: {message}, for the rank of the result depends on {what}"
        return UnknownRank(message, self.span, help=help, code=codes.Model.NODE)


class UnknownRank(ModelError):
    """A rank that is known at run time only."""


class BranchTypes(UnknownRank):
    """The branches of ``node`` have no common type, or a branch has a value of unknown rank."""

    node: Node

    @classmethod
    def of(cls, node: Node, message: str) -> BranchTypes:
        """The error of a node."""
        error = cls(f"{node.label}: {message}", node.span, code=codes.Model.NODE)
        error.node = node
        return error

    @classmethod
    def within(cls, node: Node, error: UnknownRank) -> BranchTypes:
        """The error of a value in a branch of a node."""
        found = error.diagnostics[0]
        made = cls(found.message, found.span, help=found.help, code=codes.Model.NODE)
        made.node = node
        return made


class LengthChanges(ModelError):
    """A state of the loop ``node`` is a sequence whose length changes from round to round."""

    node: Node

    @classmethod
    def of(cls, node: Node, message: str) -> LengthChanges:
        """The error of a node."""
        help = "make the number of rounds a constant of the model, or collect the tensors as scan outputs of one shape"
        message = f"{node.label}: {message}, and the number of rounds is not known"
        error = cls(message, node.span, help=help, code=codes.Model.NODE)
        error.node = node
        return error
