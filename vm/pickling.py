"""Results, executables and machines in other processes: what they become when they are unpickled.

Addresses mean nothing there: a tensor travels as its elements, an executable as the bytes of its file, a machine as its
executable and how it was made.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .executable import DEVICES, Executable
from .file import from_bytes
from .machine import VirtualMachine
from .tensor import Tensor


@functools.cache
def _keeper() -> VirtualMachine:
    """A machine that holds tensors and runs nothing."""
    return VirtualMachine(Executable((), (), (), (), (), (), DEVICES[0]))


def tensor_of(array: np.ndarray) -> Tensor:
    """A tensor on the host with the elements of an array.  Raises VMError when there is no memory."""
    return _keeper()._taken_in(np.require(array, requirements="CA"), 0)


def executable_of(data: bytes) -> Executable:
    """The executable that these are the bytes of.  Raises ExecutableFormatError for any other bytes."""
    return from_bytes(data)


def machine_of(exe: Executable, options: dict[str, Any]) -> VirtualMachine:
    """A machine for an executable, as fresh as any.  Raises what VirtualMachine raises."""
    return VirtualMachine(exe, **options)
