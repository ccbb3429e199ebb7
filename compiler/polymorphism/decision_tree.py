"""Decision trees of matches: each tests one value for one constructor, and no constructor of a value twice on one path.

The method is that of a matrix of patterns: a row is a clause, a column a value.  The first refutable pattern of the first row
chooses the test; the matrix is then specialised for both outcomes (Maranget, Compiling Pattern Matching to Good Decision Trees).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...declarations.frozen_dataclass import frozen
from ..ir.expr import Constructor, TypeData, Var
from ..ir.match_expr import Match, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard


@dataclass(eq=False)
class Value:
    """A value that is matched: the data, or field ``index`` of ``whole`` (of its ``constructor``, or of a tuple).

    ``name``: the name of a variable that is bound to it, for its own variable.
    """

    whole: Value | None = None
    index: int = 0
    constructor: str = ""
    name: str = "field"


@frozen
class Leaf:
    """The right side of clause ``clause``; ``bound``: the value of each variable of its pattern."""

    clause: int
    bound: tuple[tuple[Var, Value], ...]


@frozen
class Failure:
    """No clause applies.  ``cases``: patterns of all values for which that is so."""

    cases: tuple[Pattern, ...]


@frozen
class Test:
    """Whether ``constructor`` made ``value``."""

    value: Value
    constructor: str
    made: Tree
    other: Tree


Tree = Leaf | Failure | Test

_ANYTHING = PatternWildcard()


@frozen
class _Row:
    patterns: tuple[Pattern, ...]
    clause: int
    bound: tuple[tuple[Var, Value], ...] = ()


@frozen
class _Known:
    """Facts about a value on a path: its constructor and fields, or the constructors that did not make it."""

    constructor: Constructor | None = None
    fields: tuple[Value, ...] = ()
    excluded: frozenset[str] = frozenset()
    siblings: tuple[Constructor, ...] = ()
    is_tuple: bool = False


def decision_tree(match: Match, data: Value, definition: Callable[[str], TypeData | None]) -> Tree:
    """The decision tree of a match on the value ``data``."""
    rows = [_Row((clause.lhs,), number) for number, clause in enumerate(match.clauses)]
    return _Builder(data, definition).tree(rows, [data], {})


class _Builder:
    def __init__(self, data: Value, definition: Callable[[str], TypeData | None]) -> None:
        self.data, self.definition = data, definition

    def tree(self, rows: Sequence[_Row], values: Sequence[Value], known: Mapping[Value, _Known]) -> Tree:
        """The tree for the values of the columns; ``known``: the facts on the path to it."""
        rows = [_bind(row, values) for row in rows]
        if not rows:
            return Failure(tuple(_cases(self.data, known)))
        column = next((k for k, p in enumerate(rows[0].patterns) if not isinstance(p, PatternWildcard)), None)
        if column is None:
            return Leaf(rows[0].clause, rows[0].bound)
        pattern, value = rows[0].patterns[column], values[column]
        if isinstance(pattern, PatternTuple):
            fields = tuple(Value(value, i, name=f"field{i}") for i in range(len(pattern.patterns)))
            return self._inside(rows, values, column, fields, {**known, value: _Known(None, fields, is_tuple=True)})
        assert isinstance(pattern, PatternConstructor), pattern
        return self._tested(pattern.constructor, rows, values, column, known)

    def _tested(
        self, constructor: Constructor, rows: Sequence[_Row], values: Sequence[Value], column: int, known: Mapping[Value, _Known]
    ) -> Tree:
        value, name = values[column], constructor.name_hint
        fields = tuple(Value(value, i, name, name=f"{name.lower()}{i}") for i in range(len(constructor.inputs)))
        mine = [row for row in rows if _constructor_of(row.patterns[column]) in (None, name)]
        made = self._inside(mine, values, column, fields, {**known, value: _Known(constructor, fields)})
        excluded = known.get(value, _Known()).excluded | {name}
        data = self.definition(constructor.belong_to.name)
        siblings = data.constructors if data is not None else ()
        if data is not None and all(c.name_hint in excluded for c in siblings):
            return made  # no other constructor is possible
        rest = [row for row in rows if _constructor_of(row.patterns[column]) != name]
        return Test(value, name, made, self.tree(rest, values, {**known, value: _Known(excluded=excluded, siblings=siblings)}))

    def _inside(
        self, rows: Sequence[_Row], values: Sequence[Value], column: int, fields: tuple[Value, ...], known: Mapping[Value, _Known]
    ) -> Tree:
        """The tree in which the fields of a value replace its column."""
        inside = []
        for row in rows:
            pattern = row.patterns[column]
            parts = pattern.patterns if isinstance(pattern, (PatternConstructor, PatternTuple)) else (_ANYTHING,) * len(fields)
            inside.append(replace(row, patterns=(*row.patterns[:column], *parts, *row.patterns[column + 1 :])))
        return self.tree(inside, [*values[:column], *fields, *values[column + 1 :]], known)


def _cases(value: Value, known: Mapping[Value, _Known]) -> list[Pattern]:
    """The patterns of all values of which no more is known than ``known``."""
    facts = known.get(value, _Known())
    if facts.constructor is None and not facts.is_tuple:
        left = [c for c in facts.siblings if c.name_hint not in facts.excluded]
        return [PatternConstructor(c, (_ANYTHING,) * len(c.inputs)) for c in left] or [_ANYTHING]
    inside = itertools.product(*(_cases(field, known) for field in facts.fields))
    if facts.constructor is None:
        return [PatternTuple(fields) for fields in inside]
    return [PatternConstructor(facts.constructor, fields) for fields in inside]


def failures(tree: Tree) -> list[Failure]:
    """The failures of a tree, in the order of its tests."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, Failure)]


def leaves(tree: Tree) -> list[Leaf | Failure]:
    """The leaves of a tree, those of a test that holds before the others."""
    found: list[Leaf | Failure] = []
    todo = [tree]
    while todo:
        here = todo.pop()
        if isinstance(here, Test):
            todo += [here.other, here.made]
        else:
            found.append(here)
    return found


def _bind(row: _Row, values: Sequence[Value]) -> _Row:
    """The row in which each variable is bound to its column's value, and matches everything."""
    patterns, bound = [], list(row.bound)
    for pattern, value in zip(row.patterns, values, strict=True):
        if isinstance(pattern, PatternVar):
            value.name = pattern.var.name
            bound.append((pattern.var, value))
        patterns.append(_ANYTHING if isinstance(pattern, PatternVar) else pattern)
    return replace(row, patterns=tuple(patterns), bound=tuple(bound))


def _constructor_of(pattern: Pattern) -> str | None:
    return pattern.constructor.name_hint if isinstance(pattern, PatternConstructor) else None
