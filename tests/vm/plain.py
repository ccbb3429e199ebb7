"""A machine whose loop runs un-jitted, so that tests can look at it and change parts of it."""

from __future__ import annotations

import pytest

import relayvm as relay
from relayvm.vm import door, requests
from relayvm.vm.machine import VirtualMachine


def plain_machine(exe: relay.Executable, monkeypatch: pytest.MonkeyPatch) -> VirtualMachine:
    """A machine whose loop and memory management are ordinary Python functions."""
    monkeypatch.setattr(door, "arrays_are_readable", lambda: False)
    monkeypatch.setattr(door, "machine", lambda *, with_lock: requests.machine)
    vm = VirtualMachine(exe)
    vm._give_up = lambda at: requests.machine(vm._state, requests.RELEASE, at, 0)
    return vm
