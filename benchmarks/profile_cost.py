"""Cost of profiling: a call without it, with its counters read, with a trace, and with a trace that holds types.

    python benchmarks/dispatch.py --profile [--rounds 15] [--json]

counters   the same call between two readings of the counters; the loop counts always, so reading is all that it costs
trace      the same call between `vm.start_trace()` and switching it off, per event
types      as trace, with dtype and shape of every argument, as `vm.profile` does it
read       `vm.stop_trace()` in Python, per event; it happens after the run
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import relayvm as relay
from relayvm.vm.report.interleaved import Timing, measure

#: The most that reading the counters may add to a call, and recording an event, in nanoseconds.
MOST_COUNTERS, MOST_EVENT_NS = 0.10, 1000.0
CHAIN, ITERATIONS = 201, 1000


@dataclass(frozen=True)
class Cost:
    """Figures of one task: ns of a call without and with counters; ns per event to record (without and with types), to read."""

    off_ns: float
    counters_ns: float
    events: int
    trace_ns: float
    types_ns: float
    read_ns: float

    @property
    def met(self) -> bool:
        """Whether the cost is at most the goal."""
        return self.counters_ns <= (1 + MOST_COUNTERS) * self.off_ns and max(self.trace_ns, self.types_ns) <= MOST_EVENT_NS


def chain(device: str) -> Callable[[], object]:
    """A call of CHAIN operators, each a launch of its own."""
    steps = ("add(%x, 0.25f)", "multiply(%x, 0.8f)", "nn.relu(%x)")
    body = "\n".join(f"  let %x = {steps[i % len(steps)]};" for i in range(CHAIN))
    vm = _machine(f"def @main(%x: Tensor[(?), float32]) {{\n{body}\n  %x\n}}", device)
    x = np.linspace(-2, 2, 16, dtype=np.float32)
    return _caller(vm, x)


def loop() -> Callable[[], object]:
    """ITERATIONS of ``i < limit`` and ``i + 1``."""
    text = """
        def @count(%i: float32, %limit: float32) -> float32 {
          if (less(%i, %limit)) { @count(add(%i, 1f), %limit) } else { %i }
        }
        def @main(%i: float32, %limit: float32) -> float32 { @count(%i, %limit) }
    """
    return _caller(_machine(text, "cpu"), np.float32(0), np.float32(ITERATIONS))


def _machine(text: str, device: str) -> relay.VirtualMachine:
    module = relay.parse('#[version = "0.0.5"]\n' + text)
    return relay.VirtualMachine(relay.compile(module, target=device, fuse="off"))


def _caller(vm: relay.VirtualMachine, *args: np.ndarray | np.float32) -> Callable[[], object]:
    def call() -> object:
        return vm.run(*args).numpy()

    call.machine = vm  # type: ignore[attr-defined]
    return call


def cost(call: Callable[[], object], rounds: int) -> Cost:
    """The figures of one task; its variants take turns."""
    vm = call.machine  # type: ignore[attr-defined]

    def counted() -> object:
        before = vm.count()
        call()
        return before, vm.count()

    def traced(types: bool) -> Callable[[], None]:
        def run() -> None:
            vm.start_trace(types)
            call()
            vm._runtime.view["tracing"] = 0  # without reading what was recorded

        return run

    vm.start_trace(True)
    call()
    events = len(vm.stop_trace())
    # Many short samples and the least of each: differences of medians would be those of the machine's mood.
    found: dict[str, Timing] = measure(
        {"off": call, "counters": counted, "trace": traced(False), "types": traced(True), "read": vm.stop_trace},
        rounds=20 * rounds,
        sample_seconds=0.001,
    )
    ns = {name: t.min_ns for name, t in found.items()}
    return Cost(
        ns["off"],
        ns["counters"],
        events,
        (ns["trace"] - ns["off"]) / events,
        (ns["types"] - ns["off"]) / events,
        ns["read"] / events,
    )


def report(rounds: int, as_json: bool) -> None:
    """Measure all tasks and print them."""
    tasks = {"chain on cpu": chain("cpu"), "chain on sim": chain("sim"), "loop on cpu": loop()}
    costs = {name: cost(call, rounds) for name, call in tasks.items()}
    if as_json:
        print(json.dumps({name: {**vars(c), "goal_met": c.met} for name, c in costs.items()}))
        return
    print(f"{'':14}{'off, ns':>12}{'counters':>10}{'events':>8}{'trace':>14}{'types':>14}{'read':>14}")
    for name, c in costs.items():
        share = f"{100 * (c.counters_ns / c.off_ns - 1):+.1f} %"
        per_event = "".join(f"{ns:>9.0f} ns/ev" for ns in (c.trace_ns, c.types_ns, c.read_ns))
        print(f"{name:14}{c.off_ns:>12.0f}{share:>10}{c.events:>8}{per_event}")
    words = f"counters at most {100 * MOST_COUNTERS:g} %, trace at most {MOST_EVENT_NS:g} ns an event"
    print(f"goal: {words}: {'met' if all(c.met for c in costs.values()) else 'NOT met'}")
