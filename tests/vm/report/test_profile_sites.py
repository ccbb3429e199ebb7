"""Sites of real runs, the timeline, collectors, and the kernels that the machine loaded or compiled."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from relayvm.compiler.compile import compile
from relayvm.ops.native.compiled import kernel_store
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.diagnostics.source import ArgumentError, InputError
from relayvm.vm.report.profile_report import Profile
from relayvm.vm.report.profile_rows import Trace, timeline
from relayvm.vm.report.profile_views import bulks
from relayvm.vm.runtime.tracing.trace_events import ALLOC, DTOH, HTOD, KERNEL, SHAPE_FUNC, SYNC, Event, types_text

from ...devices import DEVICES

PROGRAM = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 2), float32], %s: Tensor[(1), int64]) {
  let %e = exp(%x);
  dyn.reshape(%e, %s)
}
"""


@pytest.fixture(scope="module", params=DEVICES)
def machine(request: pytest.FixtureRequest) -> Iterator[VirtualMachine]:
    yield VirtualMachine(compile(PROGRAM, target=request.param, place="off", plan="off"))


def measured(machine: VirtualMachine, n: int = 5) -> Profile:
    return machine.profile(np.ones((n, 2), "float32"), np.array([2 * n]), repeat=3, warmup=1)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_sites_are_the_rows_by_instruction(machine: VirtualMachine, n: int) -> None:
    found = measured(machine, n)
    rows = {(r.kind, r.name): r for r in (*found.activities, *found.host) if r.calls}
    for key, row in rows.items():
        mine = [s for s in found.sites if (s.kind, s.name) == key]
        assert sum(s.calls for s in mine) == row.calls
        assert sum(s.total_ns for s in mine) == row.total_ns
        assert sum(s.nbytes for s in mine) == row.nbytes
        assert (min(s.min_ns for s in mine), max(s.max_ns for s in mine)) == (row.min_ns, row.max_ns)
    assert {(s.kind, s.name) for s in found.sites} == set(rows)


def test_a_site_says_which_instruction_of_which_line(machine: VirtualMachine) -> None:
    found = measured(machine)
    (kernel,) = [s for s in found.sites if s.kind == KERNEL]
    assert (kernel.op, kernel.function, kernel.instruction, kernel.line) == ("exp", "main", "InvokePacked", 3)
    assert (kernel.types, kernel.n_types, kernel.nbytes) == ("float32[5, 2], float32[5, 2]", 1, 3 * 2 * 40)
    (shapes,) = [s for s in found.sites if s.kind == SHAPE_FUNC and s.line == 4]
    assert shapes.types == "float32[5, 2], int64[1]"
    assert found.sources[kernel.source].line(kernel.line).strip() == "let %e = exp(%x);"
    copies = [s for s in found.sites if s.kind == DTOH]
    if machine.device == "cpu":
        assert copies == []
    else:
        assert [(s.op, s.line, s.instruction) for s in copies] == [("dyn.reshape", 4, "CopyBegin")]
        arguments = [s for s in found.sites if s.kind == HTOD]
        assert [(s.function, s.pc, s.line, s.reason) for s in arguments] == [("", -1, 0, "an argument")]


def test_different_shapes_are_counted() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%a: Tensor[(?), float32], %b: Tensor[(?), float32]) { (@f(%a), @f(%b)) }\n'
    text += "def @f(%x: Tensor[(?), float32]) -> Tensor[(?), float32] { exp(%x) }\n"
    found = VirtualMachine(compile(text)).profile(np.ones(3, "float32"), np.ones(4000, "float32"), repeat=2)
    kernels = [s for s in found.sites if s.kind == KERNEL]
    assert sum(s.calls for s in kernels) == 4
    assert all(s.n_types == 2 and s.types == "float32[4000], float32[4000]" for s in kernels if s.calls == 4)


def test_the_timeline_is_one_run(machine: VirtualMachine) -> None:
    found = measured(machine)
    kinds = [found.sites[m.site].kind for m in found.timeline]
    assert kinds.count(KERNEL) == 1 and found.timeline_dropped == 0
    assert len(found.timeline) * found.runs == sum(s.calls for s in found.sites)
    for m in found.timeline:
        assert 0 <= m.start_ns <= m.end_ns <= found.timeline_ns
        assert m.asked_start_ns <= m.asked_end_ns <= m.end_ns and m.asked_start_ns <= m.start_ns
    (kernel,) = [m for m in found.timeline if found.sites[m.site].kind == KERNEL]
    if machine.device == "cpu":
        assert (kernel.asked_start_ns, kernel.asked_end_ns) == (kernel.start_ns, kernel.end_ns)
    elif machine.device == "sim":
        (wait,) = [m for m in found.timeline if found.sites[m.site].kind == SYNC]
        assert kernel.asked_end_ns <= wait.start_ns, "it was asked for before the host waited for the shape"
        assert wait.end_ns <= kernel.start_ns, "the copy of the shape was begun before it, so nobody waited for it"


def test_a_long_timeline_is_cut_and_says_so() -> None:
    events = [Event(KERNEL, 0, 0, 10 + i, 11 + i, 0, 10 + i, 11 + i) for i in range(5)]
    moments, length, dropped = timeline([Trace(10, 30, events), Trace(0, 5, []), Trace(0, 99, [])], most=3)
    assert (len(moments), length, dropped) == (3, 20, 2), "the run of median length, from its start"
    assert [m.start_ns for m in moments] == [0, 1, 2]


