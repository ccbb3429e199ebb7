"""Passes on functions with the attribute ``Compiler``: put into the place of their names, given names, marked as external."""

from __future__ import annotations

from typing import Any

from ....vm.diagnostics.argument_errors import a_sequence, a_text, wrong
from ....vm.diagnostics.python_source import here
from ....vm.diagnostics.source import ArgumentError
from ...ir.expr import Call, Expr, Function, GlobalVar, IRModule, replace
from ...ir.visitor import free_vars
from ...passes.beta_reduction import beta_reduced, rewritten_function
from ..inlining import inlined_calls


def checked_names(global_vars: Any) -> frozenset[str]:
    """The names of GlobalVars.  Raises ArgumentError."""
    who = "InlineCompilerFunctionsBoundTo: the global_vars"
    given = a_sequence(global_vars, who, '[mod.get_global_var("f")]')
    for var in given:
        if not isinstance(var, GlobalVar):
            raise wrong(who, "a list of GlobalVars", var)
    return frozenset(var.name for var in given)


def checked_filter(compiler_filter: Any, who: str) -> str:
    """The name of a compiler, or ``""`` for all.  Raises ArgumentError."""
    return a_text(compiler_filter, f"{who}: the compiler_filter")


def inline_compiler_functions(mod: IRModule, names: frozenset[str]) -> IRModule:
    """The functions of these names with the attribute ``Compiler`` in the place of their calls, and composites within as bodies.

    Raises UnknownName.
    """
    wanted = {name for name in names if "Compiler" in mod[name].attrs}
    plain = {name: _without_composites(f) if name in wanted else f for name, f in mod.functions.items()}
    return inlined_calls(replace(mod, functions=plain), wanted)


def _without_composites(function: Function) -> Function:
    """The function with the bodies of composite functions in the place of their calls."""

    def visit(node: Expr) -> Expr:
        composite = isinstance(node, Call) and isinstance(node.op, Function) and "Composite" in node.op.attrs
        return beta_reduced(node.op, node) if composite and isinstance(node, Call) and isinstance(node.op, Function) else node

    return rewritten_function(function, visit)


def mark_compiler_functions_as_extern(mod: IRModule, compiler: str) -> IRModule:
    """Functions with the attribute ``Compiler`` with the attribute ``Extern=1`` in the place of all others; calls stay."""

    def marked(function: Function) -> Function:
        return replace(function, attrs={"Extern": 1}) if _is_for(function, compiler) else function

    return replace(mod, functions={name: marked(f) for name, f in mod.functions.items()})


def outline_compiler_functions(mod: IRModule, compiler: str) -> IRModule:
    """Functions with the attribute ``Compiler`` that are called where they stand, as global functions named ``global_symbol``.

    Of functions with one name, the first stays; the others are taken for the same.  Raises ArgumentError for a function without
    a name, with variables from outside, or with the name of a function of the module.
    """
    made: dict[str, Function] = {}

    def visit(node: Expr) -> Expr:
        if not (isinstance(node, Call) and isinstance(node.op, Function) and _is_for(node.op, compiler)):
            return node
        name = _symbol(node.op, mod)
        made.setdefault(name, node.op)
        return replace(node, op=GlobalVar(name, span=node.op.span))

    functions = {name: f if f.is_primitive else rewritten_function(f, visit) for name, f in mod.functions.items()}
    return replace(mod, functions={**functions, **made})


def _symbol(function: Function, mod: IRModule) -> str:
    """The name of an outlined function."""
    who = "OutlineCompilerFunctionsWithExistingGlobalSymbols"
    name, place = function.attrs.get("global_symbol"), function.span or here()
    if not isinstance(name, str) or not name:
        message = f"{who}: a function for {function.attrs['Compiler']} has no global_symbol"
        raise ArgumentError(message, place, help='relay.Function(...).with_attr("global_symbol", "name") gives it one')
    if name in mod.functions:
        raise ArgumentError(f"{who}: the module has a function @{name} already", place)
    outside = free_vars(function)
    if outside:
        raise ArgumentError(f"{who}: @{name} uses %{outside[0].name}, which is bound outside of it", place)
    return name


def _is_for(function: Function, compiler: str) -> bool:
    """Whether the function is one for the compiler, or for any if that is ``""``."""
    return "Compiler" in function.attrs and compiler in ("", function.attrs["Compiler"])
