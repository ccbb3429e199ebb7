"""Type variables of programs and types: ``relay.analysis.all_type_vars`` and its kin; sizes that are not known."""

from __future__ import annotations

from typing import Any

from ...ops.core.adt_types import TypeVar, map_type
from ...ops.core.tensor_types import TensorType, Type
from ...vm.diagnostics.argument_errors import wrong
from ..ir.expr import Expr, Function, IRModule, Var
from .variables import nodes


def all_type_vars(expr: Expr | IRModule | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """The type variables, in order of first occurrence.  ``mod`` has no effect.  Raises ArgumentError for other values."""
    found: dict[int, TypeVar] = {}

    def note(ty: Type) -> None:
        if isinstance(ty, TypeVar):
            found.setdefault(id(ty), ty)

    for ty in [expr] if isinstance(expr, Type) else _types(expr):
        map_type(ty, note)
    return list(found.values())


def bound_type_vars(expr: Expr | IRModule | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """The type parameters of functions, in order of first occurrence.  ``mod`` has no effect.  Raises ArgumentError."""
    functions = [] if isinstance(expr, Type) else [node for node in nodes(expr) if isinstance(node, Function)]
    bound = {id(var) for function in functions for var in function.type_params}
    return [var for var in all_type_vars(expr) if id(var) in bound]


def free_type_vars(expr: Expr | IRModule | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """The type variables that no function binds, in order of first occurrence.  ``mod`` has no effect.  Raises ArgumentError."""
    bound = {id(var) for var in bound_type_vars(expr)}
    return [var for var in all_type_vars(expr) if id(var) not in bound]


def is_dynamic(ty: Type) -> bool:
    """Whether a tensor in the type has a size that is known only at run time.  Raises ArgumentError for other values."""
    if not isinstance(ty, Type):
        raise wrong("is_dynamic: the type", "a type", ty)
    found: list[Type] = []
    map_type(ty, found.append)
    return any(isinstance(part, TensorType) and not part.is_static for part in found)


def _types(expr: Expr | IRModule) -> list[Type]:
    """The stated types: of parameters, variables and results."""
    found: list[Any] = []
    for node in nodes(expr):
        if isinstance(node, Function):
            found += [*node.type_params, *(param.annotation for param in node.params), node.ret_type]
        elif isinstance(node, Var):
            found.append(node.annotation)
    return [ty for ty in found if isinstance(ty, Type)]
