"""Attributes of a virtual machine for the modules on arguments, errors and kernels in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..bytecode.executable import ExecutableData
from ..runtime.loaded_program import Tables
from ..runtime.trace_events import Event

if TYPE_CHECKING:
    from ..devices.cuda.session import Session
    from .guard import Guard


class MachineState:
    """A loaded program, its state record and its GPU session; ``MachineCore`` initialises and runs it."""

    exe: ExecutableData
    device: str
    memory_limit_bytes: int | None
    _tables: Tables
    #: The first word of each function in the code of the whole program.
    _starts: list[int]
    #: The session on the GPU; None for other devices.
    _session: Session | None
    #: The record STATE, shared with native code.
    _view: Any
    _guard: Guard
    #: Sends a request to the native machine (see ``requests``); the caller must hold the lock of the machine.
    _request: Callable[[int, int, int], int]
    _host_events: list[Event]
