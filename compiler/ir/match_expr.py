"""Pattern matching on values of algebraic data types, and references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from ...declarations.frozen_dataclass import frozen
from ...vm.diagnostics.source import Span
from .expr import Constructor, Expr, Var


@frozen(eq=False, kw_only=True)
class Pattern:
    """A pattern of a clause; ``span`` is its place in the source, or None."""

    span: Span | None = field(default=None, repr=False)


@frozen(eq=False)
class PatternWildcard(Pattern):
    """``_``: matches every value."""


@frozen(eq=False)
class PatternVar(Pattern):
    """``%var``: matches every value and binds it."""

    var: Var


@frozen(eq=False)
class PatternConstructor(Pattern):
    """``Cons(%head, _)``: matches the values that ``constructor`` made, and their fields by ``patterns``."""

    constructor: Constructor
    patterns: tuple[Pattern, ...] = ()


@frozen(eq=False)
class PatternTuple(Pattern):
    """``(%a, _)``: matches a tuple, and its fields by ``patterns``."""

    patterns: tuple[Pattern, ...]


@frozen(eq=False)
class Clause:
    """``lhs => rhs``."""

    lhs: Pattern
    rhs: Expr


@frozen(eq=False)
class Match(Expr):
    """``match (data) { clauses }``: the first clause whose pattern matches.  Not ``complete`` (``match?``): there may be none."""

    data: Expr
    clauses: tuple[Clause, ...]
    complete: bool = True


@frozen(eq=False)
class RefCreate(Expr):
    """``ref(value)``: a new reference."""

    value: Expr


@frozen(eq=False)
class RefRead(Expr):
    """``ref_read(ref)``: the value that the reference holds now."""

    ref: Expr


@frozen(eq=False)
class RefWrite(Expr):
    """``ref_write(ref, value)``: store a value; the result is ``()``."""

    ref: Expr
    value: Expr


def with_results(clauses: Sequence[Clause], results: Sequence[Expr]) -> tuple[Clause, ...]:
    """The clauses with other right sides."""
    return tuple(replace(c, rhs=rhs) for c, rhs in zip(clauses, results, strict=True))


def pattern_parts(pattern: Pattern) -> tuple[Pattern, ...]:
    """The patterns directly inside ``pattern``."""
    return pattern.patterns if isinstance(pattern, (PatternConstructor, PatternTuple)) else ()


def pattern_vars(pattern: Pattern) -> Iterator[Var]:
    """The variables that a pattern binds, from left to right."""
    pending = [pattern]
    while pending:
        here = pending.pop()
        if isinstance(here, PatternVar):
            yield here.var
        pending += reversed(pattern_parts(here))
