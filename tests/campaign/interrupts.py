"""Interrupts, threads, kills and limits: after any event at any time, a machine gives correct results and holds no memory."""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import relayvm as relay

from ..programs import HEADER
from .part import Part

X = np.linspace(0, 1, 48, dtype=np.float32)
_PLAIN = "def @main(%x: Tensor[(?n), float32]) { exp(%x) + %x }"
_TUPLES = "def @main(%p: (Tensor[(?n), float32], int64)) { (exp(%p.0) + %p.0, (%p.1, %p.0)) }"
_LOOP = """def @f(%i: int64, %x: Tensor[(?n), float32]) -> Tensor[(?n), float32] {
  if (%i <= 0i64) { exp(%x) + %x } else { @f(%i - 1i64, %x) }
}
def @main(%x: Tensor[(?n), float32]) { @f(3000i64, %x) }"""
#: How arguments are passed: the program, and the argument.
FORMS: dict[str, tuple[str, Callable[[], Any]]] = {
    "array": (_PLAIN, lambda: X),
    "list": (_PLAIN, X.tolist),
    "strided": (_PLAIN, lambda: np.repeat(X, 2)[::2]),
    "tuple": (_TUPLES, lambda: (X, 3)),
    "list in a tuple": (_TUPLES, lambda: [X.tolist(), 3]),
    "long run": (_LOOP, lambda: X),
}
_BURST = 20


@dataclass(frozen=True)
class Case:
    """``what`` happens to a machine on ``target``, called with an argument of ``form``; moments are drawn from ``seed``."""

    what: str
    form: str
    target: str
    seed: int


@functools.cache
def _executable(text: str, target: str) -> relay.Executable:
    return relay.compile(HEADER + text, target=target)


def _call(vm: relay.VirtualMachine, value: Any) -> np.ndarray:
    result = vm.run(value)
    return (result[0] if isinstance(result, tuple) else result).numpy().copy()


def _is_right(got: np.ndarray) -> bool:
    return np.allclose(got, np.exp(X) + X, rtol=1e-5)


class Interrupts(Part[Case]):
    """Bursts of interrupts, storms of threads, memory limits, and a process that is killed."""

    name, unit, slice_trials, hang_seconds = "interrupts", "storms", 10, 60.0

    def draw(self, seed: int) -> Case:
        """A storm: most are of interrupts."""
        r = random.Random(seed)
        what = r.choice(["interrupts"] * 6 + ["threads", "memory", "trace", *(["kill"] if r.random() < 0.2 else [])])
        return Case(what, r.choice(list(FORMS)), r.choice(["cpu", "sim"]), seed)

    def check(self, case: Case) -> str | None:
        """The storm, then a call whose result must be right, and nothing that stays."""
        text, make = FORMS[case.form]
        vm = relay.VirtualMachine(_executable(text, case.target))
        _call(vm, make())
        held = vm.memory["live_bytes"]
        found = {
            "interrupts": self._interrupts, "threads": self._threads, "memory": self._memory, "trace": self._interrupts,
            "kill": self._kill,
        }[case.what](case, vm, make)  # fmt: skip
        if found is not None:
            return found
        if case.what == "trace":
            vm.stop_trace()
        if not _is_right(_call(vm, make())):
            return "the call afterwards is wrong"
        if vm.memory["live_bytes"] != held:
            return f"{vm.memory['live_bytes'] - held} bytes are held"
        vm.trim()
        kept = vm.memory["live_objects"]
        fresh = relay.VirtualMachine(vm.exe)
        _call(fresh, make())
        fresh.trim()
        return None if kept == fresh.memory["live_objects"] else f"{kept - fresh.memory['live_objects']} objects are held"

    def _interrupts(self, case: Case, vm: relay.VirtualMachine, make: Callable[[], Any]) -> str | None:
        r = random.Random(case.seed)

        def handler(number: int, frame: Any) -> None:
            self.seen["interrupts"] += 1
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, handler)
        try:
            for _ in range(_BURST):
                value = make()
                try:
                    signal.setitimer(signal.ITIMER_REAL, r.uniform(1e-6, 300e-6))
                    for i in range(100_000):
                        if case.what == "trace" and i % 4 == 0:
                            vm.start_trace(types=True)
                        if not _is_right(_call(vm, value)):
                            return "a wrong result"
                    return "an interrupt was swallowed"
                except KeyboardInterrupt:
                    pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return None

    def _threads(self, case: Case, vm: relay.VirtualMachine, make: Callable[[], Any]) -> str | None:
        wrong: list[str] = []

        def work(seed: int) -> None:
            r = random.Random(seed)
            kept: list[Any] = []
            for _ in range(150):
                try:
                    kept.append(vm.run(make()))
                    if r.random() < 0.3:
                        kept.clear()  # while another thread may be in the machine
                    if r.random() < 0.1:
                        vm.trim()
                    if not _is_right(_call(vm, make())):
                        wrong.append("a wrong result")
                except relay.VMError as error:
                    self.seen["refused"] += 1
                    if "is running in another thread" not in str(error):
                        wrong.append(str(error))
                except BaseException as error:
                    wrong.append(repr(error))

        threads = [threading.Thread(target=work, args=(case.seed + i,)) for i in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return wrong[0] if wrong else None

    def _memory(self, case: Case, vm: relay.VirtualMachine, make: Callable[[], Any]) -> str | None:
        r = random.Random(case.seed)
        for _ in range(20):
            small = relay.VirtualMachine(vm.exe, memory_limit_bytes=r.randrange(2000))
            kept: list[Any] = []
            for _ in range(12):
                try:
                    kept.append(small.run(make()))
                    self.seen["ran within a limit"] += 1
                except relay.VMError as error:
                    self.seen["ran into a limit"] += 1
                    if "out of memory" not in str(error):
                        return str(error)
            if small.memory["pool_bytes"] > small.memory_limit_bytes:
                return "more than the limit"
        return None

    def _kill(self, case: Case, vm: relay.VirtualMachine, make: Callable[[], Any]) -> str | None:
        """A process that runs the program is killed; its cache, which is ours, must be whole."""
        child = multiprocessing.get_context("spawn").Process(target=_run_for_ever, args=(case,), daemon=True)
        child.start()
        time.sleep(random.Random(case.seed).uniform(0.2, 3))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        self.seen["kills"] += 1
        return None

    def smaller(self, case: Case) -> Iterator[Case]:
        """On the host, and with plain arrays."""
        for change in ({"target": "cpu"}, {"form": "array"}):
            if replace(case, **change) != case:  # type: ignore[arg-type]
                yield replace(case, **change)  # type: ignore[arg-type]

    def write(self, case: Case) -> str:
        """The storm again."""
        return f"from tests.campaign.interrupts import PART, Case\n\nassert PART.check({case!r}) is None"


def _run_for_ever(case: Case) -> None:
    text, make = FORMS[case.form]
    while True:
        vm = relay.VirtualMachine(relay.compile(HEADER + text, target=case.target))
        for _ in range(50):
            _call(vm, make())


PART = Interrupts()
