"""The law of held-back launches: whatever is compared, captured and replayed, the driver sees every launch once, in order."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relayvm.ops.native.memory import free
from relayvm.vm.devices.cuda.driver_api.driver import DRIVER
from relayvm.vm.devices.cuda.graphs import captures, entries, held_back
from relayvm.vm.devices.cuda.graphs import regions as table
from relayvm.vm.devices.cuda.graphs.held_back import flush, issue_entry
from relayvm.vm.devices.cuda.graphs.regions import forget_regions
from relayvm.vm.state.gpu_layout import (
    CONVOLUTION_ENTRY,
    ENTRY_ARGS,
    ENTRY_FUNCTION,
    ENTRY_GRID,
    ENTRY_KIND,
    ENTRY_N_ARGS,
    ENTRY_WORDS,
    GPU,
    GRAPH,
    GRAPHS_AUTO,
    GRAPHS_ON,
    KERNEL_ENTRY,
    LIBRARY_ENTRY,
    MAX_VARIANTS,
    OUT_WORDS,
    PRODUCT_ENTRY,
    VARIANT,
)
from relayvm.vm.state.state_layout import STATE

#: A launch: function, size of the grid, arguments.
Launched = tuple[int, int, tuple[int, ...]]


class _Driver:
    """A driver that notes what the GPU would run: launches, and the launches of each graph."""

    def __init__(self) -> None:
        self.ran: list[Launched] = []
        self.captured: list[Launched] | None = None
        self.graphs: list[list[Launched]] = [[]]
        self.replays = self.changes = 0
        self.refused: set[int] = set()
        self._functions = [self._function(name, f.n_args) for name, f in DRIVER.items()]
        self.table = np.array([ctypes.cast(f, ctypes.c_void_p).value for f in self._functions], np.int64)

    def _function(self, name: str, n_args: int) -> Any:
        do: Callable[..., object] = getattr(self, name, lambda *words: None)
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * n_args)(lambda *words: do(*words) or 0)

    def cuLaunchKernel(self, function: int, grid: int, *words: int) -> None:
        (self.ran if self.captured is None else self.captured).append((function, grid, _arguments(words[-1])))

    def cuStreamBeginCapture(self, stream: int, mode: int) -> None:
        self.captured = []

    def cuStreamEndCapture(self, stream: int, out: int) -> None:
        assert self.captured is not None
        self.graphs.append(self.captured)
        self.captured = None
        ctypes.c_int64.from_address(out).value = len(self.graphs) - 1

    def cuStreamGetCaptureInfo(self, stream: int, status: int, number: int, graph: int, nodes: int, n_nodes: int) -> None:
        assert self.captured
        self._node = np.array([len(self.captured)], np.int64)
        ctypes.c_int64.from_address(nodes).value, ctypes.c_int64.from_address(n_nodes).value = self._node.ctypes.data, 1

    def cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> None:
        ctypes.c_int64.from_address(out).value = graph

    def cuGraphExecKernelNodeSetParams(self, graph: int, node: int, params: int) -> int:
        if graph in self.refused:
            return 1
        function, sizes, _, _, _, _, extra, _, _ = np.ctypeslib.as_array((ctypes.c_int64 * 9).from_address(params)).tolist()
        self.graphs[graph][node - 1] = function, sizes & 0xFFFFFFFF, _arguments(extra)
        self.changes += 1
        return 0

    def cuGraphLaunch(self, graph: int, stream: int) -> None:
        self.ran += self.graphs[graph]
        self.replays += 1


def _arguments(extra: int) -> tuple[int, ...]:
    """The words that options of a launch point at."""
    options = (ctypes.c_int64 * 4).from_address(extra)
    return tuple((ctypes.c_int64 * (ctypes.c_int64.from_address(options[3]).value // 8)).from_address(options[1]))


def _options(args: tuple[int, ...]) -> int:
    """Options of a launch with these words of arguments, which stay alive."""
    words, size = np.array(args, np.int64), np.array([8 * len(args)], np.int64)
    options = np.array([1, words.ctypes.data, 2, size.ctypes.data, 0], np.int64)
    _kept.extend((words, size, options))
    return options.ctypes.data


_kept: list[np.ndarray] = []


class _Gpu:
    """A GPU's record over the driver, for machine code that is run as Python."""

    def __init__(self) -> None:
        self.driver, self.block, self.state = _Driver(), np.zeros(1, GPU), np.zeros(1, STATE)
        self.rows, self.variants = np.zeros(4, GRAPH), np.zeros(4 * MAX_VARIANTS, VARIANT)
        self.out = np.zeros(OUT_WORDS, np.int64)
        for name, value in {"driver": self.driver.table, "out": self.out, "graph_rows": self.rows, "state": self.state}.items():
            self.block[name] = value.ctypes.data
        self.block["variants"] = self.variants.ctypes.data
        self.block["graphs"], self.block["graph_limit"] = GRAPHS_ON, len(self.rows)
        self.address = self.block.ctypes.data

    def issue(self, function: int, grid: int, args: tuple[int, ...], kind: int = KERNEL_ENTRY) -> None:
        entry = np.zeros(ENTRY_ARGS + len(args), np.int64)
        entry[[ENTRY_WORDS, ENTRY_KIND, ENTRY_FUNCTION, ENTRY_N_ARGS]] = len(entry), kind, function, len(args)
        entry[ENTRY_GRID], entry[ENTRY_ARGS:] = grid, args
        assert issue_entry(self.address, entry.ctypes.data) == 0

    def run(self, region: list[Launched]) -> None:
        for launched in region:
            self.issue(*launched)
        assert flush(self.address) == 0

    def close(self) -> None:
        forget_regions(self.address)
        free(int(self.block[0]["queue"]))


