"""Constructors of the Python API for algebraic data types, patterns, type parameters and references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any as AnyValue

from ...ops.core import adt_types as ty
from ...ops.core.tensor_types import Type
from ...vm.diagnostics.argument_errors import a_sequence, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError, Span
from ..ir import expr as ir
from ..ir import match_expr as matches
from .build import a_name, a_size_name, as_expr
from .constructors import ConstructorOfNodes, type_parameters
from .type_arguments import a_type, types

__all__ = [
    "Clause", "Constructor", "GlobalTypeVar", "IncompleteType", "Match", "PatternConstructor", "PatternTuple", "PatternVar",
    "PatternWildcard", "RefCreate", "RefRead", "RefType", "RefWrite", "ShapeVar", "TypeCall", "TypeData", "TypeVar",
]  # fmt: skip


# ---- types -----------------------------------------------------------------------------------------------------------


class TypeVar(metaclass=ConstructorOfNodes):
    """``TypeVar("A")``: a type parameter; of the kind ``relay.TypeKind.ShapeVar``, a size in shapes."""

    node = ty.TypeVar

    @staticmethod
    def make(name: str, kind: ty.TypeKind = ty.TypeKind.Type) -> ty.TypeVar:
        _check_kind_of(kind, (ty.TypeKind.Type, ty.TypeKind.ShapeVar), "TypeVar")
        if kind is ty.TypeKind.ShapeVar:
            return ShapeVar(name)
        return ty.TypeVar(a_name(name, "TypeVar: the name", ""))


def ShapeVar(name: str) -> ty.TypeVar:
    """A size in shapes: ``relay.TensorType((relay.ShapeVar("n"), 4))`` is ``Tensor[(?n, 4), float32]``.  Raises ArgumentError."""
    return ty.TypeVar(a_size_name(name, "ShapeVar: the name"), ty.TypeKind.ShapeVar)


class IncompleteType(metaclass=ConstructorOfNodes):
    """``IncompleteType()``: as an annotation, a type that is to be inferred; inside another type it is refused."""

    node = ty.IncompleteType

    @staticmethod
    def make(kind: ty.TypeKind = ty.TypeKind.Type) -> ty.IncompleteType:
        _check_kind_of(kind, tuple(ty.TypeKind), "IncompleteType")
        return ty.IncompleteType(kind)


def _check_kind_of(kind: AnyValue, possible: tuple[ty.TypeKind, ...], who: str) -> None:
    if not isinstance(kind, ty.TypeKind) or kind not in possible:
        raise wrong(f"{who}: the kind", " or ".join(f"relay.TypeKind.{k.name}" for k in possible), kind)


class GlobalTypeVar(metaclass=ConstructorOfNodes):
    """``GlobalTypeVar("List")``: the name of a type definition; ``GlobalTypeVar("List")(a)`` is the type ``List[a]``."""

    node = ty.GlobalTypeVar

    @staticmethod
    def make(name: str, kind: ty.TypeKind = ty.TypeKind.AdtHandle) -> ty.GlobalTypeVar:
        _check_kind_of(kind, (ty.TypeKind.AdtHandle,), "GlobalTypeVar")
        return ty.GlobalTypeVar(a_name(name, "GlobalTypeVar: the name", ""))


class TypeCall(metaclass=ConstructorOfNodes):
    """``TypeCall(GlobalTypeVar("List"), [a])``: the type ``List[a]``."""

    node = ty.TypeCall

    @staticmethod
    def make(func: ty.GlobalTypeVar, args: Sequence[Type]) -> ty.TypeCall:
        if not isinstance(func, ty.GlobalTypeVar):
            raise wrong("TypeCall: the definition", "a relay.GlobalTypeVar", func)
        return ty.TypeCall(func, types(args, "TypeCall: a type argument"))


class RefType(metaclass=ConstructorOfNodes):
    """``RefType(t)``: the type of a reference to a value of type ``t``."""

    node = ty.RefType

    @staticmethod
    def make(value: Type) -> ty.RefType:
        return ty.RefType(a_type(value, "RefType: the type"))


class Constructor(metaclass=ConstructorOfNodes):
    """``Constructor("Cons", [a, list_of(a)], list_of)``; a call of it makes a value.  ``TypeData`` numbers its constructors."""

    node = ir.Constructor

    @staticmethod
    def make(name_hint: str, inputs: Sequence[Type], belong_to: ty.GlobalTypeVar, span: Span | None = None) -> ir.Constructor:
        if not isinstance(belong_to, ty.GlobalTypeVar):
            raise wrong("Constructor: the type that it belongs to", "a relay.GlobalTypeVar", belong_to)
        name = a_name(name_hint, "Constructor: the name", "")
        return ir.Constructor(name, types(inputs, "Constructor: the type of a field"), belong_to, span=span or here())


class TypeData(metaclass=ConstructorOfNodes):
    """``TypeData(GlobalTypeVar("List"), [a], [cons, nil])``: a type definition; ``mod[header] = data`` adds it to a module."""

    node = ir.TypeData

    @staticmethod
    def make(header: ty.GlobalTypeVar, type_vars: Sequence[ty.TypeVar], constructors: Sequence[ir.Constructor]) -> ir.TypeData:
        if not isinstance(header, ty.GlobalTypeVar):
            raise wrong("TypeData: the name", "a relay.GlobalTypeVar", header)
        given = a_sequence(constructors, "TypeData: the constructors")
        for tag, constructor in enumerate(given):
            if not isinstance(constructor, ir.Constructor):
                raise wrong("TypeData: a constructor", "a relay.Constructor", constructor)
            if constructor.belong_to != header:
                raise ArgumentError(f"{constructor.name_hint} belongs to {constructor.belong_to}, not to {header}", here())
            # the number is known here only, and the user holds the constructor
            object.__setattr__(constructor, "tag", tag)
        names = [c.name_hint for c in given]
        for name in names:
            if names.count(name) > 1:
                raise ArgumentError(f"TypeData: two constructors have the name {name}", here())
        return ir.TypeData(header, type_parameters(type_vars, "TypeData"), given, span=here())


# ---- matches -----------------------------------------------------------------------------------------------------------


class PatternWildcard(metaclass=ConstructorOfNodes):
    """``PatternWildcard()``: matches every value."""

    node = matches.PatternWildcard

    @staticmethod
    def make() -> matches.PatternWildcard:
        return matches.PatternWildcard(span=here())


class PatternVar(metaclass=ConstructorOfNodes):
    """``PatternVar(relay.var("x"))``: matches every value and binds it."""

    node = matches.PatternVar

    @staticmethod
    def make(var: ir.Var) -> matches.PatternVar:
        if not isinstance(var, ir.Var):
            raise wrong("PatternVar: the variable", "a relay.var", var)
        return matches.PatternVar(var, span=here())


class PatternConstructor(metaclass=ConstructorOfNodes):
    """``PatternConstructor(cons, [PatternVar(x), PatternWildcard()])``; without patterns, the fields may be anything."""

    node = matches.PatternConstructor

    @staticmethod
    def make(constructor: ir.Constructor, patterns: Sequence[matches.Pattern] | None = None) -> matches.PatternConstructor:
        if not isinstance(constructor, ir.Constructor):
            raise wrong("PatternConstructor: the constructor", "a relay.Constructor", constructor)
        fields = _patterns(patterns, "PatternConstructor")
        if not fields:
            fields = (matches.PatternWildcard(span=here()),) * len(constructor.inputs)
        return matches.PatternConstructor(constructor, fields, span=here())


class PatternTuple(metaclass=ConstructorOfNodes):
    """``PatternTuple([PatternVar(x), PatternWildcard()])``."""

    node = matches.PatternTuple

    @staticmethod
    def make(patterns: Sequence[matches.Pattern] | None = None) -> matches.PatternTuple:
        return matches.PatternTuple(_patterns(patterns, "PatternTuple"), span=here())


def _patterns(values: AnyValue, who: str) -> tuple[matches.Pattern, ...]:
    given = a_sequence(() if values is None else values, f"{who}: the patterns")
    for value in given:
        if not isinstance(value, matches.Pattern):
            raise wrong(f"{who}: a pattern", "a pattern", value, 'relay.PatternVar(relay.var("x")), relay.PatternWildcard()')
    return given


class Clause(metaclass=ConstructorOfNodes):
    """``Clause(pattern, value)``."""

    node = matches.Clause

    @staticmethod
    def make(lhs: matches.Pattern, rhs: AnyValue) -> matches.Clause:
        return matches.Clause(_patterns([lhs], "Clause")[0], as_expr(rhs))


class Match(metaclass=ConstructorOfNodes):
    """``Match(value, [clause, ...], complete=True)``: the value of the first clause whose pattern matches.

    ``complete=False`` states that there may be no such clause for some values; the run then fails for them.
    """

    node = matches.Match

    @staticmethod
    def make(data: AnyValue, clauses: Sequence[matches.Clause], complete: bool = True, span: Span | None = None) -> matches.Match:
        given = a_sequence(clauses, "Match: the clauses", "[relay.Clause(pattern, value), ...]")
        for clause in given:
            if not isinstance(clause, matches.Clause):
                raise wrong("Match: a clause", "a relay.Clause", clause)
        if not given:
            raise ArgumentError("Match: there is no clause", here())
        return matches.Match(as_expr(data), given, bool(complete), span=span or here())


# ---- references ----------------------------------------------------------------------------------------------------------


class RefCreate(metaclass=ConstructorOfNodes):
    """``RefCreate(value)``: a new reference."""

    node = matches.RefCreate

    @staticmethod
    def make(value: AnyValue, span: Span | None = None) -> matches.RefCreate:
        return matches.RefCreate(as_expr(value), span=span or here())


class RefRead(metaclass=ConstructorOfNodes):
    """``RefRead(ref)``: the value that a reference holds."""

    node = matches.RefRead

    @staticmethod
    def make(ref: AnyValue, span: Span | None = None) -> matches.RefRead:
        return matches.RefRead(as_expr(ref), span=span or here())


class RefWrite(metaclass=ConstructorOfNodes):
    """``RefWrite(ref, value)``: store a value; the result is the empty tuple."""

    node = matches.RefWrite

    @staticmethod
    def make(ref: AnyValue, value: AnyValue, span: Span | None = None) -> matches.RefWrite:
        return matches.RefWrite(as_expr(ref), as_expr(value), span=span or here())
