"""Kernels of an executable: from their description to an address, through the object store."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ops.group import Group
from ..ops.implementation import HOST
from ..ops.kernels import kernel_source
from ..ops.kernels.source import KernelSource
from ..ops.native import libraries, memory, store
from ..ops.native.halves import scalar_types
from ..ops.native.memory import native
from .executable import PackedFunc
from .layout import CUDA

SIGNATURE = "int32(int64, int64)"

#: What the text of a kernel may name, besides the bodies it calls.
_NAMES: dict[str, Any] = {
    "math": math,
    **{name: value for name, value in vars(memory).items() if hasattr(value, "__native__")},
    **scalar_types(),
}


def kernel_function(source: KernelSource) -> Callable[[int, int], int]:
    """The kernel as a plain Python function, which runs un-jitted too."""
    namespace = {**_NAMES, **{body.__name__: body for body in source.bodies}}
    exec(compile(source.text, "<kernel>", "exec"), namespace)
    return native(namespace[source.entry])


def kernel_address(group: Group) -> int:
    """The address of a group's machine code; 0 when its operator's kernel lives in Python."""
    if in_python(group):
        return 0
    return store.address_of(kernel_function(kernel_source(group)), SIGNATURE, group.name)


def in_python(group: Group) -> bool:
    """Does the kernel live in Python?"""
    kernel = group.kernel_on(HOST)
    return kernel is not None and kernel.in_python


def library_table(packed: Sequence[PackedFunc]) -> np.ndarray:
    """The addresses of the library functions that kernels call by address (0: not needed)."""
    by_host = [p.group for p in packed if p.device != CUDA and not in_python(p.group)]
    names = {name for group in by_host for name in kernel_source(group).libraries}
    table = np.zeros(len(libraries.TABLE), np.int64)
    for name, address in libraries.addresses(sorted(names)).items():
        table[libraries.TABLE[name].index] = address
    return table
