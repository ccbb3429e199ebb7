"""The passes that run before a pass because it requires the form that they establish."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ...ops.core.similar_names import did_you_mean
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.expr import IRModule
from ..ir.lowering_context import LoweringContext
from ..ir.pass_declaration import DECLARED, PassDeclaration
from ..ir.well_formed import check_bindings, check_nesting, has_form
from ..passes.infer_type import infer_type
from ..passes.to_a_normal_form import to_a_normal_form


def with_requirements(mod: IRModule, required: Sequence[str]) -> IRModule:
    """The module after the passes with these names of Relay, and theirs; forms that it has are not established again.

    Raises ArgumentError for an unknown name, TypeCheckError.
    """
    for name in required:
        by_name = {declaration.name: declaration for declaration in DECLARED.values()}
        declaration = by_name.get(name)
        if declaration is None:
            known = did_you_mean(name, by_name)
            raise ArgumentError(f"there is no pass {name} that a pass could require{known}", here())
        if not _has_form(mod, declaration):
            mod = apply(declaration, with_requirements(mod, required_names(declaration)))
    return mod


def apply(declaration: PassDeclaration, mod: IRModule, **options: Any) -> IRModule:
    """The pass on the module, without its requirements; it gets the module's own context if it has such a parameter."""
    if declaration.run is to_a_normal_form:
        check_bindings(mod)
    else:
        check_nesting(mod)
    parameters = inspect.signature(declaration.run).parameters
    if "entries" in parameters:
        options = {"entries": tuple(mod.functions), **options}
    context = (LoweringContext(entries=tuple(mod.functions)),) if "context" in parameters else ()
    return declaration.run(mod, *context, **options)


def required_names(declaration: PassDeclaration) -> tuple[str, ...]:
    """Relay's names of the passes that a pass requires."""
    return tuple(DECLARED[function].name for function in declaration.requires)


def _has_form(mod: IRModule, declaration: PassDeclaration) -> bool:
    """Whether the module has the form that the pass establishes, for forms that can be seen."""
    forms = {to_a_normal_form: False, infer_type: True}
    return declaration.run in forms and has_form(mod, typed=forms[declaration.run])
