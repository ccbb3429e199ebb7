"""Our own machines as contestants: programs on the card, with arguments that are there already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.vm.report.profiling import finish

from .contest import Contestant

ROOT = Path(__file__).resolve().parents[2]
OURS = "relayvm"
_HEADER = '#[version = "0.0.5"]\n'


def machine(text: str, **config: Any) -> relay.VirtualMachine:
    """A machine for a program's text on the card."""
    return relay.VirtualMachine(relay.compile(relay.parse(_HEADER + text), target="cuda", **config))


def put(vm: relay.VirtualMachine, array: np.ndarray) -> Any:
    """The array as a tensor on the card, which any machine of the card takes without a copy.

    Raises RuntimeError when it is not there: its copy would be part of what is measured.
    """
    sizes = ", ".join("?" for _ in array.shape)
    sender = machine(f"def @main(%x: Tensor[({sizes}), {array.dtype.name}]) {{ copy(%x) }}")
    held = sender.run(array)
    finish(sender)
    if held.device != vm.device:
        raise RuntimeError(f"an argument is on {held.device}, not on {vm.device}")
    return held


def contestant(vm: relay.VirtualMachine, arguments: Sequence[Any]) -> Contestant:
    """Calls of ``main``.  Raises RuntimeError when a call copies or waits for anything."""
    arguments = tuple(arguments)
    vm.run(*arguments)
    finish(vm)
    before = vm.counters
    vm.run(*arguments)
    after = vm.counters
    for name in ("dtoh_copies", "htod_copies", "syncs"):
        if after[name] != before[name]:
            raise RuntimeError(f"a call has {after[name] - before[name]} {name}: it would be part of what is measured")
    return Contestant(lambda: vm.run(*arguments), lambda: finish(vm))


def check(vm: relay.VirtualMachine, arguments: Sequence[np.ndarray], want: np.ndarray, rtol: float, atol: float = 0.0) -> None:
    """Raises AssertionError when the machine computes something else than ``want``."""
    got = vm.run(*arguments).numpy()
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol)
