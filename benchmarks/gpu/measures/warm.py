"""A part that compiles in advance for every later part: the machine, its GPU functions, and some kernels."""

from __future__ import annotations

import time
from typing import Any

from relayvm.ops.native.compiled import kernel_store

from ..figures import Recorder
from ..scale import Scale
from .cold import start
from .models import whole_programs


def measure(record: Recorder, scale: Scale) -> None:
    """Run two whole programs once, in the cache that all parts share; the number of compiled kernels, and the time."""
    for name, run in whole_programs(scale).items():
        with record.task(name):
            began = time.perf_counter()
            _counted(record, name, run)
            record.figure(f"{name}: first run", "relayvm", "s", time.perf_counter() - began)
    with record.task("the program of the part cold"):
        start(scale.candidates)


def _counted(record: Recorder, name: str, run: Any) -> None:
    before = dict(kernel_store.counters)
    run()
    compiled = {kind: kernel_store.counters[kind] - before.get(kind, 0) for kind in ("compiles", "nvrtc_compiles")}
    record.facts(**{f"{name}: compiled": compiled})
