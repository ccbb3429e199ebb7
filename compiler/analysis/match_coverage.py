"""``relay.analysis.unmatched_cases``: the values that no clause of a match matches, as patterns."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import replace

from ...vm.api.argument_errors import wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.expr import IRModule
from ..ir.match_expr import Match, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard


class _Fit(enum.Enum):
    """Whether a pattern matches the values of a case: all, none, or perhaps some."""

    ALL = "all"
    NONE = "none"
    SOME = "some"


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Pattern]:
    """The cases that no clause matches; empty for a match of every value.

    ``mod``: the module with the type definitions.  Raises ArgumentError for other values, and for a constructor of a type that
    the module does not define.
    """
    if not isinstance(match, Match):
        raise wrong("unmatched_cases: the first argument", "a match", match)
    if not isinstance(mod, (IRModule, type(None))):
        raise wrong("unmatched_cases: the module", "an IRModule", mod)
    unmatched: list[Pattern] = []
    pending: list[Pattern] = [PatternWildcard()]
    while pending:
        case = pending.pop()
        for clause in match.clauses:
            fit = _fit(clause.lhs, case)
            if fit is _Fit.SOME:
                pending += reversed(_split(clause.lhs, case, mod))
            if fit is not _Fit.NONE:
                break
        else:
            unmatched.append(case)
    return unmatched


def _fit(pattern: Pattern, case: Pattern) -> _Fit:
    if isinstance(pattern, (PatternWildcard, PatternVar)):
        return _Fit.ALL
    if isinstance(case, PatternWildcard):
        return _Fit.SOME
    if isinstance(pattern, PatternConstructor):
        assert isinstance(case, PatternConstructor)
        return _Fit.NONE if pattern.constructor.tag != case.constructor.tag else _fits(pattern.patterns, case.patterns)
    assert isinstance(pattern, PatternTuple) and isinstance(case, PatternTuple)
    return _fits(pattern.patterns, case.patterns)


def _fits(patterns: Sequence[Pattern], cases: Sequence[Pattern]) -> _Fit:
    found = {_fit(pattern, case) for pattern, case in zip(patterns, cases, strict=True)}
    return _Fit.NONE if _Fit.NONE in found else _Fit.SOME if _Fit.SOME in found else _Fit.ALL


def _split(pattern: Pattern, case: Pattern, mod: IRModule | None) -> list[Pattern]:
    """The case as several, of which ``pattern`` decides more."""
    if isinstance(case, PatternWildcard):
        return _cases_of(pattern, mod)
    assert isinstance(case, (PatternConstructor, PatternTuple)) and isinstance(pattern, (PatternConstructor, PatternTuple))
    pairs = list(zip(pattern.patterns, case.patterns, strict=True))
    at = next(k for k, (inner, part) in enumerate(pairs) if _fit(inner, part) is _Fit.SOME)
    parts = _split(pairs[at][0], pairs[at][1], mod)
    return [replace(case, patterns=(*case.patterns[:at], part, *case.patterns[at + 1 :])) for part in parts]


def _cases_of(pattern: Pattern, mod: IRModule | None) -> list[Pattern]:
    """Every value of the type that the pattern matches, one case for each constructor."""
    if isinstance(pattern, PatternTuple):
        return [PatternTuple((PatternWildcard(),) * len(pattern.patterns))]
    assert isinstance(pattern, PatternConstructor)
    name = pattern.constructor.belong_to.name
    if mod is None or name not in mod.type_definitions:
        raise ArgumentError(f"unmatched_cases: the module does not define the type {name}", here())
    constructors = mod.type_definitions[name].constructors
    return [PatternConstructor(each, (PatternWildcard(),) * len(each.inputs)) for each in constructors]
