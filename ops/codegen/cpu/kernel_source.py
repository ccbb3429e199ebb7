"""The source of a CPU kernel: its text and the functions that the text calls.  Input of the native compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....declarations.frozen_dataclass import frozen


@frozen
class KernelSource:
    """A kernel as text: ``text`` defines the function ``entry(argv, n)``, which returns a status.

    The text may use the names of ``ops.native.memory``, the ``math`` module, and ``bodies`` (``@generic`` functions, the named
    tuples that they take, and ``static``) by name.
    ``libraries``: the functions in the library table, whose address follows the last tensor in argv.
    Equal groups have equal sources.
    """

    text: str
    entry: str = "kernel"
    bodies: tuple[Callable[..., Any], ...] = ()
    libraries: tuple[str, ...] = ()


def same_address(positions: Mapping[int, int]) -> str:
    """The condition that tensors have the same data address as others; tensors are given by their positions."""
    return " and ".join(f"{_data(a)} == {_data(b)}" for a, b in positions.items())


def _data(position: int) -> str:
    return f"tensor(load_i64(argv + {8 * position})).data"


def either(condition: str, text: str, otherwise: str) -> str:
    """Join two kernels' texts: ``text`` runs if the condition holds, ``otherwise`` if not."""
    head, first = text.split("\n", 1)
    _, second = otherwise.split("\n", 1)
    inside = "".join(f"    {line}\n" for line in first.splitlines())
    return f"{head}\n    if {condition}:\n{inside}{second}"
