"""Layer 2: the machine: instruction set, executable, verifier, native loop, memory, devices, profiler.

The package is also Relay's ``relay.vm``: the root adds the names of the compiler, which this layer may not import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: The names of ``relay.vm``, each with the function that imports its value.
PUBLIC: dict[str, Callable[[], Any]] = {}


def __getattr__(name: str) -> Any:
    """The value of a public name.  Raises AttributeError that lists the names."""
    if name in PUBLIC:
        return PUBLIC[name]()
    raise AttributeError(f"there is no relay.vm.{name}; there are {', '.join(sorted(PUBLIC))}")


def __dir__() -> list[str]:
    return sorted(PUBLIC)
