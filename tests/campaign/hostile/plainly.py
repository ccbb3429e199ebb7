"""A run in the un-jitted loop, where every load and store is range-checked."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.native import memory
from relayvm.ops.native.threads import team
from relayvm.vm.api.executable import Executable
from tests.vm.runtime.plain import plain_machine

from .trial import Interrupted, interrupted_after

_SECONDS = 5.0


def run_plainly(exe: Executable, args: list[Any]) -> str | None:
    """The address that was touched and is nobody's, or None."""
    with pytest.MonkeyPatch.context() as patch, memory.watch() as announce:
        try:
            vm = plain_machine(exe, patch)
        except relay.RelayError:
            return None
        tables = vm._runtime.tables
        for block in (
            vm._runtime.block, tables.code, tables.functions, tables.packed, tables.shape_programs, tables.slots, tables.argv,
            team._block, tables.libraries, tables.constants, tables.reason_kinds, tables.sync_counts, tables._objects,
            *tables._rows, *tables._programs, *tables._held, *_arrays(args),
        ):  # fmt: skip
            announce(block.ctypes.data, block.nbytes)
        if vm._runtime.session is not None:
            announce(vm._runtime.session.address, vm._runtime.session.record.nbytes)
        # never closed: its memory came from the watched twin
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(vm._closer))
        wild = _noted(patch)
        # a SystemError: where a run fails, what cleans up is Python here, and loses the error that was raised
        ends = (relay.RelayError, Interrupted, memory.WildAddress, SystemError)
        with contextlib.suppress(*ends), interrupted_after(_SECONDS):
            vm.run(*args)
    return f"the loop touches memory that is not its own: {wild[0]}" if wild else None


def _noted(patch: pytest.MonkeyPatch) -> list[str]:
    """A list of the addresses outside of what was announced, filled from now on."""
    wild: list[str] = []
    check = memory._Blocks.check

    def noting(watch: Any, address: int, nbytes: int) -> None:
        try:
            check(watch, address, nbytes)
        except memory.WildAddress as error:
            wild.append(str(error))
            raise

    patch.setattr(memory._Blocks, "check", noting)
    return wild


def _arrays(args: Any) -> Iterator[np.ndarray]:
    for a in args:
        if isinstance(a, tuple):
            yield from _arrays(a)
        else:
            yield a
