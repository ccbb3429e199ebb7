"""A machine whose interpreter loop runs un-jitted, so that tests can observe it and replace parts of it."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

import relayvm as relay
from relayvm.ops.native import memory
from relayvm.ops.native.status import INTERNAL
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.devices import device_session
from relayvm.vm.fast_path import c_api
from relayvm.vm.machine import machine_core as vm_machine
from relayvm.vm.machine.argument_rows import rows_of
from relayvm.vm.runtime import requests
from relayvm.vm.state.state_layout import FAILED

_WORD = ctypes.c_int64
#: Objects whose addresses were passed to native code, kept alive until the process ends.
_alive: list[Any] = []


class _Plain(VirtualMachine):
    """Machine that raises Python exceptions of the un-jitted code; native code would end the process."""

    wrong: list[BaseException]
    _failure: BaseException | None = None

    def __getitem__(self, name: str) -> Any:
        entry = super().__getitem__(name)

        def run(*args: Any, **named: Any) -> Any:
            try:
                return entry(*args, **named)
            except SystemError:
                # the way out of a failed run is Python here, and loses the exception that machine code keeps
                assert self._failure is not None
                raise self._failure from None

        return run

    def _make_stack(self) -> None:
        # from the twin, so that range checks know it; the state itself is announced later
        words = self._runtime.first_words
        self._runtime.view["stack"], self._runtime.view["stack_words"] = memory.alloc(8 * words), words

    def _serve(self, what: Any) -> Any:
        try:
            if self.wrong:
                raise self.wrong.pop()
            return super()._serve(what)
        except BaseException as error:
            self._failure = error
            raise


def plain_machine(exe: relay.Executable, monkeypatch: pytest.MonkeyPatch) -> VirtualMachine:
    """A machine whose interpreter loop and memory management are Python functions."""
    wrong: list[BaseException] = []

    def machine(state: int, request: int, a: int, b: int) -> int:
        try:
            return requests.machine(state, request, a, b)
        except BaseException as error:
            wrong.append(error)
            return FAILED

    callback = ctypes.CFUNCTYPE(_WORD, _WORD, _WORD, _WORD, _WORD)(machine)
    _alive.append(callback)
    address = ctypes.cast(callback, ctypes.c_void_p).value

    def announced(*args: Any) -> Any:
        rows = rows_of(*args)
        if memory._watch is not None:
            memory._watch.add(rows.ctypes.data, rows.nbytes)
        return rows

    def handler_of(served: Any, device: str) -> int:
        def serve(*words: int) -> int:
            try:
                return int(served(*words))
            except BaseException as error:
                wrong.append(error)
                return INTERNAL

        handler = ctypes.CFUNCTYPE(_WORD, *[_WORD] * 6)(serve)
        _alive.append(handler)
        return ctypes.cast(handler, ctypes.c_void_p).value or 0

    monkeypatch.setattr(device_session, "address_of", handler_of)
    monkeypatch.setattr(vm_machine, "rows_of", announced)
    monkeypatch.setattr(c_api, "arrays_are_readable", lambda: False)
    monkeypatch.setattr(c_api, "machine_address", lambda: address)
    monkeypatch.setattr(c_api, "machine", lambda: requests.machine)
    monkeypatch.setattr(_Plain, "wrong", wrong, raising=False)
    return _Plain(exe)
