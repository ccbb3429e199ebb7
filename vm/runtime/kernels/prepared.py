"""Kernels of an executable as plain data, without their descriptions: the cache of executables keeps them beside it.

A process that finds an executable there reads neither the descriptions of its kernels nor generates their sources: it loads code
by the numbers of entries of the kernel cache.  A missing entry is no error: the kernels are then obtained from their
descriptions, as those of any other executable.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...bytecode.executable import ExecutableData


@frozen
class KernelRow:
    """A packed function as the loop and the linker know it.

    ``tensors``: rank, number of the dtype and number of the device of each argument, the device -1 for one that is not read.
    ``workspaces``: the number of scratch tensors among the arguments.  ``updated``: the positions of a parameter and of the
    result written over it, if only some elements are accessed; else -1, -1.  ``libraries``: the library functions that the
    kernel calls.
    """

    name: str
    device: int
    tensors: tuple[tuple[int, int, int], ...]
    workspaces: int
    updated: tuple[int, int]
    libraries: tuple[str, ...]


@frozen
class Prepared:
    """The kernels of an executable, each with the id of its entry in the kernel cache, and the ids of the machine's functions.

    ``functions``: by module, name and signature (see ``kernel_store.function_name``).
    """

    kernels: tuple[tuple[KernelRow, str], ...]
    functions: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Plain data, of which ``from_json`` makes an equal object."""
        rows = [[r.name, r.device, r.tensors, r.workspaces, r.updated, r.libraries, id] for r, id in self.kernels]
        return {"kernels": rows, "functions": dict(self.functions)}

    @staticmethod
    def from_json(data: Any) -> Prepared:
        """The object in ``data``, which comes from the cache of this user."""
        kernels = []
        for name, device, tensors, workspaces, (param, result), libraries, id in data["kernels"]:
            row = KernelRow(name, device, tuple(map(tuple, tensors)), workspaces, (param, result), tuple(libraries))
            kernels.append((row, id))
        return Prepared(tuple(kernels), data["functions"])


_prepared: weakref.WeakKeyDictionary[ExecutableData, Prepared] = weakref.WeakKeyDictionary()


def remember(exe: ExecutableData, prepared: Prepared) -> None:
    """Keep the prepared kernels of an executable of the cache."""
    _prepared[exe] = prepared


def prepared_for(exe: ExecutableData) -> Prepared | None:
    """The prepared kernels of an executable; None for an executable that is not from the cache."""
    return _prepared.get(exe)
