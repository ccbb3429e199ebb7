"""The names of ``relay.transform``."""

from __future__ import annotations

from collections.abc import Callable

from .declared_passes import absence, declared_passes
from .module_pass import FunctionPass, ModulePass, Pass, Sequential, function_pass, module_pass
from .pass_context import PassContext, PassInfo, PassInstrument

__all__ = [
    "FunctionPass", "ModulePass", "Pass", "PassContext", "PassInfo", "PassInstrument", "Sequential", "function_pass",
    "module_pass",
]  # fmt: skip


def __getattr__(name: str) -> Callable[..., Pass]:
    """The class of the compiler's pass ``name``.  Raises AttributeError with the alternative."""
    found = declared_passes().get(name)
    if found is None:
        raise AttributeError(absence(name))
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *declared_passes()})
