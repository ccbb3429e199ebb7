"""Reference cycles: they are freed, and nothing that is in use."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.native.object_layout import TAG_ADT, TAG_CLOSURE
from relayvm.ops.native.objects import adt_at
from relayvm.vm.runtime.objects import cycles, heap

from ...programs import HEADER
from .plain import plain_machine

#: A cell refers to the next one through a reference; ``@ring`` closes a chain of ``n`` cells, each with a scalar and a vector.
RINGS = """
type Cell { Cell(int32, Tensor[(100), float32], ref(Cell)), End }
def @chain(%n: int32, %x: Tensor[(100), float32], %rest: Cell) -> Cell {
  if (%n == 0) { %rest } else { @chain(%n - 1, %x, Cell(%n, %x * 2f, ref(%rest))) }
}
def @close(%at: Cell, %first: Cell) -> int32 {
  match (%at) {
    Cell(%n, _, %next) => match (ref_read(%next)) { End => { ref_write(%next, %first); %n }, %rest => @close(%rest, %first) },
    End => 0
  }
}
def @ring(%n: int32, %x: Tensor[(100), float32]) -> Cell { let %first = @chain(%n, %x, End); @close(%first, %first); %first }
def @steps(%at: Cell, %n: int32, %total: int32) -> int32 {
  match (%at) {
    Cell(%v, _, %next) => if (%n == 0) { %total } else { @steps(ref_read(%next), %n - 1, %total + %v) },
    End => 0 - 1
  }
}
def @rings(%count: int32, %n: int32, %x: Tensor[(100), float32], %kept: Cell) -> int32 {
  if (%count == 0) { @steps(%kept, %n, 0) } else { @ring(%n, %x); @rings(%count - 1, %n, %x, %kept) }
}
def @main(%count: int32, %n: int32, %x: Tensor[(100), float32]) -> int32 { @rings(%count, %n, %x, @ring(%n, %x)) }
"""
X = np.ones(100, np.float32)


@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_cycles_are_freed_while_a_program_runs_and_what_is_in_use_is_not(target: str) -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + RINGS, target=target))
    vm.run(np.int32(0), np.int32(1), X)
    vm.trim()
    before = vm.memory["live_bytes"]
    for _ in range(3):
        assert vm.run(np.int32(2_000), np.int32(10), X).numpy() == 55
        assert vm.counters["peak_bytes"] < 1 << 20, "the rings would hold 9 MB"
    vm.trim()
    assert vm.memory["live_bytes"] == before and vm.memory["live_objects"] < 20


def test_one_large_cycle_is_freed() -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + RINGS))
    assert vm.run(np.int32(1), np.int32(5_000), X).numpy() == 5_000 * 5_001 // 2
    assert vm.memory["live_objects"] > 20_000
    vm.trim()
    assert vm.memory["live_bytes"] == 0 and vm.memory["live_objects"] < 20


def test_cycles_are_freed_before_memory_is_exhausted() -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + RINGS), memory_limit_bytes=200_000)
    assert vm.run(np.int32(300), np.int32(10), X).numpy() == 55


def test_a_closed_machine_has_freed_its_cycles() -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + RINGS))
    vm.run(np.int32(1), np.int32(100), X)
    view = vm._runtime.view
    assert view["live_bytes"] > 0
    del vm
    gc.collect()
    assert (view["live_bytes"], view["pool_bytes"], view["object_chunks"]) == (0, 0, 0)


def test_a_search_of_a_graph_frees_what_no_reference_from_outside_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random graphs of records, in plain Python: the search agrees with a walk from the records that are held."""
    vm = plain_machine(relay.compile(HEADER + "def @main(%x: int32) { %x }"), monkeypatch)
    state, rng = vm._runtime.address, np.random.default_rng(0)
    before = vm.memory["live_objects"]
    for _ in range(100):
        n = int(rng.integers(1, 30))
        sizes = rng.integers(0, 5, n)
        sizes[rng.random(n) < 0.1] = 25  # fields in a block of their own
        nodes = [heap.new_record(state, [TAG_ADT, TAG_CLOSURE][i % 2], 3, int(size)) for i, size in enumerate(sizes)]
        edges: dict[int, list[int]] = {at: [] for at in nodes}
        for at in nodes:
            for k in range(adt_at(at).n_fields):
                if rng.random() < 0.4:
                    to = nodes[int(rng.integers(n))]
                    edges[at].append(to)
                    heap.store_i64(adt_at(at).fields + 8 * k, heap.retain(to))
                elif rng.random() < 0.3:
                    heap.store_i64(adt_at(at).fields + 8 * k, heap.scalar(state, k))
        held = [at for at in nodes if rng.random() < 0.2]
        for at in nodes:
            heap.retain(at)
        for at in nodes:  # all are given up at once, and only now
            adt_at(at).refcount -= 1
            if at not in held:
                adt_at(at).refcount -= 1
        reached, todo = set(held), list(held)
        while todo:
            todo += [to for to in edges[todo.pop()] if to not in reached and not reached.add(to)]
        freed = cycles.collect_cycles(state)
        assert freed == n - len(reached)
        assert all(adt_at(at).tag in (TAG_ADT, TAG_CLOSURE) and adt_at(at).constructor == 3 for at in reached)
        for at in held:
            heap.release(state, at)
        cycles.collect_cycles(state)
        assert vm.memory["live_objects"] == before


def test_without_memory_for_the_search_nothing_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    vm = plain_machine(relay.compile(HEADER + "def @main(%x: int32) { %x }"), monkeypatch)
    state = vm._runtime.address
    at = heap.new_record(state, TAG_ADT, 0, 1)
    heap.store_i64(adt_at(at).fields, at)
    with monkeypatch.context() as patched:
        patched.setattr(cycles, "alloc", lambda nbytes: 0)
        assert cycles.collect_cycles(state) == 0 and adt_at(at).tag == TAG_ADT
    assert cycles.collect_cycles(state) == 1
