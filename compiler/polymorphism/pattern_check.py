"""Checks of patterns against the types of the values that they match."""

from __future__ import annotations

from collections.abc import Callable

from ...ops.core.adt_types import TypeCall, instantiate_fields
from ...ops.core.tensor_types import TupleType, Type
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic
from ..ir.expr import Constructor, TypeData, Var
from ..ir.match_expr import Match, Pattern, PatternConstructor, PatternTuple
from .constraints import TypeSolver


def pattern_mistakes(match: Match, solver: TypeSolver, definition: Callable[[str], TypeData | None]) -> list[Diagnostic]:
    """The diagnostics of the patterns that fit no value of the matched type."""
    data = match.data
    ty = solver.type_of(solver.vars[data]) if isinstance(data, Var) else None
    found: list[Diagnostic] = []
    todo: list[tuple[Pattern, Type | None]] = [(c.lhs, ty) for c in match.clauses]
    while todo:
        pattern, ty = todo.pop(0)
        match pattern:
            case PatternTuple(patterns=patterns) if not isinstance(ty, TupleType) or len(ty.fields) != len(patterns):
                found.append(_mistake(f"a pattern of {len(patterns)} fields does not fit {_shown(ty)}", pattern, match))
            case PatternTuple(patterns=patterns):
                assert isinstance(ty, TupleType)
                todo += zip(patterns, ty.fields, strict=True)
            case PatternConstructor(constructor=constructor, patterns=patterns):
                fields = _fields(constructor, ty, definition)
                if fields is None:
                    found.append(_mistake(f"{constructor.name_hint} does not make {_shown(ty)}", pattern, match))
                elif len(fields) != len(patterns):
                    count = f"{len(fields)} field{'' if len(fields) == 1 else 's'}"
                    found.append(_mistake(f"{constructor.name_hint} has {count}, the pattern {len(patterns)}", pattern, match))
                else:
                    todo += zip(patterns, fields, strict=True)
    return found


def _fields(constructor: Constructor, ty: Type | None, definition: Callable[[str], TypeData | None]) -> tuple[Type, ...] | None:
    """The types of the fields of a value that the constructor made; None if its type is another one."""
    data = definition(constructor.belong_to.name)
    if data is None or not isinstance(ty, TypeCall) or ty.func != constructor.belong_to:
        return None
    return instantiate_fields(constructor.inputs, data.type_vars, ty.args)


def _shown(ty: Type | None) -> str:
    return "a value of unknown type" if ty is None else str(ty)


def _mistake(message: str, pattern: Pattern, match: Match) -> Diagnostic:
    return Diagnostic(message, pattern.span or match.span, code=codes.Type.MATCH)
