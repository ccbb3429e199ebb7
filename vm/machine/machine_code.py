"""The machine's own code: one object that takes as long to compile as the kernels of a program, and small built-in functions."""

from __future__ import annotations

import contextlib

from ...ops.native.blas import gemm
from ...ops.native.compiled import kernel_store
from ...ops.native.threads import team
from .. import thread_count
from ..bytecode.executable import ExecutableData
from ..diagnostics.source import ConfigError
from ..fast_path import c_api, guard
from ..runtime.kernels import side_compilation
from ..runtime.kernels.prepared import Prepared

#: The small functions, in the order in which a process obtains them.
_BUILT_IN = (*team.FUNCTIONS, *guard.FUNCTIONS, *c_api.FUNCTIONS)
#: All functions besides the machine, those for matrix products included.
_FUNCTIONS = (*_BUILT_IN, *gemm.FUNCTIONS)


def prepared(exe: ExecutableData) -> Prepared | None:
    """The rows and entries of an executable's kernels, and the entries of the machine's functions: what the cache keeps of them.

    None if a kernel has no entry, such as a kernel in Python or of a GPU.
    """
    from ..runtime.kernels.described_kernels import prepared as prepared_kernels  # operators and code generators

    kernels = prepared_kernels(exe.packed)
    if kernels is None:
        return None
    known = {kernel_store.function_name(f, signature): kernel_store.object_key(f, signature).id for f, signature in _FUNCTIONS}
    return Prepared(tuple(kernels), known | {c_api.machine_name(): c_api.machine_key().id})


def compile_ahead() -> None:
    """Let a companion compile the machine, if the store lacks it, while this process compiles a program.

    The small functions follow from the last on: this process obtains them after the kernels, from the first on.
    With one thread nothing is started.
    """
    if c_api.machine_address.cache_info().currsize:
        return
    with contextlib.suppress(ConfigError):  # a number of threads that is none: VirtualMachine reports it
        if thread_count.get_num_threads() > 1 and not kernel_store.is_stored(c_api.machine_key()):
            then = [(kernel_store.address_of, function) for function in reversed(_BUILT_IN)]
            side_compilation.start_ahead([(c_api.machine_address, ())], then)


def obtain() -> None:
    """Load or compile the machine: what no companion compiles first."""
    guard.obtain_functions()
    side_compilation.wait_ahead()
    c_api.machine_address()


def obtain_all() -> None:
    """Load or compile the machine and all functions that a program may need besides its kernels."""
    c_api.machine_address()
    for function, signature in _FUNCTIONS:
        kernel_store.address_of(function, signature)
