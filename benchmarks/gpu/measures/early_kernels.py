"""Tiny kernels that the GPU may start before the kernel in front of them has ended, against kernels in order.

In a process of its own: no figure of another part depends on the option.
"""

from __future__ import annotations

import numpy as np

from relayvm.ops.codegen.dependent_launch import FIRST_ARCHITECTURE
from relayvm.vm.devices.cuda.driver_api.device import device

from ..contest import Contestant, contest, ratio
from ..figures import NotRun, Recorder
from ..machines import check, placed
from ..scale import Scale
from .launches import SIZE, on_host, program

_UNIT = "ns per launch"
_MODES = ("off", "on")


def measure(record: Recorder, scale: Scale) -> None:
    """Host time and whole time per launch with `dependent_launch` off and on, one by one and replayed as a graph."""
    if device(0).compute_capability < FIRST_ARCHITECTURE:
        raise NotRun(f"{device(0).architecture} starts no kernel early")
    x = np.linspace(-2, 2, SIZE, dtype=np.float32)
    contestants = {_name(graphs, mode): _made(scale, x, graphs, mode) for graphs in _MODES for mode in _MODES}
    found = contest(contestants, scale.rounds, calls=scale.burst)
    for who, samples in found.items():
        record.figure("tiny kernels: host", who, _UNIT, samples.host.per(scale.chain))
        record.figure("tiny kernels: whole", who, _UNIT, samples.whole.per(scale.chain))
    for graphs in _MODES:
        off, on = (found[_name(graphs, mode)].whole_ns for mode in _MODES)
        record.figure("tiny kernels: whole", f"off / on, graphs={graphs}", "times", ratio(off, on))
    record.facts(launches_in_a_call=scale.chain, calls_in_a_burst=scale.burst)


def _name(graphs: str, mode: str) -> str:
    return f"dependent_launch={mode}, graphs={graphs}"


def _made(scale: Scale, x: np.ndarray, graphs: str, mode: str) -> Contestant:
    ready = placed(program(scale.chain), [x], fuse="off", graphs=graphs, dependent_launch=mode)
    check(ready.vm, [x], on_host(scale.chain, x), 1e-5)
    one = ready.contestant()
    for _ in range(8):  # results alternate between addresses; each is met, captured, and then replayed
        one.run()
    one.finish()
    return one
