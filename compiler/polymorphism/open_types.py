"""Types that nothing in a program determines: an expression that needs one is a mistake, else the type is the empty tuple."""

from __future__ import annotations

from collections.abc import Iterator

from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic
from ..ir.expr import If, TupleGetItem, Var
from ..type_inference.function_signature import without_type
from ..type_inference.value_names import shown_name
from .constraints import Need, TypeSolver
from .unification import Term, Unknown, unknowns


def open_parts(solver: TypeSolver) -> set[Unknown]:
    """The unknown parts of type arguments and of the types of matches, constructors and inner functions."""
    terms: Iterator[Term] = (t for terms in solver.instances.values() for t in terms)
    found: set[Unknown] = set()
    for term in (*terms, *solver.terms.values(), *solver.mapping.values()):
        found |= unknowns(term)
    return found


def open_parameters(solver: TypeSolver, params: tuple[Var, ...]) -> list[Var]:
    """The parameters of a global function whose types are open."""
    undeclared = [p for p in params if p.annotation is None]
    parts = open_parts(solver) if undeclared else set()
    return [p for p in undeclared if unknowns(solver.vars[p]) & parts]


def open_mistakes(solver: TypeSolver, name: str, params: tuple[Var, ...]) -> list[Diagnostic]:
    """The first expression of a function that needs an open type, or its parameters with an open type.

    Nothing in a program that has another mistake: the type rules report that one.
    """
    if solver.is_wrong:
        return []
    undeclared = open_parameters(solver, params)
    if undeclared:
        return [without_type(p, f"@{name}", None) for p in undeclared]
    parts = open_parts(solver)
    for need in solver.needs:
        if not any(map(unknowns, need.terms)):
            parts -= unknowns(need.result)  # the expression itself has no type
    for need in solver.needs:
        for atom, term in zip(need.atoms, need.terms, strict=True):
            if _needs(need, term) and unknowns(term) & parts:
                span = atom.span if shown_name(atom) == "this value" else need.value.span
                return [
                    Diagnostic(
                        f"the type of {shown_name(atom)} is not determined",
                        span or need.value.span,
                        help="annotate the value that leaves it open: let %v: List[int32] = ...",
                        code=codes.Type.ANNOTATION,
                    )
                ]
    return []


def _needs(need: Need, term: Term) -> bool:
    """Whether the expression needs all of the type: a projection and a condition need its kind only."""
    return isinstance(term.root(), Unknown) or not isinstance(need.value, (If, TupleGetItem))
