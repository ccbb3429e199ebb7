"""Replays of a region over other sizes, addresses and grids: the nodes of its graph that differ are changed."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.state.gpu_layout import MAX_VARIANTS

from ..emulator import emulator
from ..example_programs import example_modules  # noqa: F401  a fixture
from ..programs import HEADER
from .machines import CHAIN, chain, gpu, machine  # noqa: F401  the fixture is used by every test

pytestmark = pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))

#: A product by a kernel of the package up to 16 rows, by the library beyond; a row kernel; a scan.
MIXED = """
def @main(%x: Tensor[(?n, 8), float32], %w: Tensor[(8, 8), float32]) {
  let %y = nn.dense(nn.relu(%x), %w);
  let %z = nn.softmax(add(%y, %y));
  cumsum(%z, axis=0)
}
"""
MODES = ("on", "auto")
#: A loop whose next step needs a value of the step before: each step appends an element to %x.
GROWING = """
def @main(%x: Tensor[(?n), float32], %limit: float32) -> Tensor[(?), float32] {
  let %step = fn (%x: Tensor[(?), float32]) -> Tensor[(?), float32] {
    if (sum(%x) >= %limit) { %x } else {
      let %next = max(cumsum(nn.relu(%x), axis=0), axis=[0], keepdims=True);
      %step(concatenate((%x, 1f / (%next + 1f))))
    }
  };
  %step(%x)
}
"""


def mixed(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    y = 2 * (np.maximum(x, 0).astype("d") @ w.T)
    powers = np.exp(y - y.max(axis=1, keepdims=True, initial=-np.inf))
    return np.cumsum(powers / powers.sum(axis=1, keepdims=True), axis=0)


@pytest.mark.parametrize("graphs", MODES)
@pytest.mark.parametrize("schedule", [0, 3])
def test_every_size_after_the_first_is_a_replay(graphs: str, schedule: int) -> None:
    vm = machine(CHAIN, fuse=False, graphs=graphs)
    emulator.set("schedule", schedule)
    launched = 1 if graphs == "on" else 2
    for k, n in enumerate([5, 6, 7, 1, 300, 2, 70_000, 3, 4, 5, 9], 1):
        x = np.linspace(-1, 1, n, dtype="f")
        np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
        counters = vm.counters
        assert counters["captures"] + counters["replays"] == max(0, k - launched)
    assert counters["captures"] == MAX_VARIANTS
    assert counters["updates"] == emulator.get("cuGraphExecKernelNodeSetParams") > 0
    assert emulator.get("cuLaunchKernel") == 16 * (launched + MAX_VARIANTS)
    assert counters["graph_failures"] == 0


def test_few_other_addresses_are_few_changes() -> None:
    vm = machine(CHAIN, fuse=False, graphs="on")
    held = [vm.run(np.linspace(-1, k, 9, dtype="f")) for k in range(6)]  # results that are held are other memory each time
    for k, result in enumerate(held):
        np.testing.assert_array_equal(result.numpy(), chain(np.linspace(-1, k, 9, dtype="f")))
    assert vm.counters["replays"] + vm.counters["captures"] == 5


@pytest.mark.parametrize("graphs", MODES)
def test_a_size_without_elements_has_no_launches_and_is_another_region(graphs: str) -> None:
    vm = machine(CHAIN, fuse=False, graphs=graphs)
    for n in (4, 0, 4, 0, 5, 0, 6, 0, 4):
        x = np.linspace(-1, 1, n, dtype="f")
        np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
    assert vm.counters["replays"] > 0


@pytest.mark.parametrize("graphs", MODES)
def test_regions_with_library_calls_are_replayed_for_equal_calls_only(graphs: str) -> None:
    vm, w = machine(MIXED, graphs=graphs), np.linspace(-1, 1, 64, dtype="f").reshape(8, 8)
    for n in (3, 20, 4, 20, 5, 33, 20, 6, 20, 20, 16, 17, 20):
        x = np.linspace(-2, 1, 8 * n, dtype="f").reshape(n, 8)
        np.testing.assert_allclose(vm.run(x, w).numpy(), mixed(x, w), rtol=1e-4)
    assert vm.counters["replays"] > 0 and vm.counters["graph_failures"] == 0


@pytest.mark.parametrize("graphs", MODES)
def test_where_the_driver_refuses_a_change_the_launches_go_one_by_one(graphs: str) -> None:
    vm = machine(CHAIN, fuse=False, graphs=graphs)
    emulator.set("fail_update", 3)
    for n in range(1, 12):
        x = np.linspace(-1, 1, n, dtype="f")
        np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
    assert vm.counters["graph_failures"] == 1 and vm.counters["updates"] == 2
    assert emulator.get("cuGraphExecDestroy") == emulator.get("cuGraphInstantiateWithFlags") == 1


def test_a_graph_that_still_runs_is_not_affected_by_a_change() -> None:
    vm = machine(CHAIN, fuse=False, graphs="on")
    held = []
    for n in (5, 6, 7, 8, 9, 6, 12):  # nothing waits between the calls: the emulated stream runs at the end
        x = np.linspace(-1, 1, n, dtype="f")
        held.append((vm.run(x), chain(x)))
    assert vm.counters["updates"] > 0
    for got, wanted in held:
        np.testing.assert_array_equal(got.numpy(), wanted)


SIZES = st.lists(st.sampled_from([0, 1, 2, 3, 15, 16, 17, 40, 300]), min_size=4, max_size=10)


@settings(max_examples=6, deadline=None)
@given(SIZES)
def test_any_sequence_of_sizes_gives_the_same_with_every_mode(sizes: list[int]) -> None:
    machines = [machine(MIXED, graphs=graphs) for graphs in ("off", *MODES)]
    rng = np.random.default_rng(len(sizes))
    for n in sizes:
        x, w = rng.standard_normal((n, 8)).astype("f"), rng.standard_normal((8, 8)).astype("f")
        off, *others = [vm.run(x, w).numpy() for vm in machines]
        for got in others:
            np.testing.assert_array_equal(got, off)


@pytest.mark.parametrize("graphs", MODES)
def test_each_step_of_a_loop_is_a_replay(graphs: str) -> None:
    vm, off = machine(GROWING, graphs=graphs), machine(GROWING, graphs="off")
    x = np.array([0.5, 0.25], "f")
    wanted = off.run(x, np.float32(6)).numpy()
    np.testing.assert_array_equal(vm.run(x, np.float32(6)).numpy(), wanted)
    steps = len(wanted) - len(x)
    assert steps > 12
    counters = vm.counters
    launched = 2 if graphs == "on" else 3
    assert counters["replays"] >= steps - launched - MAX_VARIANTS
    assert 0 < counters["updates"] <= 4 * steps
    assert counters["graph_failures"] == 0


@pytest.mark.extensive
def test_each_token_of_a_text_is_two_replays() -> None:
    from text_generation import arguments, compiled

    vm = VirtualMachine(compiled("cuda", graphs="auto"))
    given = arguments(["the shape of a tensor "], 8, stop=-1)
    vm.run(**given).numpy()
    before = vm.counters, emulator.get("cuLaunchKernel")
    text = vm.run(**given).numpy()
    grown = {name: value - before[0][name] for name, value in vm.counters.items()}
    assert emulator.get("cuLaunchKernel") - before[1] < 100, "of 8 tokens of 42 launches: the prompt alone"
    assert grown["replays"] >= 2 * 6 and grown["updates"] <= 20 * 8
    np.testing.assert_array_equal(VirtualMachine(compiled("cuda", graphs="off")).run(**given).numpy(), text)


ENDLESS = """
def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  let %f = fn (%y: Tensor[(4), float32]) -> Tensor[(4), float32] { %f(nn.relu(%y) * 1.5f) };
  %f(%x)
}
"""


def test_an_interrupt_leaves_no_launch_held_back() -> None:
    vm = machine(ENDLESS, graphs="on")
    emulator.set("eager", 1)
    assert vm._runtime.session is not None

    def handler(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.06)
        with pytest.raises(KeyboardInterrupt):
            vm.run(np.zeros(4, "f"))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert vm._runtime.session.record["n_queued"] == 0
    assert emulator.get("cuGraphLaunch") + emulator.get("cuLaunchKernel") > 0


def test_a_profile_has_the_graphs_of_its_untraced_runs() -> None:
    vm, x = machine(CHAIN, fuse=False, graphs="on"), np.ones(5, "f")
    vm.run(np.ones(9, "f"))
    found = vm.profile(x, repeat=3, warmup=0)
    assert [run["captures"] for run in found.counters] == [1, 0, 0] and [run["replays"] for run in found.counters] == [0, 1, 1]
    assert "\nan untraced run has 1 replays of graphs with 0 changed nodes\n" in str(found)
    assert "| updates | 0 |" in found.to_markdown()
    assert "replays of graphs" not in str(machine(CHAIN, fuse=False, graphs="off").profile(x, repeat=1))


def test_an_explanation_names_the_launches_that_are_replayed_at_any_sizes() -> None:
    text = str(relay.compile(HEADER + MIXED, target="cuda").explain())
    lines = (
        "graphs=auto: 3 of 4 kernels are replayed at any sizes",
        "at sizes that have occurred, for they may call a library:",
        "    fused_nn_dense_add in @main at ",
    )
    assert "\n".join(lines) in text
    assert "replayed" not in str(relay.compile(HEADER + MIXED, target="cuda", graphs="off").explain())


def test_the_lowest_free_block_is_used_first() -> None:
    vm = machine("def @main(%x: Tensor[(?n), float32]) { nn.relu(%x) }", graphs="off")
    x = np.ones(20, "f")

    def address(result: relay.Tensor) -> int:
        return int(result.__dlpack_device__()[0] and result.__cuda_array_interface__["data"][0])

    held = [vm.run(x) for _ in range(6)]
    addresses = [address(result) for result in held]
    for order in ((5, 0, 3, 1, 4, 2), (0, 1, 2, 3, 4, 5)):
        for k in order:
            held[k] = None  # type: ignore[call-overload]
        held = [vm.run(x) for _ in range(6)]
        assert [address(result) for result in held] == sorted(addresses)
