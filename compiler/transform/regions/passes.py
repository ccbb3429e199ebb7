"""The passes on regions and functions for external compilers, as classes: ``relay.transform.PartitionGraph()(mod)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....vm.diagnostics.argument_errors import a_text
from ...ir.expr import GlobalVar
from ..module_pass import ModulePass, Pass, plain_pass
from ..pass_context import PassInfo
from .annotate_target import annotate_target, checked_targets
from .compiler_functions import (
    checked_filter,
    checked_names,
    inline_compiler_functions,
    mark_compiler_functions_as_extern,
    outline_compiler_functions,
)
from .merge_regions import merge_compiler_regions
from .partition_graph import partition_graph


def _annotate_target(targets: str | Sequence[str], include_non_call_ops: bool = True) -> Pass:
    """Marks around the calls that a compiler supports, by the attribute ``target.<compiler>`` of operators; else ``default``.

    The first of ``targets`` that supports a call gets it.  ``include_non_call_ops``: tuples and projections are marked, too.
    """
    names, non_calls = checked_targets(targets), bool(include_non_call_ops)
    return ModulePass(lambda mod, context: annotate_target(mod, names, non_calls), PassInfo(0, "AnnotateTarget", ("InferType",)))


def _partition_graph(mod_name: str = "default", bind_constants: bool = True) -> Pass:
    """Each region between marks as a function ``tvmgen_<mod_name>_<compiler>_<function>_<number>``.

    ``bind_constants``: constants that enter a region become part of its function.  The functions run as any others.
    """
    name, bind = a_text(mod_name, "PartitionGraph: the mod_name"), bool(bind_constants)
    return ModulePass(lambda mod, context: partition_graph(mod, name, bind), PassInfo(0, "PartitionGraph", ("InferType",)))


def _inline_compiler_functions_bound_to(global_vars: Sequence[GlobalVar]) -> Pass:
    """Calls of these functions, which have the attribute ``Compiler``, as their bodies; composite functions within, too."""
    names = checked_names(global_vars)
    info = PassInfo(0, "InlineCompilerFunctionsBoundTo", ())
    return ModulePass(lambda mod, context: inline_compiler_functions(mod, names), info)


def _mark_compiler_functions_as_extern(compiler_filter: str = "") -> Pass:
    """Functions with the attribute ``Compiler``, for one compiler or all, with the attribute ``Extern`` in place of all others.

    They keep their bodies, and calls stay calls: they run as before.
    """
    only = checked_filter(compiler_filter, "MarkCompilerFunctionsAsExtern")
    info = PassInfo(0, "MarkCompilerFunctionsAsExtern", ())
    return ModulePass(lambda mod, context: mark_compiler_functions_as_extern(mod, only), info)


def _outline_compiler_functions(compiler_filter: str = "") -> Pass:
    """Functions with the attribute ``Compiler`` that are called where they stand as global functions named ``global_symbol``."""
    only = checked_filter(compiler_filter, "OutlineCompilerFunctionsWithExistingGlobalSymbols")
    info = PassInfo(0, "OutlineCompilerFunctionsWithExistingGlobalSymbols", ())
    return ModulePass(lambda mod, context: outline_compiler_functions(mod, only), info)


#: The classes by Relay's names.
REGION_PASSES: dict[str, Callable[..., Any]] = {
    "AnnotateTarget": _annotate_target,
    "InlineCompilerFunctionsBoundTo": _inline_compiler_functions_bound_to,
    "MarkCompilerFunctionsAsExtern": _mark_compiler_functions_as_extern,
    "MergeCompilerRegions": plain_pass("MergeCompilerRegions", merge_compiler_regions, 0),
    "OutlineCompilerFunctionsWithExistingGlobalSymbols": _outline_compiler_functions,
    "PartitionGraph": _partition_graph,
}