def test_live_bytes_are_those_of_the_machine(machine: VirtualMachine) -> None:
    x = np.ones((100, 2), "float32")
    machine.trim()
    before = machine.memory["live_bytes"]
    machine.start_trace()
    result = machine.run(x, np.array([200]))
    events = machine.stop_trace()
    assert [e.types for e in events if e.types] == [], "types are recorded only where they are asked for"
    assert all(e.live_bytes >= before for e in events)
    assert events[-1].live_bytes <= machine.counters["peak_bytes"]
    (allocation,) = [e for e in events if e.kind == ALLOC]
    assert allocation.live_bytes >= before + 800
    del result


@pytest.mark.parametrize("types", [False, True])
def test_a_trace_of_some_kernels_records_nothing_else(types: bool) -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, ?), float32]) { sort(cumsum(sort(%x), axis=1)) }'
    machine, x = VirtualMachine(compile(text, target="cpu")), np.ones((3, 4), "float32")
    names = [p.name for p in machine.exe.packed]

    def kernels(chosen: list[str] | None) -> list[tuple[str, int]]:
        machine.start_trace(types, chosen)
        machine.run(x)
        events = machine.stop_trace()
        assert chosen is None or {e.kind for e in events} <= {KERNEL}
        assert all(bool(e.types) == types for e in events if e.kind == KERNEL)
        return [(names[e.subject], e.pc) for e in events if e.kind == KERNEL]

    every = kernels(None)
    for chosen in ([], ["cumsum"], ["sort"], ["sort", "cumsum"]):
        assert kernels(chosen) == [(name, pc) for name, pc in every if name in chosen]
    assert kernels(None) == every and {"sort", "cumsum"} <= {name for name, _ in every}
    with pytest.raises(ArgumentError, match="must be the name of a kernel of the program, not"):
        machine.start_trace(kernels=["sor"])


def test_types_as_text() -> None:
    assert types_text([("float32", (2, 0)), ("int64", ())]) == "float32[2, 0], int64"


# ---- collectors, and the store ---------------------------------------------------------------------------------------------


class Counting:
    """A collector that numbers the runs."""

    def __init__(self, name: str, log: list[str], value: object = None) -> None:
        self.name, self.log, self.value, self.runs = name, log, value, 0

    def start(self) -> None:
        self.log.append(f"+{self.name}")

    def stop(self) -> dict[str, float]:
        self.log.append(f"-{self.name}")
        self.runs += 1
        return {self.name: self.runs if self.value is None else self.value}  # type: ignore[dict-item]


def test_collectors_are_around_the_timed_runs(machine: VirtualMachine) -> None:
    log: list[str] = []
    collectors = [Counting("a", log), Counting("b", log)]
    found = machine.profile(np.ones((1, 2), "float32"), np.array([2]), repeat=2, warmup=3, collectors=collectors)
    assert found.metrics == ({"a": 1, "b": 1}, {"a": 2, "b": 2})
    assert log == ["+a", "+b", "-b", "-a"] * 2
    assert Profile.from_json(found.to_json()) == found


@pytest.mark.parametrize("value", [math.nan, math.inf, "fast"])
def test_a_collector_gives_finite_numbers(machine: VirtualMachine, value: object) -> None:
    with pytest.raises(InputError, match="a collector gave speed = "):
        machine.profile(np.ones((1, 2), "float32"), np.array([2]), repeat=1, collectors=[Counting("speed", [], value)])


def test_what_the_machine_took_from_the_store() -> None:
    exe = compile(PROGRAM)
    VirtualMachine(exe)
    before = dict(kernel_store.counters)
    uses = VirtualMachine(exe).prepared
    assert [(u.how, u.name) for u in uses] == [("memory_hits", "exp")] and uses[0].ns > 0
    assert kernel_store.counters["memory_hits"] >= before["memory_hits"] + 1 and kernel_store.counters["compiles"] == before.get(
        "compiles", 0
    )


def test_a_new_kernel_is_a_compile(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYVM_CACHE_DIR", str(tmp_path))
    text = PROGRAM.replace("exp(%x)", "exp(%x) * 0.8125f + 3.0625f")
    (use,) = VirtualMachine(compile(text)).prepared
    assert use.how == "compiles" and "exp" in use.name
    again = VirtualMachine(compile(text)).profile(np.ones((1, 2), "float32"), np.array([2]), repeat=1)
    assert [u.how for u in again.prepared] == ["memory_hits"]


def test_bulks_are_the_launches_between_waits() -> None:
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(?, ?), float32], %s: Tensor[(2), int64]) {
      let %y = exp(%x) + sum(%x);
      let %z = dyn.reshape(%y, %s + 0i64);
      sum(sqrt(%z), axis=[1])
    }"""
    vm = VirtualMachine(compile(text, target="sim", place=False, fuse=False))
    profile = vm.profile(np.ones((2, 3), np.float32), np.array([3, 2]), repeat=2)
    table = bulks(profile)
    assert [row[0] for row in table.rows] == ["0", "1"]
    assert sum(int(row[1]) for row in table.rows) == profile.counters[0]["launches"]
    assert table.rows[0][6] == "dyn.reshape: input 'newshape' is data-dependent"
    assert table.rows[1][6] == "the run is over"