def _true_hash(at: int, words: int) -> int:
    digest = hashlib.blake2b(ctypes.string_at(at, 8 * words), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


@pytest.fixture(autouse=True)
def _hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "hash_words", _true_hash)  # Python's integers do not wrap


@pytest.fixture
def gpu() -> Iterator[_Gpu]:
    made = _Gpu()
    yield made
    made.close()


LAUNCHES = st.tuples(st.integers(1, 2), st.integers(1, 2), st.lists(st.integers(0, 1), max_size=2).map(tuple))
REGIONS = st.lists(st.lists(LAUNCHES, max_size=4), min_size=1, max_size=3)


@pytest.mark.parametrize("mode", [GRAPHS_ON, GRAPHS_AUTO])
@pytest.mark.parametrize("hashed", [_true_hash, lambda at, words: words], ids=["hash", "collisions"])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    REGIONS,
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.lists(LAUNCHES, max_size=2)), max_size=14),
    st.sets(st.integers(1, 4)),
)
def test_the_driver_sees_every_launch_once_and_in_order(
    mode: int,
    hashed: Callable[[int, int], int],
    monkeypatch: pytest.MonkeyPatch,
    regions: list[list[Launched]],
    order: list[tuple[int, int, list[Launched]]],
    refused: set[int],
) -> None:
    monkeypatch.setattr(table, "hash_words", hashed)
    gpu, wanted = _Gpu(), []
    gpu.block["graphs"], gpu.driver.refused = mode, refused
    # regions in turn, so that they are captured; then beginnings of them, which go on in other ways
    for which, first, rest in [*[(k % 3, 4, []) for k in range(9)], *order]:
        region = regions[which % len(regions)][:first] + rest
        gpu.run(region)
        wanted += region
        assert gpu.driver.ran == wanted
    assert gpu.driver.replays == int(gpu.state[0]["replays"]) + int(gpu.state[0]["captures"])
    gpu.close()


def test_each_changed_word_is_noticed(gpu: _Gpu) -> None:
    region: list[Launched] = [(5, 1, (1, 2, 3)), (6, 2, (4,)), (7, 3, ())]
    for _ in range(3):
        gpu.run(region)
    assert (gpu.state[0]["captures"], gpu.state[0]["replays"]) == (1, 1)
    for k, (function, grid, args) in enumerate(region):
        others = [(function + 1, grid, args), (function, grid, (*args, 0)), (function, grid + 1, args)]
        others += [(function, grid, (*args[:i], args[i] + 1, *args[i + 1 :])) for i in range(len(args))]
        for number, other in enumerate(others):
            replays, changes = int(gpu.state[0]["replays"]), gpu.driver.changes
            gpu.run([*region[:k], other, *region[k + 1 :]])
            assert gpu.driver.ran[-3:] == [*region[:k], other, *region[k + 1 :]]
            is_same_graph = number >= 2  # another grid, or another argument
            assert gpu.state[0]["replays"] == replays + is_same_graph or gpu.state[0]["captures"] > 1
            gpu.run(region)
            assert gpu.driver.ran[-3:] == region
            if gpu.state[0]["captures"] == 1:
                assert gpu.driver.changes == changes + 2 * is_same_graph == gpu.state[0]["updates"]


def test_a_region_that_is_expected_is_not_copied(gpu: _Gpu) -> None:
    region: list[Launched] = [(5, 1, (1, 2, 3)), (6, 2, (4,))]
    for _ in range(3):
        gpu.run(region)
    for launched in region:
        gpu.issue(*launched)
    assert (gpu.block[0]["n_queued"], gpu.block[0]["queue_used"]) == (2, 0)
    assert flush(gpu.address) == 0 and gpu.driver.replays == 3


