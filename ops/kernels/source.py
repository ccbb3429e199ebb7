"""The text of a kernel, with what it calls: what the generators make and the native compiler takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KernelSource:
    """``text`` defines the function ``entry(argv, n)`` and returns a status.

    The text may use the names of ``ops.native.memory``, the ``math`` module, and ``bodies`` by their names (``@generic``
    functions).  ``libraries``: the functions it finds in the library table, whose address follows the last tensor in argv.
    Equal groups have equal sources.
    """

    text: str
    entry: str = "kernel"
    bodies: tuple[Callable[..., Any], ...] = ()
    libraries: tuple[str, ...] = ()
