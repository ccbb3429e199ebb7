"""Profiles: every event counts in one row, sums of figures, equal contents of text and JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.compiler.compile import compile
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.diagnostics.source import InputError, VMError
from relayvm.vm.inspection.figures import align, bytes_text, rate_text, time_text
from relayvm.vm.report.profile_data import COPY_NAMES, CopyRow, Row
from relayvm.vm.report.profile_report import Profile
from relayvm.vm.report.profile_rows import reasons, rows
from relayvm.vm.report.profiling import Sampler, profile
from relayvm.vm.report.tables import HEADER
from relayvm.vm.runtime.tracing.trace_events import ALLOC, DTOH, HOST_CALL, HTOD, KERNEL, SHAPE_FUNC, SYNC, Event

from ...devices import DEVICES, HOST
from .profiles import example

EXE: Any = SimpleNamespace(
    packed=[SimpleNamespace(name=n, device=d) for n, d in (("exp", 1), ("fused_add_exp", 0))],
    target="sim",
    shape_func_names=["exp", "take"],
    reasons=[SimpleNamespace(text="size"), SimpleNamespace(text="data")],
)

events = st.lists(
    st.builds(
        lambda kind, pc, subject, start, length, nbytes: Event(kind, pc, subject, start, start + length, nbytes),
        st.sampled_from([KERNEL, SHAPE_FUNC, DTOH, HTOD, SYNC, ALLOC, HOST_CALL]),
        st.integers(-1, 3),
        st.integers(0, 1),
        st.integers(0, 10**12),
        st.integers(0, 10**10),
        st.integers(0, 2**40),
    ),
    max_size=12,
)


@given(events)
def test_every_event_is_in_one_row(found: list[Event]) -> None:
    activities, host = rows(found, EXE)
    both = [*activities, *host]
    assert sum(r.calls for r in both) == len(found)
    assert sum(r.total_ns for r in both) == sum(e.end_ns - e.start_ns for e in found)
    assert sum(r.nbytes for r in both) == sum(e.nbytes for e in found)
    assert {r.name for r in activities} >= set(COPY_NAMES.values()), "both copy rows are always there"
    assert {r.kind for r in activities} <= {KERNEL, DTOH, HTOD}
    assert {r.kind for r in host} <= {KERNEL, SHAPE_FUNC, SYNC, ALLOC, HOST_CALL}
    names = {r.name for part in (activities, host) for r in part if r.kind == KERNEL}
    assert names <= {"exp", "host:fused_add_exp"}, "a kernel on the host of a program for sim"
    assert "exp" not in {r.name for r in host} and "host:fused_add_exp" not in {r.name for r in activities}
    for part in (activities, host):
        assert [r.total_ns for r in part] == sorted((r.total_ns for r in part), reverse=True)
    for row in both:
        assert row.min_ns * row.calls <= row.total_ns <= row.max_ns * row.calls


@given(events)
def test_copies_by_reason_are_all_copies(found: list[Event]) -> None:
    made = reasons(found, EXE)
    for kind in COPY_NAMES:
        wanted = [e for e in found if e.kind == kind]
        mine = [c for c in made if c.kind == kind]
        assert sum(c.calls for c in mine) == len(wanted)
        assert sum(c.nbytes for c in mine) == sum(e.nbytes for e in wanted)


def test_reasons_without_an_instruction() -> None:
    made = reasons([Event(DTOH, -1, -1, 0, 1, 4), Event(HTOD, -1, -1, 0, 1, 3), Event(HTOD, 7, -1, 0, 1, 2)], EXE)
    assert made == (
        CopyRow(DTOH, "a result, read on the host", 1, 4),
        CopyRow(HTOD, "an argument", 1, 3),
        CopyRow(HTOD, "a constant", 1, 2),
    )


# ---- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0ns"), (1, "1ns"), (999, "999ns"), (1000, "1.0000us"), (12345, "12.345us"), (123456, "123.46us"),
        (999_999, "1.0000ms"), (1_000_000, "1.0000ms"), (1.5e9, "1.5000s"), (-1500, "-1.5000us"), (1e12, "1000.00s"),
    ],
)  # fmt: skip
def test_time_text(ns: float, text: str) -> None:
    assert time_text(ns) == text


@given(st.floats(0, 1e15))
def test_time_text_is_the_time(ns: float) -> None:
    text = time_text(ns)
    unit = text.lstrip("-.0123456789")
    value = float(text.removesuffix(unit)) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert value == pytest.approx(ns, rel=1e-4, abs=0.5)


def test_bytes_text() -> None:
    assert [bytes_text(n) for n in (0, 1, 12)] == ["0 bytes", "1 byte", "12 bytes"]
    assert bytes_text(64 << 20) == "67108864 bytes (64.00 MiB)"


def test_align() -> None:
    assert align([("a", "b", "c"), ("long", "x", "")], left=(2,)) == "   a  b  c\nlong  x"


def test_text_is_as_nvprof_prints_it() -> None:
    assert str(example()) == (
        "Profile: @main on sim, fuse=on\n"
        "median 2.0000us, p90 3.0000us, p99 3.0000us, min 1.0000us, max 3.0000us\n"
        "2 runs, 500000 runs/s; the table adds up all of them\n"
        "           Type  Time(%)      Time  Calls       Avg       Min       Max  Name\n"
        "sim activities:   75.00%  3.0000us      2  1.5000us  1.0000us  2.0000us  exp\n"
        "                  25.00%  1.0000us      2     500ns     400ns     600ns  [memcpy DtoH]  16 bytes\n"
        "                   0.00%       0ns      0       0ns       0ns       0ns  [memcpy HtoD]  0 bytes\n"
        "          host:  100.00%      90ns      2      45ns      40ns      50ns  shape_func:exp\n"
        "copies by reason:\n"
        "        Calls     Bytes  Reason\n"
        "  DtoH      2  16 bytes  dyn.reshape: input 'newshape' is data-dependent"
    )


def test_figures_of_the_time_of_a_run() -> None:
    many = dataclasses.replace(example(), run_ns=tuple(range(100, 0, -1)))
    assert [many.quantile_ns(part) for part in (0, 0.5, 0.9, 0.99, 1)] == [1, 50, 90, 99, 100]
    assert many.as_data()["summary"] == {
        "median_ns": 50.5, "p90_ns": 90, "p99_ns": 99, "min_ns": 1, "max_ns": 100, "runs_per_second": 1e9 / 50.5,
    }  # fmt: skip
    seldom = dataclasses.replace(example(), run_ns=(374_000,) * 99 + (20_000_000,))
    assert seldom.runs_per_second == pytest.approx(2674, abs=1), "a single long run is no other speed beside an equal median"
    assert [rate_text(n) for n in (12345.6, 12.345, 0.041234)] == ["12346 runs/s", "12.3 runs/s", "0.0412 runs/s"]


def test_on_the_host_there_are_no_rows_of_copies() -> None:
    zero = Row(HTOD, "[memcpy HtoD]")
    assert zero in example().activities and "[memcpy HtoD]" in str(example())
    assert "[memcpy HtoD]" not in str(dataclasses.replace(example(), device=HOST))


def test_per_run_and_total() -> None:
    p = example()
    assert (p.runs, p.median_ns, p.per_run("syncs"), p.per_run("no such counter")) == (2, 2000, 1, 0)
    assert p.total(DTOH) == Row(DTOH, DTOH, 2, 1000, 400, 600, 16)
    assert p.total(HTOD) == Row(HTOD, HTOD)


# ---- JSON -------------------------------------------------------------------------------------------------------------


def test_json_round_trip() -> None:
    assert Profile.from_json(example().to_json()) == example()
    empty = [f.name for f in dataclasses.fields(Profile) if not getattr(example(), f.name)]
    assert not empty, "the example has something in every field"


def test_bad_json_is_refused_by_name() -> None:
    data = json.loads(example().to_json())
    missing = {k: v for k, v in data.items() if k != "host"}
    for text, words in [
        ("{", "this is no profile"),
        ("[]", "has no schema"),
        (json.dumps(data | {"schema": 99}), "has the schema 99; this version reads 3"),
        (json.dumps(missing), "damaged: 'host'"),
        (json.dumps(data | {"host": [{"what": 1}]}), "damaged"),
        (json.dumps(data | {"timeline": [[1, 2]]}), "damaged"),
        (json.dumps(data | {"sites": [7]}), "damaged"),
    ]:
        with pytest.raises(InputError, match=words):
            Profile.from_json(text)


# ---- real runs ----------------------------------------------------------------------------------------------------------

PROGRAM = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 2), float32], %s: Tensor[(1), int64]) {
  dyn.reshape(exp(%x), %s)
}
"""


