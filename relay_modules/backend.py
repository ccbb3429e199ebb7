"""``relay.backend``: the machine's compiler and executor, and the interpreter, at Relay's paths ``relay.backend.vm``, ..."""

from __future__ import annotations

from typing import Any

from . import vm
from .compiler.builder.import_paths import importable
from .compiler.executors import interpreter
from .ops.core.similar_names import did_you_mean

__all__ = ["interpreter", "vm"]
importable(__name__, {"interpreter": interpreter, "vm": vm})

#: Relay's names without a counterpart, each with the name to use instead.
ABSENT = {
    "Executor": "choose the executor by its function: relay.build, relay.vm.compile, relay.create_executor",
    "Runtime": "there is one runtime",
    "contrib": "there are no external code generators",
    "executor_factory": "relay.build returns an executable library",
    "te_compiler": "kernels are compiled by relay.compile",
    "utils": "the functions there are for code generators",
}


def __getattr__(name: str) -> Any:
    """Raises AttributeError with the name to use instead, or with near names."""
    why = ABSENT.get(name)
    raise AttributeError(f"there is no relay.backend.{name}{': ' + why if why else did_you_mean(name, __all__)}")
