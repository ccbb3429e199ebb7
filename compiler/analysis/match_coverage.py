"""``relay.analysis.unmatched_cases``: the values that no clause of a match matches, as patterns."""

from __future__ import annotations

from ...vm.diagnostics.argument_errors import wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.expr import IRModule, TypeData
from ..ir.match_expr import Match, Pattern
from ..polymorphism.decision_tree import Value, decision_tree, failures


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Pattern]:
    """The cases that no clause matches; empty for a match of every value.

    ``mod``: the module with the type definitions.  Raises ArgumentError for other values, and for a constructor of a type that
    the module does not define.
    """
    if not isinstance(match, Match):
        raise wrong("unmatched_cases: the first argument", "a match", match)
    if not isinstance(mod, (IRModule, type(None))):
        raise wrong("unmatched_cases: the module", "an IRModule", mod)

    def definition(name: str) -> TypeData:
        if mod is None or name not in mod.type_definitions:
            raise ArgumentError(f"unmatched_cases: the module does not define the type {name}", here())
        return mod.type_definitions[name]

    return [case for failure in failures(decision_tree(match, Value(), definition)) for case in failure.cases]