@pytest.fixture(scope="module", params=DEVICES)
def machine(request: pytest.FixtureRequest) -> Iterator[VirtualMachine]:
    yield VirtualMachine(compile(PROGRAM, target=request.param, place="off"))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_run_as_it_was(machine: VirtualMachine, n: int) -> None:
    found = machine.profile(np.ones((n, 2), "float32"), s=np.array([2 * n]), repeat=3, warmup=1)
    assert found.runs == len(found.counters) == 3
    assert (found.device, found.entry, found.config) == (machine.device, "main", machine.exe.config)
    on_device = machine.device != "cpu"
    kernels = [r for r in found.activities if r.kind == KERNEL]
    assert [(r.name, r.calls) for r in kernels] == [("exp", 3)]
    for kind, name in ((DTOH, "dtoh"), (HTOD, "htod")):
        row = found.total(kind)
        assert (row.calls, row.nbytes) == (3 * found.per_run(f"{name}_copies"), 3 * found.per_run(f"{name}_bytes"))
    # both arguments are copied to the device; a shape is copied back, their data never
    assert found.total(HTOD).calls == (6 if on_device else 0)
    assert found.total(DTOH).nbytes == (3 * 8 if on_device else 0)
    assert all(found.per_run(c) == found.counters[0][c] for c in found.counters[0]), "the runs are alike"
    assert Profile.from_json(found.to_json()) == found
    assert all(name in str(found) for name in (*HEADER, *(COPY_NAMES.values() if found.device != HOST else ())))


