"""Patterns of expressions, built like expressions: ``is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), is_constant()))``.

A pattern object that occurs twice matches one expression.  The two arguments of ``add`` and ``multiply`` match in either order.
A variable that a let binds is a variable, not its value: ``relay.transform.ToGraphNormalForm`` puts values in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....declarations.frozen_dataclass import frozen
from ....ops.core.op import REGISTRY, Op
from ....ops.core.similar_names import did_you_mean
from ....ops.core.tensor_types import Type
from ....vm.diagnostics.argument_errors import UnknownName, a_count, a_mapping, a_sequence, a_text, wrong
from ....vm.diagnostics.python_source import here
from ...builder.build import a_dtype, a_shape
from ...ir.expr import Expr


class DFPattern:
    """A pattern.  Calls and Python's operators build patterns of calls."""

    def __call__(self, *args: Any) -> CallPattern:
        return CallPattern(self, tuple(_a_pattern(arg, "a pattern of an argument") for arg in args))

    def __or__(self, other: Any) -> AltPattern:
        return AltPattern(self, _a_pattern(other, "the alternative"))

    def __add__(self, other: Any) -> CallPattern:
        return is_op("add")(self, other)

    def __sub__(self, other: Any) -> CallPattern:
        return is_op("subtract")(self, other)

    def __mul__(self, other: Any) -> CallPattern:
        return is_op("multiply")(self, other)

    def __truediv__(self, other: Any) -> CallPattern:
        return is_op("divide")(self, other)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """The pattern, for calls, operators or functions with these attributes.  Raises ArgumentError."""
        return AttrPattern(self, dict(a_mapping(attrs, "has_attr: the attributes")))

    def has_type(self, ttype: Type) -> TypePattern:
        """The pattern, for expressions of this type.  Raises ArgumentError."""
        if not isinstance(ttype, Type):
            raise wrong("has_type: the type", "a type", ttype)
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """The pattern, for tensors of this dtype.  Raises ArgumentError."""
        return DataTypePattern(self, a_dtype(dtype))

    def has_shape(self, shape: Sequence[Any]) -> ShapePattern:
        """The pattern, for tensors of this shape.  Raises ArgumentError."""
        return ShapePattern(self, tuple(map(str, a_shape(shape, "has_shape"))))

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> AltPattern:
        """The pattern that ``option_constructor`` makes of this one, or this one.  Raises ArgumentError."""
        return _a_pattern(option_constructor(self), "the optional pattern") | self

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """The pattern, all of whose arguments come from one match of ``parent`` through matches of ``path``, by default any.

        Raises ArgumentError.
        """
        return dominates(parent, wildcard() if path is None else path, self)

    if TYPE_CHECKING:  # bound in ``matching`` and ``partition``

        def match(self, expr: Expr | Op) -> bool: ...

        def partition(
            self, expr: Expr, attrs: Mapping[str, Any] | None = None, check: Callable[[Expr], Any] = ...
        ) -> Expr: ...  # fmt: skip


@frozen(eq=False)
class WildcardPattern(DFPattern):
    """Any expression."""


@frozen(eq=False)
class ExprPattern(DFPattern):
    """An operator, or an expression by its structure."""

    expr: Op | Expr


@frozen(eq=False)
class VarPattern(DFPattern):
    """A variable; ``name``: of this name, "" for any."""

    name: str = ""


@frozen(eq=False)
class ConstantPattern(DFPattern):
    """A constant."""


@frozen(eq=False)
class CallPattern(DFPattern):
    """A call of ``op`` with ``args``; None: with any."""

    op: DFPattern
    args: tuple[DFPattern, ...] | None


@frozen(eq=False)
class TuplePattern(DFPattern):
    """A tuple of ``fields``; None: of any."""

    fields: tuple[DFPattern, ...] | None


@frozen(eq=False)
class TupleGetItemPattern(DFPattern):
    """The field ``index`` of ``tuple_value``; None: any field."""

    tuple_value: DFPattern
    index: int | None = None


@frozen(eq=False)
class IfPattern(DFPattern):
    """An ``if``."""

    cond: DFPattern
    true_branch: DFPattern
    false_branch: DFPattern


@frozen(eq=False)
class LetPattern(DFPattern):
    """A let."""

    var: DFPattern
    value: DFPattern
    body: DFPattern


