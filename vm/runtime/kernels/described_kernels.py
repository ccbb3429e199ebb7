"""Rows, preconditions of launches and addresses of the kernels of an executable, all that the machine reads of a kernel.

All three are made from the description of the kernel in the executable, a group of operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from ....ops.analysis.preconditions import Demands, demands
from ....ops.analysis.uses import reads
from ....ops.codegen.cuda import has_kernel
from ....ops.core.implementation import GPU
from ....ops.core.op import TypeRelError
from ....ops.core.tensor_types import DTYPES
from ....ops.native.cache.cache_key import CacheKey
from ....ops.native.compiled.compile_reports import logged
from ....ops.native.gc_pause import collection_paused
from ...bytecode.executable import ExecutableData, PackedFunc
from ...bytecode.trusted import is_compiled_here
from ...diagnostics.source import ExecutableFormatError, RelayError
from .fallback import first_line, usable
from .kernel_addresses import group_key, libraries_of
from .prepared import KernelRow
from .side_compilation import companions


def demands_of(exe: ExecutableData) -> tuple[Demands, ...]:
    """The preconditions of launches of each packed function on its tensors."""
    out = []
    for i, packed in enumerate(exe.packed):
        with _described(i, packed):
            out.append(demands(packed.group, packed.machine))
    return tuple(out)


def obtained(exe: ExecutableData, processes: int) -> tuple[list[KernelRow], list[int]]:
    """The row of each packed function, and the address of its code on the host: 0 for a kernel in Python or of a GPU.

    ``processes``: the number of processes that may compile (see ``side_compilation``).
    """
    groups, own = [p.group for p in exe.packed if p.machine != GPU], is_compiled_here(exe)
    with collection_paused(), logged(), companions(groups, processes):
        found = [_made(i, p, own) if p.machine != GPU else (p, 0) for i, p in enumerate(exe.packed)]
    rows = [_row(packed, used) for packed, (used, _) in zip(exe.packed, found, strict=True)]
    return rows, [address for _, address in found]


def prepared(packed: Sequence[PackedFunc]) -> list[tuple[KernelRow, str]] | None:
    """The row and the id of the machine code of each kernel; None if some have none, such as kernels in Python or of a GPU."""
    keys = [group_key(p.group) if p.machine != GPU else None for p in packed]
    if any(key is None for key in keys):
        return None
    return [(_row(p, p), key.id) for p, key in zip(packed, keys, strict=True) if isinstance(key, CacheKey)]


def launched_on_gpu(exe: ExecutableData) -> list[int]:
    """The numbers of the packed functions that a GPU runs."""
    # a user's kernel in numpy works on copies (see ``python_kernels``)
    return [i for i, p in enumerate(exe.packed) if p.machine == GPU and has_kernel(p.group)]


def _made(number: int, packed: PackedFunc, own: bool) -> tuple[PackedFunc, int]:
    """A kernel on the host that is usable here, and its address.  ``own``: this process's compiler made the description."""
    with nullcontext() if own else _described(number, packed):
        return usable(packed)


@contextmanager
def _described(number: int, packed: PackedFunc) -> Iterator[None]:
    """Convert any error that a foreign description causes in a generator or a compiler to an ExecutableFormatError."""
    try:
        yield
    except (RelayError, MemoryError, OSError):
        raise
    except Exception as error:
        text = error.message if isinstance(error, TypeRelError) else f"{type(error).__name__}: {first_line(error)}"
        raise ExecutableFormatError(f"the executable does not verify: packed[{number}] ({packed.name}): {text}") from error


def _row(packed: PackedFunc, used: PackedFunc) -> KernelRow:
    """The row of a packed function.  ``used``: the packed function with an implementation that this machine can run."""
    group = packed.group
    values = group.values()
    tensors = [*group.params, *(values[r] for r in group.results)]
    types = [(len(t.shape), DTYPES.index(t.dtype)) for t in tensors]
    workspaces = int(group.workspace)
    types += [(1, DTYPES.index("int64"))] * (packed.n_inputs + packed.n_outputs - workspaces - len(tensors))  # the counts
    types += [(1, DTYPES.index("uint8"))] * workspaces
    devices = [packed.device if read else -1 for read in reads(group)] + [packed.device] * packed.n_outputs
    arguments = tuple((rank, dtype, device) for (rank, dtype), device in zip(types, devices, strict=True))
    libraries = () if packed.machine == GPU else libraries_of(used.group)
    return KernelRow(packed.name, packed.device, arguments, workspaces, _updated(packed), libraries)


def _updated(packed: PackedFunc) -> tuple[int, int]:
    """The positions of a parameter and of the result written over it, if only some elements are accessed; -1, -1 if none is."""
    group = packed.group
    kernel = group.kernel_on(packed.machine) if group.nodes[0].operator.kernels else None
    for param, result in group.in_place:
        if kernel is not None and kernel.updates(group.nodes[0].attrs):
            return param, len(group.params) + result
    return -1, -1
