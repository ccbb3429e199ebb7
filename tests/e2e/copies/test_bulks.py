"""Launches follow one another without a wait: the host waits where it reads device data, once each, and for the results."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.inputs.given_inputs import make_inputs
from relayvm.compiler.load_program import function_of
from relayvm.ops.core.copy_reason import CopyKind
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.bytecode import isa
from relayvm.vm.bytecode.sync_reason import SyncReason
from relayvm.vm.devices.sim import simulated_device
from relayvm.vm.runtime import stream
from relayvm.vm.runtime.tracing.trace_events import DTOH

from ...compiler.device_placement.transfer_programs import drawn_programs, flat, modes, sizes
from ...devices import HOST, TARGETS
from ...example_programs import PROGRAMS, inputs_of
from ...programs import HEADER
from ...vm.runtime.plain import plain_machine


def check_waits(exe: relay.Executable, args: list[Any]) -> int:
    """``syncs == host reads of device data + 1``, where the 1 is for results on the device; the number of reads."""
    vm = VirtualMachine(exe)
    vm.start_trace()
    try:
        results = flat(vm.run(*args))
    except relay.VMError:
        results = []
    on_device = [r for r in results if r.device != HOST]
    for r in results:
        r.numpy()
    reads = [e for e in vm.stop_trace() if e.kind == DTOH and e.pc >= 0]
    reasons = [exe.reasons[e.subject].kind.key for e in reads]
    assert vm.counters["syncs"] == len(reads) + bool(on_device)
    assert vm.sync_reasons == {
        **{kind.key: reasons.count(kind.key) for kind in CopyKind if kind.key in reasons},
        **({SyncReason.FETCH.key: 1} if on_device else {}),
    }
    return len(reads)


@pytest.mark.thinned(3)
@pytest.mark.split(2)
@pytest.mark.parametrize(("mode", "place"), [("input", "on"), ("op", "off")])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
@pytest.mark.extensive(mode=["input"], place=["on"], target=["sim"])
@pytest.mark.spread("mode", "place", "target")
def test_every_example_waits_only_where_it_reads(path: Path, target: str, mode: str, place: str) -> None:
    exe = relay.compile(path, target, data_dependence=mode, place=place)
    check_waits(exe, make_inputs(function_of(exe, "main"), inputs_of(path)))


@settings(max_examples=500)
@given(drawn_programs(), st.tuples(sizes, sizes), st.tuples(sizes, sizes), modes)
def test_generated_programs_wait_only_where_they_read(
    drawn: tuple[str, bool], size: tuple[int, int], tile: tuple[int, int], mode: dict[str, str]
) -> None:
    exe = relay.compile(HEADER + drawn[0], "sim", fuse="off", **mode)
    vectors = [np.array(tile, np.int64), np.array([1, -1], np.int64)]
    check_waits(exe, [np.ones(size, np.float32), np.zeros(size, np.float32), *vectors])


# ---- the host waits for its value, not for the whole queue --------------------------------------------------------------

EARLY = """def @main(%x: Tensor[(?n), float32], %s: Tensor[(1), int64]) {
  let %t = %s + 1i64;
  let %a = exp(%x);
  let %b = sqrt(%a);
  dyn.strided_slice(%b, %t, %s, %s)
}
"""


def early(bulk: str) -> relay.Executable:
    return relay.compile(HEADER + EARLY, "sim", fuse="off", place="off", bulk=bulk)


def test_a_copy_begins_behind_its_producer_and_waits_for_nothing_else() -> None:
    vm = VirtualMachine(early("on"))
    vm.start_trace()
    result = vm.run(np.arange(6, dtype="f"), np.array([1], np.int64))
    queued = int(vm._runtime.session.record["queue_used"]) - int(vm._runtime.session.record["queue_head"])
    result.numpy()
    events = vm.stop_trace()
    names = [vm.exe.packed[e.subject].name for e in sorted((e for e in events if e.kind == "kernel"), key=lambda e: e.start_ns)]
    first_read = min(e.end_ns for e in events if e.kind == DTOH)
    ran_before = [e for e in events if e.kind == "kernel" and e.end_ns <= first_read]
    assert [vm.exe.packed[e.subject].name for e in ran_before] == ["add"], "the others are still queued when the host goes on"
    assert queued > 0 and names[0] == "add" and set(names) == {"add", "exp", "sqrt", "dyn_strided_slice"}


def test_with_bulk_off_the_machine_waits_after_each_launch() -> None:
    vm = VirtualMachine(early("off"))
    vm.run(np.arange(6, dtype="f"), np.array([1], np.int64)).numpy()
    launches = vm.counters["launches"]
    assert launches == 4 and vm.sync_reasons["each_launch"] == launches


# ---- a wait that is missing or comes too early is a wrong answer -----------------------------------------------------------


def wrong(monkeypatch: pytest.MonkeyPatch, plant: Any) -> bool:
    """Whether the change by ``plant`` changes the result of a run (or causes an error)."""
    exe, args = early("on"), (np.arange(1, 7, dtype="f"), np.array([1], np.int64))
    vm = plain_machine(exe, monkeypatch)
    right = vm.run(*args).numpy().copy()
    plant()
    try:
        # twice: what the first run left in the memory must not pass for the second run's result
        return any(not np.array_equal(vm.run(*args).numpy(), right) for _ in range(2))
    except relay.VMError:
        return True


def test_nothing_planted_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not wrong(monkeypatch, lambda: None)


def test_a_missing_wait_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong(monkeypatch, lambda: monkeypatch.setattr(stream, "wait_until", lambda state, ticket: 0))


def test_a_wait_for_too_little_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    end = simulated_device.end_of_queue
    # the place before the last thing queued, which makes the value that is read
    assert wrong(
        monkeypatch,
        lambda: monkeypatch.setattr(simulated_device, "end_of_queue", lambda record: end(record) - 1 - simulated_device._HEAD),
    )


def test_a_copy_begun_before_its_producer_is_noticed() -> None:
    """The mutation of the pass instead of the machine: CopyBegin stands one launch too early."""
    exe = early("on")
    (main,) = exe.functions
    items = [i for _, i in isa.disassemble(main.code)]
    launch = next(k for k, i in enumerate(items) if isinstance(i, isa.InvokePacked))
    begin = next(k for k, i in enumerate(items) if k > launch and isinstance(i, isa.CopyBegin))
    items.insert(launch, items.pop(begin))
    code, _ = isa.assemble(items)
    broken = dataclasses.replace(exe, functions=(dataclasses.replace(main, code=code, spans=()),))
    args = (np.arange(1, 7, dtype="f"), np.array([1], np.int64))
    right = VirtualMachine(exe).run(*args).numpy()
    try:
        assert not np.array_equal(VirtualMachine(broken).run(*args).numpy(), right)
    except relay.VMError as error:
        assert "strided_slice" in str(error)