def test_another_entry_and_its_name() -> None:
    text = '#[version = "0.0.5"]\ndef @half(%x: float32) { %x * 0.5f }\ndef @main(%x: float32) { @half(%x) }\n'
    machine = VirtualMachine(compile(text))
    assert profile(machine, [np.float32(3)], repeat=1, entry="half").entry == "half"


def test_too_few_runs() -> None:
    machine = VirtualMachine(compile(PROGRAM))
    with pytest.raises(InputError, match="repeat is 0"):
        machine.profile(repeat=0)
    with pytest.raises(InputError, match="warmup is -1"):
        machine.profile(repeat=1, warmup=-1)
    with pytest.raises(InputError, match="at least one run"):
        Sampler(machine).profile()


@pytest.mark.parametrize("device", DEVICES)
def test_a_failure_in_the_queue_is_raised_and_the_trace_ends(device: str) -> None:
    text = '#[version = "0.0.5"]\ndef @main(%a: Tensor[(?), int32], %b: Tensor[(?), int32]) { floor_divide(%a, %b) }\n'
    machine = VirtualMachine(compile(text, target=device))
    one, zero = np.ones(3, "int32"), np.zeros(3, "int32")
    with pytest.raises(VMError, match="floor_divide: integer division by zero"):
        machine.profile(one, zero, repeat=1, warmup=0)
    sampler = Sampler(machine, [one, zero])
    with pytest.raises(VMError):
        sampler.trace()
    assert machine.stop_trace() == sampler.traces == [] or not sampler.counters
    again = machine.profile(one, one, repeat=1)
    assert again.total(KERNEL).calls == 1


def test_profiles_are_plain_data() -> None:
    data = example().as_data()
    assert json.loads(json.dumps(data)) == json.loads(example().to_json())
    assert set(data) == {"schema", "summary", *(f.name for f in dataclasses.fields(Profile))}


def test_memory_names_the_tensors_that_lay_in_it() -> None:
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(?n, 4), float32]) {
      let %rows = argwhere(greater(%x, 0f));
      let %total = sum(%x, axis=[1]);
      (%rows, %total)
    }
    """
    machine = VirtualMachine(compile(text, target="sim"))
    found = machine.profile(np.ones((3, 4), "float32"), repeat=2)
    holds = {s.holds for s in found.sites if s.kind == ALLOC}
    assert "%total float32[3]" in holds and "%greater bool[3, 4]" in holds
    assert all(h for h in holds) and not any(s.holds for s in found.sites if s.kind != ALLOC)
    assert "%total float32[3]" in found.view("memory") and Profile.from_json(found.to_json()) == found
