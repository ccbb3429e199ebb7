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
from ..ir.visitor import post_order
from ..ir.well_formed import check_bindings, check_nesting
from ..passes.infer_type import infer_sizes, infer_type
from ..passes.to_a_normal_form import to_a_normal_form
from ..polymorphism.monomorphize import is_monomorphic, monomorphize
from .own_form import in_form_of
from .typed_form import typed_form


def with_requirements(mod: IRModule, required: Sequence[str]) -> IRModule:
    """The module after the passes with these names of Relay; types that it has are not inferred again.

    Raises ArgumentError for an unknown name, TypeCheckError.
    """
    for name in required:
        by_name = {declaration.name: declaration for declaration in DECLARED.values()}
        declaration = by_name.get(name)
        if declaration is None:
            known = did_you_mean(name, by_name)
            raise ArgumentError(f"there is no pass {name} that a pass could require{known}", here())
        if declaration.run is not infer_type or not _is_typed(mod):
            mod = apply(declaration, mod)
    return mod


def apply(declaration: PassDeclaration, mod: IRModule, **options: Any) -> IRModule:
    """The pass on a module of any form; the result has the form of the module, or that which the pass is for.

    A pass of the compiler works on A-normal form.  Raises TypeCheckError.
    """
    if declaration.run is infer_type:
        return typed_form(mod)
    normal = _run(DECLARED[to_a_normal_form.__name__], mod)
    out = _run(declaration, _prepared(normal, declaration, set()), **options)
    return out if declaration.makes_form else in_form_of(out, mod)


def required_names(declaration: PassDeclaration) -> tuple[str, ...]:
    """Relay's names of the passes that a pass requires."""
    return tuple(DECLARED[function].name for function in declaration.requires)


def _prepared(mod: IRModule, declaration: PassDeclaration, done: set[str]) -> IRModule:
    """The module, in A-normal form, after the passes that a pass requires, except those that are ``done``.

    Type parameters stay, unless a pass itself requires a module without them.
    """
    for function in declaration.requires:
        required = DECLARED[function]
        if function in done or required.run is to_a_normal_form:
            continue
        done.add(function)
        mod = _typed(mod) if required.run is infer_type else _run(required, _prepared(mod, required, done))
    return mod


def _typed(mod: IRModule) -> IRModule:
    """The module, in A-normal form, with types; without type parameters if a function has no types over its own."""
    if is_monomorphic(mod):
        return infer_sizes(mod)
    typed = typed_form(mod)
    return typed if _is_typed(typed) else infer_type(monomorphize(mod))


def _inferred(mod: IRModule, before: IRModule) -> IRModule:
    """``mod``, made of the typed ``before``, with types; with the sizes that it computes where it has no type parameters."""
    return infer_sizes(mod, before) if is_monomorphic(mod) else _typed(mod)


def _run(declaration: PassDeclaration, mod: IRModule, **options: Any) -> IRModule:
    """The pass on a module of the form that it requires; it gets the module's own context if it has such a parameter."""
    if declaration.run is to_a_normal_form:
        check_bindings(mod)
    else:
        check_nesting(mod)
    parameters = inspect.signature(declaration.run).parameters
    if "entries" in parameters:
        options = {"entries": tuple(mod.functions), **options}
    if "infer" in parameters:
        options = {"infer": _inferred, **options}
    context = (LoweringContext(entries=tuple(mod.functions)),) if "context" in parameters else ()
    return declaration.run(mod, *context, **options)


def _is_typed(mod: IRModule) -> bool:
    """Whether every expression of the module has a type."""
    return all(node.ty is not None for f in mod.functions.values() for node in post_order(f))
