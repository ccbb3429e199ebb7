"""The names of ``relay.transform``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .compiler.transform.declared.declared_passes import absence, declared_passes
from .compiler.transform.declared.rewriting_passes import FUNCTIONS
from .compiler.transform.instruments import PassTimingInstrument
from .compiler.transform.module_pass import FunctionPass, ModulePass, Pass, Sequential, function_pass, module_pass
from .compiler.transform.pass_context import PassContext, PassInfo, PassInstrument

__all__ = [
    "FunctionPass", "ModulePass", "Pass", "PassContext", "PassInfo", "PassInstrument", "PassTimingInstrument", "Sequential",
    "function_pass", "module_pass",
]  # fmt: skip


def __getattr__(name: str) -> Callable[..., Any]:
    """The class of the pass ``name``, or a function on expressions.  Raises AttributeError with the alternative."""
    found = {**declared_passes(), **FUNCTIONS}.get(name)
    if found is None:
        raise AttributeError(absence(name))
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *declared_passes(), *FUNCTIONS})
