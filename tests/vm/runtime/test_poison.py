"""Poisoning of dead memory, also on the host, and of no other memory."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.native.memory import ARRAYS, tensor
from relayvm.ops.native.object_layout import TAG_TENSOR
from relayvm.vm.device_table import CPU
from relayvm.vm.options import POISON_VARIABLE
from relayvm.vm.runtime.objects import chunks, heap, poison
from relayvm.vm.state.state_layout import POISON

from ...programs import HEADER
from .plain import plain_machine


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> relay.VirtualMachine:
    monkeypatch.setenv(POISON_VARIABLE, "1")
    return plain_machine(relay.compile(HEADER + "def @main(%x: Tensor[(?n), float32]) { exp(%x) }"), monkeypatch)


def tensor_in(state: int, storage: int, offset: int, nbytes: int) -> int:
    """A tensor in a part of a storage, filled with ones."""
    at = chunks.new_object(state, TAG_TENSOR, chunks.LARGE)
    t = tensor(at)
    t.storage, t.data, t.device, t.ndim = heap.retain(storage), tensor(storage).data + offset, CPU, 0
    poison.link_tensor(at, nbytes)
    seen(storage)[offset : offset + nbytes] = 1
    return at


def seen(storage: int) -> np.ndarray:
    return ARRAYS["array_uint8"](tensor(storage).data, 128)


def test_what_only_a_dead_tensor_covers_is_poisoned(machine: relay.VirtualMachine) -> None:
    state = machine._runtime.address
    storage = heap.new_storage(state, 128, CPU)
    whole, part, other = (tensor_in(state, storage, *place) for place in ((0, 64), (16, 8), (64, 64)))
    heap.release(state, whole)
    expected = np.full(128, POISON, np.uint8)
    expected[16:24] = expected[64:] = 1
    np.testing.assert_array_equal(seen(storage), expected)
    heap.release(state, other)
    heap.release(state, part)
    assert (seen(storage) == POISON).all()
    heap.release(state, storage)
    assert machine.memory["live_bytes"] == 0


def test_a_view_keeps_bytes_alive(machine: relay.VirtualMachine) -> None:
    state = machine._runtime.address
    storage = heap.new_storage(state, 128, CPU)
    first = tensor_in(state, storage, 0, 128)
    second = heap.view(state, first, tensor(first).dtype)
    heap.release(state, first)
    assert (seen(storage) == 1).all()
    heap.release(state, second)
    assert (seen(storage) == POISON).all()
    heap.release(state, storage)


def test_a_storage_that_is_given_back_is_poisoned(machine: relay.VirtualMachine) -> None:
    storage = heap.new_storage(machine._runtime.address, 128, CPU)
    assert (seen(storage) == POISON).all()
    seen(storage)[:] = 1
    heap.release(machine._runtime.address, storage)
    assert (seen(storage) == POISON).all()


def test_nothing_is_poisoned_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POISON_VARIABLE, "0")
    vm = plain_machine(relay.compile(HEADER + "def @main(%x: Tensor[(?n), float32]) { exp(%x) }"), monkeypatch)
    storage = heap.new_storage(vm._runtime.address, 128, CPU)
    seen(storage)[:] = 1
    heap.release(vm._runtime.address, storage)
    assert (seen(storage) == 1).all()
