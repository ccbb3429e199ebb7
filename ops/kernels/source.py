"""The text of a kernel, with what it calls: what the generators make and the native compiler takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def same_place(places: Mapping[int, int]) -> str:
    """The question whether tensors, by their positions, have the elements of others at the same address."""
    return " and ".join(f"{_data(a)} == {_data(b)}" for a, b in places.items())


def _data(position: int) -> str:
    return f"tensor(load_i64(argv + {8 * position})).data"


def either(condition: str, text: str, otherwise: str) -> str:
    """Two kernels' texts as one: ``text`` where the condition holds."""
    head, first = text.split("\n", 1)
    _, second = otherwise.split("\n", 1)
    inside = "".join(f"    {line}\n" for line in first.splitlines())
    return f"{head}\n    if {condition}:\n{inside}{second}"
