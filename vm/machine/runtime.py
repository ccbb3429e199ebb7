"""Runtime of one loaded program: tables, the state shared with native code, requests, and the session on a device."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import thread_count
from ..bytecode.executable import ExecutableData
from ..bytecode.sync_reason import SyncReason, number_of
from ..device_table import CPU, DEVICES
from ..fast_path import c_api
from ..loading.loaded_program import Tables
from ..options import Environment, RuntimeOptions
from ..runtime.tracing.trace_events import Event
from ..state.state_layout import FRAME_WORDS, STATE

if TYPE_CHECKING:
    from ..devices.device_session import DeviceSession
    from ..fast_path.guard import Guard

_STACK_WORDS = 1 << 13
#: Number of bytes that stands for no limit; sums with it fit int64.
_NO_LIMIT = 1 << 62


class Runtime:
    """State of a machine, for the modules on calls, arguments, errors and kernels in Python.

    ``session``: the session on the device; None for the CPU.  ``block``: the record STATE, shared with native code; ``view``
    has its fields, ``address`` is its address.  ``request`` sends a request to the native machine (see ``requests``); the caller
    must hold the lock of the machine.  ``guard``: the built-in functions of the machine, which sets it.  ``host_events``: events
    of kernels in Python in a trace.  ``first_words``: the words of the initial stack, which has room for the first frame of any
    run: that frame is not checked.
    """

    guard: Guard

    def __init__(self, exe: ExecutableData, session: DeviceSession | None, tables: Tables, options: RuntimeOptions) -> None:
        self.exe, self.session, self.tables, self.options = exe, session, tables, options
        self.host_events: list[Event] = []
        self.traced_kernels: np.ndarray | None = None  # the words at the state's ``traced_kernels``
        self.block = np.zeros(1, STATE)
        self.view: Any = self.block[0]
        self.address: int = self.block.ctypes.data
        self.request: Callable[[int, int, int], int] = functools.partial(c_api.machine(), self.address)
        self.first_words = max([_STACK_WORDS, *(f.n_registers + 2 * FRAME_WORDS for f in exe.functions)])
        self._fill_state(Environment.read())

    def _fill_state(self, environment: Environment) -> None:
        state, options = self.view, self.options
        for name in (
            "code", "functions", "packed", "shape_programs", "constants", "libraries", "argv",
            "reason_kinds", "sync_counts",
        ):  # fmt: skip
            state[name] = getattr(self.tables, name).ctypes.data
        state["slots"] = self.tables.slots.ctypes.data + 8
        state["stack_limit"] = max(min(options.stack_limit_bytes, _NO_LIMIT) // 8, self.first_words)
        state["limit_bytes"] = _NO_LIMIT if options.memory_limit_bytes is None else min(options.memory_limit_bytes, _NO_LIMIT)
        state["team"] = thread_count.team()
        state["poison"] = environment.poison
        state["error_pc"] = -1
        config = self.exe.config
        if config.get("bulk") == "off" or config.get("debug_sync") == "on":
            state["wait_each"] = 1 + number_of(SyncReason.EACH_LAUNCH)


def opened(exe: ExecutableData, ordinal: int, options: RuntimeOptions) -> tuple[DeviceSession | None, Tables]:
    """The session on the executable's device (None for the CPU), and the tables of the program.

    Raises ConfigError if the device cannot be used.
    """
    session, processes = None, thread_count.get_num_threads()
    if exe.target != DEVICES[CPU]:
        session = importlib.import_module(f"...devices.{exe.target}.device", __name__).opened(exe, ordinal, options)
    return session, Tables(exe, session, processes)
