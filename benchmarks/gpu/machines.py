"""Our own machines as contestants: programs on the GPU, with arguments that are there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.vm.report.completion import finish

from .contest import Contestant

ROOT = Path(__file__).resolve().parents[2]
OURS = "relayvm"
_HEADER = '#[version = "0.0.5"]\n'
#: Counters of what would be no part of the work that is measured.
_CROSSING = ("dtoh_copies", "htod_copies", "syncs")


@dataclass(frozen=True)
class Placed:
    """A machine on the GPU, and arguments for its ``main`` that are there."""

    vm: relay.VirtualMachine
    arguments: tuple[Any, ...]

    def contestant(self) -> Contestant:
        """Calls of ``main``, whose results go at once.

        Raises RuntimeError when a call copies between host and GPU, or waits.
        """
        vm, arguments = self.vm, self.arguments
        vm.run(*arguments)
        finish(vm)
        before = vm.counters
        vm.run(*arguments)
        for name in _CROSSING:
            if crossed := vm.counters[name] - before[name]:
                raise RuntimeError(f"{crossed} {name} in a call would be part of what is measured")
        return Contestant(lambda: vm.run(*arguments), lambda: finish(vm))


def placed(text: str, arrays: Sequence[np.ndarray], **config: Any) -> Placed:
    """A machine for a program's text, and the arrays on its GPU.  The text has no function ``@put...``."""
    kinds = {put_entry(a): f"Tensor[({', '.join('?' for _ in a.shape)}), {a.dtype.name}]" for a in arrays}
    puts = "".join(f"def @{name}(%x: {kind}) {{ %x }}\n" for name, kind in kinds.items())
    vm = relay.VirtualMachine(relay.compile(relay.parse(_HEADER + puts + text), target="cuda", **config))
    tensors = tuple(vm[put_entry(a)](a) for a in arrays)
    finish(vm)
    for t in tensors:
        if t.device != vm.device:
            raise RuntimeError(f"an argument is on {t.device}, not on {vm.device}")
    return Placed(vm, tensors)


def check(vm: relay.VirtualMachine, arrays: Sequence[np.ndarray], want: np.ndarray, rtol: float, atol: float = 0.0) -> None:
    """Raises AssertionError when the machine computes something else than ``want`` from these arrays."""
    got = vm.run(*arrays).numpy()
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol)


def put_entry(array: np.ndarray) -> str:
    """The name of the function of ``placed`` that takes an array to the GPU."""
    return f"put_{array.dtype.name}_{array.ndim}"
