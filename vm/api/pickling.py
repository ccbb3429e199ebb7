"""Unpickling of results and executables, possibly in another process; machines pickle themselves.

Addresses are not portable: a tensor is pickled as its elements, an executable as the bytes of its file, a machine as its
executable and the arguments of its constructor.
"""

from __future__ import annotations

import copyreg
import functools

import numpy as np

from ...ops.strategy.implementation import HOST
from ..bytecode.executable_file import to_bytes
from .executable import Executable, from_bytes
from .machine import VirtualMachine
from .tensor import Tensor


@functools.cache
def _keeper() -> VirtualMachine:
    """A machine without functions that owns unpickled tensors."""
    return VirtualMachine(Executable((), (), (), (), (), (), HOST))


def tensor_of(array: np.ndarray) -> Tensor:
    """A tensor on the host with the elements of an array.  Raises VMError if out of memory."""
    return _keeper()._from_array(np.require(array, requirements=["C", "A"]), 0)


def executable_of(data: bytes) -> Executable:
    """The executable serialised in ``data``.  Raises ExecutableFormatError for any other bytes."""
    return from_bytes(data)


def register() -> None:
    """Register the pickling of results and executables."""
    copyreg.pickle(Tensor, lambda tensor: (tensor_of, (tensor.numpy(),)))
    copyreg.pickle(Executable, lambda exe: (executable_of, (to_bytes(exe),)))
