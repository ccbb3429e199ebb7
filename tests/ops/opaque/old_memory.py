"""Memory as programs leave it behind, and the floating-point work that a kernel does on it.

Nobody has written the memory that a kernel gets as workspace, as results, and behind the ends of its tensors.  Sticky flags in
MXCSR record the operands and results of floating-point instructions.  With old memory full of subnormal or signaling numbers, a
flag that a kernel does not set with old memory full of zeros shows an instruction on old memory.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
from collections.abc import Sequence

import numpy as np

from relayvm.ops.codegen import kernel_source
from relayvm.ops.codegen.cpu import opaque_kernel
from relayvm.ops.core.group import Group
from relayvm.ops.core.implementation import ALIGNMENT
from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.ops.core.type_relation import shape_program
from relayvm.ops.native import memory

from . import opaque_kernels

#: Old memory, as a word of 64 bits that is repeated.  A signaling NaN differs between formats.
FILLS = {
    "zeros": 0,
    "subnormal": 0x00001BE0_00001BE0,
    "signaling float32": 0x7FA00001_7FA00001,
    "signaling float64": 0x7FF40000_00000001,
    "huge": 0x7F61B1E6_7F61B1E6,
}
#: Bytes of old memory before and behind each tensor.
GUARD = 256
#: Bytes of blocks that are left in the heap: smaller than blocks that the C library returns to the system.
HEAP = [1 << k for k in range(10, 17)]
#: Flags of MXCSR: an operand was a signaling NaN or an operation has no result, an operand was subnormal, a division by zero,
#: an overflow, an underflow.
FLAGS = {1: "invalid", 2: "subnormal operand", 4: "division by zero", 8: "overflow", 16: "underflow"}
#: The environment of floating-point operations in the C library: its size, the place of MXCSR in it, and the default one.
_BYTES, _MXCSR, _DEFAULT = 64, 28, ctypes.c_void_p(-1)

_libm = ctypes.CDLL(ctypes.util.find_library("m"))
#: Whether ``flags`` can tell; on other processors only results are compared.
HAS_FLAGS = platform.machine() == "x86_64"


def clear_flags() -> None:
    """Clear this thread's flags."""
    assert _libm.fesetenv(_DEFAULT) == 0


def flags() -> set[str]:
    """The names of the flags that are set."""
    if not HAS_FLAGS:
        return set()
    environment = (ctypes.c_uint8 * _BYTES)()
    assert _libm.fegetenv(environment) == 0
    word = ctypes.c_uint32.from_buffer(environment, _MXCSR).value
    return {name for bit, name in FLAGS.items() if word & bit}


def leave_in_memory(word: int) -> None:
    """Fill memory that ``alloc`` gives next: blocks of the C library's heap that are freed again."""
    blocks = [(memory.alloc(size), size) for size in HEAP for _ in range(2)]
    for address, size in blocks:
        memory.array_int64(address, size // 8)[:] = np.uint64(word).view(np.int64)
    for address, _ in reversed(blocks):
        memory.free(address)


class GuardedMemory:
    """Bytes at an address aligned as in a storage, between guard bytes, full of old memory."""

    def __init__(self, nbytes: int, fill: int) -> None:
        words = (nbytes + 2 * GUARD + ALIGNMENT) // 8 + 1
        self.whole = np.full(words, fill, np.uint64).view(np.uint8)
        start = -self.whole.ctypes.data % ALIGNMENT + GUARD
        self.bytes = self.whole[start : start + nbytes]

    def array(self, shape: Sequence[int], dtype: str) -> np.ndarray:
        """The bytes as an array."""
        return self.bytes.view(numpy_dtype(dtype)).reshape(tuple(shape))


class Ran:
    """A kernel that ran once, as machine code, among old memory: ``results``, ``counts``, ``status`` and ``flags``."""

    def __init__(self, group: Group, inputs: Sequence[np.ndarray], fill: str) -> None:
        word, values = FILLS[fill], group.values()
        sizes = [opaque_kernel.workspace(group)] if group.workspace else []
        shapes = shape_program(group, sizes=sizes).program.run(list(inputs))
        (nbytes,) = shapes.pop() if sizes else (0,)
        given = []
        for x in inputs:
            given.append(GuardedMemory(x.nbytes, word).array(x.shape, x.dtype.name))
            given[-1][...] = x
        self.results = []
        for number, shape in zip(group.results, shapes, strict=True):
            dtype = values[number].dtype
            nbytes_of = int(np.prod(shape)) * numpy_dtype(dtype).itemsize
            self.results.append(GuardedMemory(nbytes_of, word).array(shape, dtype))
        self.counts = np.zeros(int(group.counts), np.int64)
        old = [GuardedMemory(int(nbytes), word).bytes] if sizes else []
        tensors = [*given, *self.results, *([self.counts] if group.counts else []), *old]
        call = opaque_kernels.prepared(kernel_source(group), tensors)
        leave_in_memory(word)
        clear_flags()
        self.status = call()
        self.flags = flags()
        clear_flags()

    def bits(self, wanted: Sequence[np.ndarray] | None) -> list[bytes]:
        """The bytes of the results, cut to the sizes of those wanted: behind the count of a counting kernel is old memory."""
        sizes = [len(r) if r.ndim else 0 for r in self.results]
        if wanted is not None:
            sizes = [len(w) if r.shape != w.shape else size for r, w, size in zip(self.results, wanted, sizes, strict=True)]
        return [r[:size].tobytes() if r.ndim else r.tobytes() for r, size in zip(self.results, sizes, strict=True)]