def test_the_longest_region_is_replayed(gpu: _Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_back, "MAX_QUEUED", 3)
    stream: list[Launched] = [(5, k, (k,)) for k in range(1, 8)]
    for _ in range(4):
        gpu.run(stream)
    assert gpu.driver.ran == 4 * stream
    assert gpu.driver.replays == 2 * 4 - 1, "two regions of 3 launches in each run, which have the same key"


# ---- changes of nodes --------------------------------------------------------------------------------------------------------


def _sized(*sizes: int) -> list[Launched]:
    """A region of three kernels over the sizes."""
    return [(5, 1, (sizes[0], 9)), (6, 2, (sizes[1],)), (7, 1, (sizes[2], 8))]


def test_only_the_nodes_that_differ_are_changed(gpu: _Gpu) -> None:
    region, far = [(k, 1, (k,)) for k in range(1, 13)], [(k, 1, (k + 50,)) for k in range(1, 13)]
    for _ in range(3):
        gpu.run(region)
    for k in range(3):  # few: always changed
        gpu.run([*region[:4], (5, 1, (20 + k,)), *region[5:]])
        assert gpu.driver.ran[-8] == (5, 1, (20 + k,))
        assert (gpu.driver.changes, gpu.state[0]["captures"]) == (k + 1, 1)
    gpu.run(far)
    assert (gpu.driver.changes, gpu.state[0]["captures"]) == (15, 1)
    gpu.run(region)  # a second time: one more graph
    for each in (far, region, far, region):
        gpu.run(each)
        assert gpu.driver.ran[-12:] == each
    assert (gpu.driver.changes, gpu.state[0]["captures"]) == (15, 2)


def test_graphs_of_a_region_are_bounded(gpu: _Gpu) -> None:
    wanted = []
    for k in range(30):
        region = _sized(k, k + 1, k + 2)
        gpu.run(region)
        wanted += region
    assert gpu.driver.ran == wanted
    assert gpu.state[0]["captures"] == MAX_VARIANTS and gpu.state[0]["replays"] == 30 - 1 - MAX_VARIANTS
    assert gpu.driver.changes == gpu.state[0]["updates"] == 3 * gpu.state[0]["replays"]


@pytest.mark.parametrize("kind", [LIBRARY_ENTRY, PRODUCT_ENTRY, CONVOLUTION_ENTRY])
def test_library_calls_with_other_words_are_another_region(gpu: _Gpu, kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, ...]] = []

    def launch(address: int, at: int) -> int:
        words = [ctypes.c_int64.from_address(at + 8 * k).value for k in range(ENTRY_ARGS + 1)]
        gpu.driver.cuLaunchKernel(words[ENTRY_FUNCTION], *[0] * 9, _options((words[ENTRY_ARGS],)))
        calls.append(tuple(words))
        return 0

    monkeypatch.setattr(entries, "launch_entry", launch)
    monkeypatch.setattr(captures, "launch_entry", launch)

    def run(size: int, called: int) -> None:
        gpu.issue(5, 0, (size,))
        gpu.issue(6, 0, (called,), kind)
        assert flush(gpu.address) == 0
        assert gpu.driver.ran[-2:] == [(5, 0, (size,)), (6, 0, (called,))]

    for _ in range(3):
        run(1, 7)
    assert (gpu.driver.replays, gpu.driver.changes) == (2, 0)
    run(2, 7)  # the kernel in front has another size: changed
    assert (gpu.driver.replays, gpu.driver.changes, len(calls)) == (3, 1, 4)
    run(2, 8)
    assert (gpu.driver.replays, gpu.driver.changes, len(calls)) == (3, 1, 6), "the call has another argument: launched"


def test_where_the_driver_refuses_a_change_the_region_is_launched_from_then_on(gpu: _Gpu) -> None:
    for k in range(2):
        gpu.run(_sized(1, 2, k))
    assert gpu.state[0]["captures"] == 1
    gpu.driver.refused = {1}
    for k in range(2, 6):
        gpu.run(_sized(1, 2, k))
        assert gpu.driver.ran[-3:] == _sized(1, 2, k)
    assert (gpu.state[0]["graph_failures"], gpu.state[0]["replays"], gpu.driver.replays) == (1, 0, 1)


def test_changes_that_take_longer_than_launches_are_not_made(gpu: _Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_back, "LAUNCH_NS", 1)
    for k in range(6):
        gpu.run(_sized(1, 2, k))
        assert gpu.driver.ran[-3:] == _sized(1, 2, k)
    assert (gpu.state[0]["captures"], gpu.driver.changes) == (3, 0)
