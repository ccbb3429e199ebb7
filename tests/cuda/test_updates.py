"""Replays of a region over other sizes, addresses and grids: the nodes of its graph that differ are changed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.vm.devices.cuda.gpu_layout import MAX_VARIANTS

from ..emulator import emulator
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
