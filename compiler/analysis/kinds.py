"""Kind checking: ``relay.analysis.check_kind``."""

from __future__ import annotations

from ...ops.core.adt_types import GlobalTypeVar, IncompleteType, TypeCall, TypeKind, TypeVar, type_parts
from ...ops.core.similar_names import nearest
from ...ops.core.tensor_types import Type
from ...vm.diagnostics import codes
from ...vm.diagnostics.argument_errors import wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import TypeCheckError
from ..ir.expr import IRModule, TypeData


def check_kind(t: Type | TypeData, mod: IRModule | None = None) -> TypeKind:
    """The kind of a type whose parts fit.

    The parts of tuples, functions, references, instances and fields of constructors are of kind ``Type``.  ``mod``: the module
    with the definitions of names; without a module, the number of type arguments is not checked.
    Raises TypeCheckError for a part of another kind, an unknown definition and a wrong number of type arguments; ArgumentError.
    """
    if not isinstance(mod, (IRModule, type(None))):
        raise wrong("check_kind: the module", "an IRModule", mod)
    if isinstance(t, TypeData):
        _check_definition(t, mod)
        return TypeKind.TypeData
    if not isinstance(t, Type):
        raise wrong("check_kind: the type", "a type", t)
    return _kind(t, mod)


def _kind(t: Type, mod: IRModule | None) -> TypeKind:
    if isinstance(t, (TypeVar, IncompleteType)):
        return t.kind
    if isinstance(t, GlobalTypeVar):
        _definition(t, mod)
        return t.kind
    if isinstance(t, TypeCall):
        _check_arguments(t, mod)
    for part in type_parts(t):
        _check_part(part, t, mod)
    return TypeKind.Type


def _check_part(part: Type, of: Type | TypeData, mod: IRModule | None) -> None:
    """Check that the part is the type of a value; a definition without type parameters is one by its name."""
    kind = _kind(part, mod)
    if kind is TypeKind.Type or (isinstance(part, GlobalTypeVar) and not _takes_arguments(part, mod)):
        return
    whole = f"the definition of {of.header}" if isinstance(of, TypeData) else f"the type {of}"
    help = f"write {part}(...) with its type arguments" if kind is TypeKind.AdtHandle else "sizes belong in the shape of a tensor"
    message = f"{part} in {whole} is of kind {kind.name}, where a type of kind Type must be"
    raise TypeCheckError(message, here(), help=help, code=codes.Type.KIND)


def _takes_arguments(name: GlobalTypeVar, mod: IRModule | None) -> bool:
    data = _definition(name, mod)
    return data is None or bool(data.type_vars)


def _definition(name: GlobalTypeVar, mod: IRModule | None) -> TypeData | None:
    """The definition of a name; None without a module.  Raises TypeCheckError."""
    if mod is None:
        return None
    data = mod.type_definitions.get(name.name)
    if data is None:
        known = nearest(name.name, mod.type_definitions, "{}")
        raise TypeCheckError(f"the module has no type {name}{known}", here(), code=codes.Type.UNKNOWN)
    return data


def _check_arguments(t: TypeCall, mod: IRModule | None) -> None:
    data = _definition(t.func, mod)
    if data is not None and len(data.type_vars) != len(t.args):
        message = f"{t.func} takes {len(data.type_vars)} type arguments, not {len(t.args)}: {t}"
        raise TypeCheckError(message, here(), code=codes.Type.KIND)


def _check_definition(data: TypeData, mod: IRModule | None) -> None:
    """Check a definition, which may not be in the module yet."""
    known = None if mod is None else IRModule(type_definitions={**mod.type_definitions, data.header.name: data})
    for constructor in data.constructors:
        for part in constructor.inputs:
            _check_part(part, data, known)
