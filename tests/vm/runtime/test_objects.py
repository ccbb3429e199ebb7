"""Memory of objects: their sizes, their chunks, and what a machine returns of it."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.native.memory import tensor
from relayvm.ops.native.object_layout import TAG_ADT, TAG_STORAGE
from relayvm.vm.device_table import CPU
from relayvm.vm.options import POISON_VARIABLE
from relayvm.vm.runtime.objects import chunks, heap

from ...programs import HEADER
from .plain import plain_machine

LISTS = """
type List { Cons(int32, List), Nil }
def @build(%n: int32, %l: List) -> List { if (%n == 0) { %l } else { @build(%n - 1, Cons(%n, %l)) } }
def @total(%l: List, %a: int32) -> int32 { match (%l) { Cons(%x, %t) => @total(%t, %a + %x), Nil => %a } }
def @main(%n: int32) -> int32 { @total(@build(%n, Nil), 0) }
def @list(%n: int32) -> List { @build(%n, Nil) }
"""


@pytest.fixture(params=["0", "1"], ids=["plain", "poisoned"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> relay.VirtualMachine:
    monkeypatch.setenv(POISON_VARIABLE, request.param)
    return relay.VirtualMachine(relay.compile(HEADER + LISTS))


def chunks_of(machine: relay.VirtualMachine) -> list[tuple[int, int]]:
    """The size and the number of objects of each chunk."""
    found, at = [], int(machine._runtime.view["object_chunks"])
    while at:
        found.append((int(chunks.chunk_at(at).size), int(chunks.chunk_at(at).capacity)))
        at = int(chunks.chunk_at(at).next)
    return found


def test_a_long_list_returns_its_memory(machine: relay.VirtualMachine) -> None:
    machine.run(np.int32(10))
    machine.trim()
    before = machine.memory, chunks_of(machine)
    assert machine.run(np.int32(20_000)).numpy() == 20_000 * 20_001 // 2
    assert sum(count for _, count in chunks_of(machine)) >= 60_000
    machine.trim()
    assert (machine.memory, chunks_of(machine)) == before
    assert machine.run(np.int32(1_000)).numpy() == 1_000 * 1_001 // 2


def test_a_chunk_with_a_live_object_stays(machine: relay.VirtualMachine) -> None:
    kept = machine["list"](np.int32(3))
    machine.run(np.int32(2_000))
    machine.trim()
    assert [int(cell[0].numpy()) for cell in (kept, kept[1], kept[1][1])] == [1, 2, 3]
    again = machine["list"](np.int32(2_000))
    machine.trim()
    total = 0
    while again.constructor == "Cons":
        total, again = total + int(again[0].numpy()), again[1]
    assert total == 2_000 * 2_001 // 2
    assert [int(cell[0].numpy()) for cell in (kept, kept[1], kept[1][1])] == [1, 2, 3]


@pytest.mark.parametrize("poison", ["0", "1"])
def test_an_object_has_the_lines_that_its_kind_needs(poison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POISON_VARIABLE, poison)
    vm = plain_machine(relay.compile(HEADER + LISTS), monkeypatch)
    state, free = vm._runtime.address, vm._runtime.view["free_objects"]
    made = []
    for fields, size in ((0, 0), (3, 0), (4, 1), (11, 1), (12, 2), (19, 2), (20, 2), (300, 2)):
        made.append(at := heap.new_record(state, TAG_ADT, 0, fields))
        heap.release(state, at)
        assert free[size] == at
    for nbytes, inline in ((0, True), (64, True), (65, False)):
        at = heap.new_storage(state, nbytes, CPU)
        data = tensor(at).data
        assert tensor(at).tag == TAG_STORAGE and data % 64 == 0 and (at < data < at + 192) == inline
        scalar = heap.new_object(state, TAG_ADT, heap.size_of_tensor(state, 0))
        assert tensor(scalar).count == (0 if poison == "1" else 2)
        heap.free_object(state, scalar, 2 - tensor(scalar).count)
        heap.release(state, at)
    assert vm.memory["live_bytes"] == 0


def test_a_chunk_has_twice_the_objects_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    vm = plain_machine(relay.compile(HEADER + LISTS), monkeypatch)
    state = vm._runtime.address
    made = [chunks.new_object(state, TAG_ADT, chunks.SMALL) for _ in range(2_000)]
    assert sorted(count for size, count in chunks_of(vm) if size == chunks.SMALL) == [256, 512, 1024, 2048]
    assert len(set(made)) == len(made)
    for at in made:
        chunks.free_object(state, at, chunks.SMALL)
    chunks.trim_chunks(state)
    assert not [size for size, _ in chunks_of(vm) if size == chunks.SMALL]


def test_without_memory_for_a_large_chunk_a_small_one_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    vm = plain_machine(relay.compile(HEADER + LISTS), monkeypatch)
    state, real = vm._runtime.address, chunks.alloc
    monkeypatch.setattr(chunks, "alloc", lambda nbytes: 0 if nbytes > 30_000 else real(nbytes))
    made = [chunks.new_object(state, TAG_ADT, chunks.SMALL) for _ in range(2_000)]
    assert all(made) and {count for size, count in chunks_of(vm) if size == chunks.SMALL} == {256}
    monkeypatch.setattr(chunks, "alloc", lambda nbytes: 0)
    rest = [chunks.new_object(state, TAG_ADT, chunks.SMALL) for _ in range(100)]
    assert rest[-1] == 0
    for at in (*made, *filter(None, rest)):
        chunks.free_object(state, at, chunks.SMALL)
