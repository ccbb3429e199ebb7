"""The machine's own code: one object that takes as long to compile as the kernels of a program, and small built-in functions."""

from __future__ import annotations

import contextlib

from ...ops.native.cache import kernel_store
from ..diagnostics.source import ConfigError
from ..runtime.kernels import side_compilation
from . import c_api, guard, thread_count


def compile_ahead() -> None:
    """Let a companion compile the machine, if the store lacks it, while this process compiles a program.

    With one thread nothing is started.
    """
    with contextlib.suppress(ConfigError):  # a number of threads that is none: VirtualMachine reports it
        if thread_count.num_threads() > 1 and not kernel_store.is_stored(c_api.machine_key()):
            side_compilation.start_ahead([(c_api.machine_address, ())])


def obtain() -> None:
    """Load or compile the machine: what no companion compiles first."""
    guard.obtain_functions()
    side_compilation.wait_ahead()
    c_api.machine_address()