@frozen(eq=False)
class FunctionPattern(DFPattern):
    """A function with ``params``; None: with any.  Raises ArgumentError."""

    params: Sequence[DFPattern] | None
    body: DFPattern

    def __post_init__(self) -> None:
        if self.params is not None:
            given = a_sequence(self.params, "FunctionPattern: the parameters", "[is_var(), is_var()]")
            params = tuple(_a_pattern(param, "FunctionPattern: a parameter") for param in given)
            object.__setattr__(self, "params", params)
        _a_pattern(self.body, "FunctionPattern: the body")


@frozen(eq=False)
class DominatorPattern(DFPattern):
    """``child``, all of whose arguments come from one match of ``parent`` through any number of matches of ``path``."""

    parent: DFPattern
    path: DFPattern
    child: DFPattern


@frozen(eq=False)
class AltPattern(DFPattern):
    """``left``, or ``right`` where that does not match."""

    left: DFPattern
    right: DFPattern


@frozen(eq=False)
class AttrPattern(DFPattern):
    """``pattern`` with attributes."""

    pattern: DFPattern
    attrs: dict[str, Any]


@frozen(eq=False)
class TypePattern(DFPattern):
    """``pattern`` of a type."""

    pattern: DFPattern
    type: Type


@frozen(eq=False)
class DataTypePattern(DFPattern):
    """``pattern`` of a dtype."""

    pattern: DFPattern
    dtype: str


@frozen(eq=False)
class ShapePattern(DFPattern):
    """``pattern`` of a shape, as a text for each size."""

    pattern: DFPattern
    shape: tuple[str, ...]


def _a_pattern(value: Any, what: str) -> DFPattern:
    if not isinstance(value, DFPattern):
        raise wrong(what, "a pattern", value, "relay.dataflow_pattern.wildcard() matches anything")
    return value


def is_op(op_name: str) -> ExprPattern:
    """The operator of this name.  Raises UnknownName."""
    if a_text(op_name, "is_op: the name") not in REGISTRY:
        raise UnknownName(f"there is no operator {op_name}{did_you_mean(op_name, REGISTRY)}", here())
    return ExprPattern(REGISTRY[op_name])


def is_expr(expr: Expr) -> ExprPattern:
    """An expression of the structure of ``expr``.  Raises ArgumentError."""
    if not isinstance(expr, Expr):
        raise wrong("is_expr: the expression", "an expression", expr)
    return ExprPattern(expr)


def is_var(name: str = "") -> VarPattern:
    """A variable, of any name by default.  Raises ArgumentError."""
    return VarPattern(a_text(name, "is_var: the name"))


def is_constant() -> ConstantPattern:
    """A constant."""
    return ConstantPattern()


def wildcard() -> WildcardPattern:
    """Any expression."""
    return WildcardPattern()


def is_tuple(fields: Sequence[DFPattern] | None = None) -> TuplePattern:
    """A tuple, with any fields by default.  Raises ArgumentError."""
    if fields is None:
        return TuplePattern(None)
    return TuplePattern(tuple(_a_pattern(f, "is_tuple: a field") for f in a_sequence(fields, "is_tuple: the fields")))


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """A field of a tuple, any field by default.  Raises ArgumentError."""
    number = None if index is None else a_count(index, "is_tuple_get_item: the index")
    return TupleGetItemPattern(_a_pattern(tuple_value, "is_tuple_get_item: the tuple"), number)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> IfPattern:
    """An ``if``.  Raises ArgumentError."""
    return IfPattern(*(_a_pattern(part, "is_if: a part") for part in (cond, true_branch, false_branch)))


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> LetPattern:
    """A let.  Raises ArgumentError."""
    return LetPattern(*(_a_pattern(part, "is_let: a part") for part in (var, value, body)))


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """``child``, all of whose arguments come from one match of ``parent`` through matches of ``path``.  Raises ArgumentError."""
    return DominatorPattern(*(_a_pattern(part, "dominates: a part") for part in (parent, path, child)))


def has_type(ttype: Type, pattern: DFPattern | None = None) -> TypePattern:
    """Any expression, or one that ``pattern`` matches, of this type.  Raises ArgumentError."""
    return (pattern or wildcard()).has_type(ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """Any tensor, or one that ``pattern`` matches, of this dtype.  Raises ArgumentError."""
    return (pattern or wildcard()).has_dtype(dtype)


def has_shape(shape: Sequence[Any], pattern: DFPattern | None = None) -> ShapePattern:
    """Any tensor, or one that ``pattern`` matches, of this shape.  Raises ArgumentError."""
    return (pattern or wildcard()).has_shape(shape)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """Any expression, or one that ``pattern`` matches, with these attributes.  Raises ArgumentError."""
    return (pattern or wildcard()).has_attr(attrs)
