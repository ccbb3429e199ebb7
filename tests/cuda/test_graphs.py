"""Launches that are captured as graphs and replayed, in the modes `on` and `auto` of the option `graphs`."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest

import relayvm as relay
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.devices.cuda.driver_api.driver import DRIVER
from relayvm.vm.devices.cuda.graphs.held_back import commit_entry
from relayvm.vm.devices.cuda.graphs.regions import are_equal, is_awaited
from relayvm.vm.state.gpu_layout import (
    AWAITED,
    CAPTURED,
    ENTRY_ARGS,
    ENTRY_FUNCTION,
    ENTRY_WORDS,
    GPU,
    GRAPH,
    GRAPHS_AUTO,
    MAX_TRIALS,
    MET,
    NEVER,
    OUT_WORDS,
)

from ..emulator import emulator
from .machines import CHAIN, COUNTED, DIVIDE, chain, driver, gpu, machine, new_stream  # noqa: F401  the fixture is used by every test

PRODUCT = """
def @main(%x: Tensor[(?n, 8), float32], %w: Tensor[(8, 8), float32]) {
  let %y = nn.dense(nn.relu(%x), %w);
  add(%y, %y)
}
"""

pytestmark = pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))


@pytest.mark.parametrize("graphs", ["off", "on", "auto"])
def test_a_bulk_gives_the_same_with_and_without_graphs(graphs: str) -> None:
    vm = machine(CHAIN, fuse=False, graphs=graphs)
    for n in (0, 1, 5, 9, 5, 9, 5, 9, 5):
        x = np.linspace(-1, 1, n, dtype="f")
        np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))


@pytest.mark.parametrize("schedule", [0, 3])
def test_a_scan_in_a_replayed_graph_looks_back_at_the_sums_of_this_launch(schedule: int) -> None:
    vm = machine("def @main(%x: Tensor[(?n), int32]) { cumsum(%x, axis=0) }", graphs="on")
    emulator.set("schedule", schedule)
    for k in range(1, 6):
        x = np.arange(20_000, dtype=np.int32) % (7 * k)
        np.testing.assert_array_equal(vm.run(x).numpy(), np.cumsum(x, dtype=np.int32))
    assert emulator.get("cuGraphLaunch") >= 3


def test_what_comes_again_is_captured_once_and_replayed() -> None:
    vm = machine(CHAIN, fuse=False, graphs="on")
    x = np.linspace(-1, 1, 5, dtype="f")
    for k in range(6):
        np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
        assert (vm.counters["captures"], vm.counters["replays"]) == (int(k > 0), max(0, k - 1))
    assert emulator.get("cuLaunchKernel") == 2 * 16, "once one by one, once under capture"
    assert emulator.get("cuGraphLaunch") == 5


def test_mode_auto_captures_what_comes_for_the_third_time() -> None:
    vm = machine(CHAIN, fuse=False, graphs="auto")
    assert vm._runtime.session is not None
    rows = vm._runtime.session._rows
    x, states, launches = np.linspace(-1, 1, 5, dtype="f"), [], []
    for _ in range(5):
        np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
        states.append(int(rows[0]["state"]))
        launches.append(emulator.get("cuLaunchKernel") // 16)
    assert states == [MET, AWAITED, CAPTURED, CAPTURED, CAPTURED]
    assert launches == [1, 2, 3, 3, 3], "twice one by one, then under capture"
    assert (vm.counters["captures"], vm.counters["replays"]) == (1, 2)
    first = int(rows[0]["first"])
    assert is_awaited(vm._runtime.session.address, 0, first)
    assert not is_awaited(vm._runtime.session.address, 0, first + 1)


@pytest.mark.parametrize(("state", "issued"), [(MET, 1), (NEVER, 1), (AWAITED, 0), (CAPTURED, 0)])
def test_a_launch_is_issued_at_once_unless_its_region_is_awaited(
    state: int, issued: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relayvm.vm.devices.cuda.graphs.regions.hash_words", lambda at, words: 5)  # Python's integers do not wrap
    calls: list[int] = []
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 11)(lambda *words: calls.append(words[0]) or 0)
    table = np.full(len(DRIVER), ctypes.cast(function, ctypes.c_void_p).value, np.int64)
    block, rows, out, queue = np.zeros(1, GPU), np.zeros(1, GRAPH), np.zeros(OUT_WORDS, np.int64), np.zeros(64, np.int64)
    queue[[ENTRY_WORDS, ENTRY_FUNCTION]] = ENTRY_ARGS, 7
    rows[0]["state"], rows[0]["first"] = state, 5
    for name, value in {"driver": table, "out": out, "queue": queue, "graph_rows": rows}.items():
        block[name] = value.ctypes.data
    block["graphs"], block["n_graphs"], block["queue_words"] = GRAPHS_AUTO, 1, len(queue)
    assert commit_entry(block.ctypes.data, ENTRY_ARGS) == 0
    assert calls == [7] * issued and block["queue_used"] == ENTRY_ARGS


def test_words_are_compared_one_by_one() -> None:
    for n in range(10):
        a = np.random.default_rng(n).integers(-(2**63), 2**63 - 1, n + 1)
        for changed in range(n + 1):  # the last: none of the words that are compared
            b = a.copy()
            b[changed] ^= 1 << (6 * n)
            assert are_equal(a.ctypes.data, b.ctypes.data, n) == (changed == n)


@pytest.mark.parametrize("order", [(3, 5), (3, 3, 5), (3, 5, 7)])
def test_regions_in_turn_are_replayed(order: tuple[int, ...]) -> None:
    vm = machine(CHAIN, fuse=False, graphs="on")
    for _ in range(4):
        for n in order:
            x = np.linspace(-1, 1, n, dtype="f")
            np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
    assert vm.counters["captures"] == len(set(order)), "a graph for each of a few sizes"
    assert vm.counters["replays"] == 4 * len(order) - 1 - len(set(order))
    before = vm.counters["updates"]
    for n in order:
        vm.run(np.linspace(-1, 1, n, dtype="f"))
    assert vm.counters["updates"] == before


def test_a_region_that_does_not_come_is_not_awaited_for_ever() -> None:
    vm = machine(CHAIN, fuse=False, graphs="auto")
    assert vm._runtime.session is not None
    session = vm._runtime.session
    x = np.linspace(-1, 1, 5, dtype="f")
    for _ in range(2):
        np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
    first = int(session._rows[0]["first"])
    assert [is_awaited(session.address, 0, first) for _ in range(MAX_TRIALS + 2)] == [*[True] * MAX_TRIALS, False, False]
    assert session._rows[0]["state"] == NEVER


def test_other_sizes_other_memory_and_other_values_are_never_a_replay() -> None:
    vm, rng = machine(CHAIN, fuse=False, graphs="on"), np.random.default_rng(0)
    held = []
    for n in (5, 5, 5, 6, 5, 64, 5, 6, 5):
        x = rng.standard_normal(n).astype("f")
        held.append((vm.run(x), chain(x)))  # results that are held are other memory each time
    for got, wanted in held:
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_regions_met_longest_ago_are_evicted() -> None:
    vm = machine(PRODUCT, fuse=False, graphs="on")
    assert vm._runtime.session is not None
    vm._runtime.session.record["graph_limit"] = 64
    for _ in range(2):
        for n in range(17, 96):  # the library's products of other sizes are other regions
            x = np.linspace(-1, 1, n * 8, dtype="f").reshape(n, 8)
            np.testing.assert_allclose(vm.run(x, np.eye(8, dtype="f")).numpy(), np.maximum(x, 0) * 2, rtol=1e-6)
    assert vm.counters["evictions"] == 2 * 79 - 64
    del vm
    gc.collect()
    assert emulator.get("cuGraphExecDestroy") == emulator.get("cuGraphInstantiateWithFlags")
    assert emulator.get("cuGraphDestroy") == emulator.get("cuGraphInstantiateWithFlags")


@pytest.mark.parametrize("setting", ["fail_capture", "fail_captured_launch"])
def test_where_the_gpu_cannot_capture_the_launches_go_one_by_one(setting: str) -> None:
    vm = machine(CHAIN, fuse=False, graphs="on")
    emulator.set(setting, 1)
    x = np.linspace(-1, 1, 5, dtype="f")
    for _ in range(4):
        np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
    assert (vm.counters["captures"], vm.counters["graph_failures"]) == (0, 1)


def test_a_graph_is_replayed_only_for_the_very_same_words() -> None:
    held = np.arange(5)
    assert are_equal(held.ctypes.data, held.copy().ctypes.data, 5)
    for k in range(5):
        other = held.copy()
        other[k] += 1
        assert not are_equal(held.ctypes.data, other.ctypes.data, 5)


def test_a_constant_that_is_copied_late_does_not_overtake_what_is_held_back() -> None:
    x, value = relay.var("x", (4,)), np.linspace(-2, 2, 4, dtype="f")
    summed = relay.nn.relu(relay.nn.relu(x) * relay.const(np.float32(2))) + relay.const(value)
    exe = relay.compile(relay.Function([x], summed), target="cuda", fuse=False, graphs="on")
    vm, row = VirtualMachine(exe), np.arange(4, dtype="f")
    for _ in range(3):  # the constant is copied in the first run, into memory that a launch before has read
        np.testing.assert_array_equal(vm.run(row).numpy(), row * 2 + value)


def test_what_is_held_back_is_launched_before_the_call_returns() -> None:
    vm = machine(CHAIN, fuse=False, graphs="on")
    result = vm.run(np.ones(4, "f"))
    assert emulator.get("cuLaunchKernel") == 16
    assert result.shape == (4,)
