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
from relayvm.vm.devices.cuda import graphs
from relayvm.vm.devices.cuda.driver import DRIVER
from relayvm.vm.devices.cuda.gpu_layout import (
    ENTRY_ARGS,
    ENTRY_FUNCTION,
    ENTRY_GRID,
    ENTRY_KIND,
    ENTRY_N_ARGS,
    ENTRY_WORDS,
    GPU,
    GRAPH,
    GRAPHS_ON,
    KERNEL_ENTRY,
    OUT_WORDS,
)
from relayvm.vm.devices.cuda.graphs import flush, forget_regions, issue_entry
from relayvm.vm.runtime.state_layout import STATE

#: A launch: function, size of the grid, arguments.
Launched = tuple[int, int, tuple[int, ...]]


class _Driver:
    """A driver that notes what the GPU would run: launches, and the launches of each graph."""

    def __init__(self) -> None:
        self.ran: list[Launched] = []
        self.captured: list[Launched] | None = None
        self.graphs: list[list[Launched]] = [[]]
        self.replays = 0
        self._functions = [self._function(name, f.n_args) for name, f in DRIVER.items()]
        self.table = np.array([ctypes.cast(f, ctypes.c_void_p).value for f in self._functions], np.int64)

    def _function(self, name: str, n_args: int) -> Any:
        do: Callable[..., object] = getattr(self, name, lambda *words: None)
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * n_args)(lambda *words: do(*words) or 0)

    def cuLaunchKernel(self, function: int, grid: int, *words: int) -> None:
        extra = (ctypes.c_int64 * 4).from_address(words[-1])
        nbytes = ctypes.c_int64.from_address(extra[3]).value
        args = tuple((ctypes.c_int64 * (nbytes // 8)).from_address(extra[1]))
        (self.ran if self.captured is None else self.captured).append((function, grid, args))

    def cuStreamBeginCapture(self, stream: int, mode: int) -> None:
        self.captured = []

    def cuStreamEndCapture(self, stream: int, out: int) -> None:
        assert self.captured is not None
        self.graphs.append(self.captured)
        self.captured = None
        ctypes.c_int64.from_address(out).value = len(self.graphs) - 1

    def cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> None:
        ctypes.c_int64.from_address(out).value = graph

    def cuGraphLaunch(self, graph: int, stream: int) -> None:
        self.ran += self.graphs[graph]
        self.replays += 1


class _Gpu:
    """A GPU's record over the driver, for machine code that is run as Python."""

    def __init__(self) -> None:
        self.driver, self.block, self.state = _Driver(), np.zeros(1, GPU), np.zeros(1, STATE)
        self.rows, self.out = np.zeros(4, GRAPH), np.zeros(OUT_WORDS, np.int64)
        for name, value in {"driver": self.driver.table, "out": self.out, "graph_rows": self.rows, "state": self.state}.items():
            self.block[name] = value.ctypes.data
        self.block["graphs"], self.block["graph_limit"] = GRAPHS_ON, len(self.rows)
        self.address = self.block.ctypes.data

    def issue(self, function: int, grid: int, args: tuple[int, ...]) -> None:
        entry = np.zeros(ENTRY_ARGS + len(args), np.int64)
        entry[[ENTRY_WORDS, ENTRY_KIND, ENTRY_FUNCTION, ENTRY_N_ARGS]] = len(entry), KERNEL_ENTRY, function, len(args)
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
    monkeypatch.setattr(graphs, "hash_words", _true_hash)  # Python's integers do not wrap


@pytest.fixture
def gpu() -> Iterator[_Gpu]:
    made = _Gpu()
    yield made
    made.close()


LAUNCHES = st.tuples(st.integers(1, 2), st.integers(1, 2), st.lists(st.integers(0, 1), max_size=2).map(tuple))
REGIONS = st.lists(st.lists(LAUNCHES, max_size=4), min_size=1, max_size=3)


@pytest.mark.parametrize("hashed", [_true_hash, lambda at, words: words], ids=["hash", "collisions"])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(REGIONS, st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.lists(LAUNCHES, max_size=2)), max_size=14))
def test_the_driver_sees_every_launch_once_and_in_order(
    hashed: Callable[[int, int], int],
    monkeypatch: pytest.MonkeyPatch,
    regions: list[list[Launched]],
    order: list[tuple[int, int, list[Launched]]],
) -> None:
    monkeypatch.setattr(graphs, "hash_words", hashed)
    gpu, wanted = _Gpu(), []
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
        others = [(function + 1, grid, args), (function, grid + 1, args), (function, grid, (*args, 0))]
        others += [(function, grid, (*args[:i], args[i] + 1, *args[i + 1 :])) for i in range(len(args))]
        for other in others:
            replays = int(gpu.state[0]["replays"])
            gpu.run([*region[:k], other, *region[k + 1 :]])
            assert gpu.driver.ran[-3:] == [*region[:k], other, *region[k + 1 :]] and gpu.state[0]["replays"] == replays
            gpu.run(region)
            assert gpu.driver.ran[-3:] == region


def test_a_region_that_is_expected_is_not_copied(gpu: _Gpu) -> None:
    region: list[Launched] = [(5, 1, (1, 2, 3)), (6, 2, (4,))]
    for _ in range(3):
        gpu.run(region)
    for launched in region:
        gpu.issue(*launched)
    assert (gpu.block[0]["n_queued"], gpu.block[0]["queue_used"]) == (2, 0)
    assert flush(gpu.address) == 0 and gpu.driver.replays == 3


def test_the_longest_region_is_replayed(gpu: _Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MAX_QUEUED", 3)
    stream: list[Launched] = [(5, k, (k,)) for k in range(1, 8)]
    for _ in range(4):
        gpu.run(stream)
    assert gpu.driver.ran == 4 * stream
    assert gpu.driver.replays == 2 * 3, "two regions of 3 launches in each run, captured in the second"
