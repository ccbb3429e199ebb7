"""Changes of and look-ups in a module under Relay's names, bound to ``ir.expr.IRModule`` (see ``ir_methods``).

A change replaces the mapping of functions and never writes into it: who holds the mapping, or a copy of the module, sees none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...ops.core.adt_types import GlobalTypeVar
from ...vm.diagnostics.argument_errors import wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir import expr as ir
from ..ir.by_name import ByName
from ..ir.expr import Function, GlobalVar, IRModule, TypeData
from ..ir.visitor import free_vars
from .build import a_name, as_expr
from .type_definitions import add_definitions, add_tensor_arrays


def function_name(key: Any, what: str) -> str:
    """The name that ``key`` gives: a GlobalVar's, or the text without its sign.  Raises ArgumentError."""
    return key.name if isinstance(key, GlobalVar) else a_name(key, what, "@")


def named_functions(functions: Any) -> dict[str, Function]:
    """The functions of a dict, or of a module, by name.  Raises ArgumentError."""
    if isinstance(functions, IRModule):
        return dict(functions.functions)
    if not isinstance(functions, (Mapping, type(None))):
        raise wrong("IRModule: the functions", "a dict of functions by name", functions, "IRModule.from_expr(f) for one function")
    named = {}
    for key, function in (functions or {}).items():
        name = function_name(key, "IRModule: a function's name")
        if not isinstance(function, Function):
            raise ArgumentError(f"@{name} must be a relay.Function, not {type(function).__name__}", here())
        named[name] = function
    return named


def closed_function(value: Any) -> Function:
    """``value`` if it is a function, else the function of its free variables, in order of appearance."""
    expr = as_expr(value)
    return expr if isinstance(expr, Function) else Function(tuple(free_vars(expr)), expr, span=expr.span)


def _replace_functions(module: IRModule, functions: Mapping[str, Function]) -> None:
    object.__setattr__(module, "functions", ByName({**module.functions, **functions}))


def set_function(self: IRModule, key: str | GlobalVar | GlobalTypeVar, function: ir.Expr | TypeData) -> None:
    """Add or replace the function, or the type definition, of this name.

    A GlobalVar of the module stands for its function; the free variables of another expression become parameters.
    """
    if isinstance(function, TypeData) and isinstance(key, str):
        key = GlobalTypeVar(key)
    if isinstance(key, GlobalTypeVar):
        if not isinstance(function, TypeData) or function.header != key:
            raise wrong(f"IRModule: the definition of {key}", f"a relay.TypeData of {key}", function)
        add_definitions(self, {key.name: function})
        return
    name = function_name(key, "IRModule: a function's name")
    found = self[function.name] if isinstance(function, GlobalVar) else closed_function(function)
    _replace_functions(self, {name: found})


def update(self: IRModule, other: IRModule | Mapping[str | GlobalVar, Function]) -> None:
    """Add the functions of a module or dict; they replace functions of the same names."""
    if other is None:
        raise wrong("IRModule.update: the argument", "a module or a dict of functions by name", other)
    _replace_functions(self, named_functions(other))
    if isinstance(other, IRModule):
        add_definitions(self, dict(other.type_definitions))


def update_func(self: IRModule, var: str | GlobalVar, func: ir.Expr) -> None:
    """Add or replace one function.  Raises ArgumentError."""
    self[var] = func


def get_global_var(self: IRModule, name: str) -> GlobalVar:
    """The ``@name`` of a function of the module.  Raises UnknownName."""
    known = a_name(name, "get_global_var: the name", "@")
    if known not in self.functions:
        add_tensor_arrays(self, known)
    self[known]  # raises
    return GlobalVar(known, span=here())


def get_global_vars(self: IRModule) -> list[GlobalVar]:
    """The ``@name`` of every function, in order."""
    return [GlobalVar(name, span=here()) for name in self.functions]


def has_function(self: IRModule, key: object) -> bool:
    """Whether the module has a function of this name, a str or a GlobalVar."""
    return (key.name if isinstance(key, GlobalVar) else key) in self.functions


def function_count(self: IRModule) -> int:
    """The number of functions."""
    return len(self.functions)


def function_names(self: IRModule) -> Iterator[str]:
    """The names of the functions, in order."""
    return iter(self.functions)


def copied(self: IRModule, memo: Any = None) -> IRModule:
    """A module that changes on its own; the functions, which never change, are shared."""
    return ir.replace(self)


#: The methods by name; ``ir_methods`` binds them.
METHODS = {
    "__setitem__": set_function, "__contains__": has_function, "__len__": function_count,
    "__iter__": function_names, "__copy__": copied, "__deepcopy__": copied, "update": update,
    "update_func": update_func,
    "get_global_var": get_global_var, "get_global_vars": get_global_vars,
}  # fmt: skip
