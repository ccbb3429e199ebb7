"""The machine beside other libraries on a GPU (an emulated one): arrays in place, streams, captures, contexts."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.vm.api.machine import VirtualMachine

from ..emulator import emulator
from ..emulator.platform import Foreign, forget
from ..programs import HEADER
from .machines import CHAIN, chain, driver, gpu, machine, new_stream  # noqa: F401  the fixture is used by every test

pytestmark = pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))

# ---- other libraries' arrays ----------------------------------------------------------------------------------------------


def test_another_librarys_array_is_taken_in_place() -> None:
    vm = machine("def @main(%x: Tensor[(?n), float32]) { (%x + 1f, %x) }")
    other = machine("def @main(%x: Tensor[(?n), float32]) { %x * 2f }")
    made = other.run(np.arange(4, dtype="f"))
    described = made.__cuda_array_interface__
    assert (described["shape"], described["typestr"], described["version"]) == ((4,), "<f4", 3)
    other._wait(None)
    foreign = Foreign(described["data"][0], (4,), "float32")
    added, same = vm.run(foreign)
    assert vm.counters["htod_copies"] == 0
    del made, foreign  # what is handed on as a result was copied on the GPU
    np.testing.assert_array_equal(added.numpy(), [1, 3, 5, 7])
    np.testing.assert_array_equal(same.numpy(), [0, 2, 4, 6])
    assert same.__cuda_array_interface__["data"] != described["data"]
    with pytest.raises(relay.InputError, match="float64"):
        vm.run(Foreign(described["data"][0], (4,), "float64"))


def test_a_result_is_exported_in_place_and_the_consumers_stream_waits() -> None:
    vm = machine(CHAIN, fuse=False)
    result = vm.run(np.ones(4, "f"))
    assert result.__dlpack_device__() == (2, 0)
    stream = new_stream(vm)
    waits = emulator.get("cuStreamWaitEvent")
    result.__dlpack__(stream=stream, max_version=(1, 0))
    assert emulator.get("cuStreamWaitEvent") == waits + 1 and vm.counters["syncs"] == 0
    on_host = np.from_dlpack(result, device="cpu")
    np.testing.assert_array_equal(on_host, chain(np.ones(4, "f")))
    with pytest.raises(BufferError, match="not to DLPack device"):
        result.__dlpack__(dl_device=(2, 3), max_version=(1, 0))


@pytest.mark.parametrize("by", [b"capsule", b"consumer"])
@pytest.mark.parametrize("graphs", ["off", "on"])
def test_memory_that_a_consumers_stream_still_reads_is_not_used_again(graphs: str, by: bytes) -> None:
    vm = machine(CHAIN, fuse=False, plan=False, graphs=graphs)
    stream, seen = new_stream(vm), np.zeros(4, "f")
    for k in range(1, 5):
        x = np.full(4, k, "f")
        result = vm.run(x)
        held = result.__dlpack__(stream=stream, max_version=(1, 0))
        driver(vm, "cuMemcpyDtoHAsync", seen.ctypes.data, result.__cuda_array_interface__["data"][0], seen.nbytes, stream)
        del result
        if by == b"consumer":  # takes the memory over, and deletes it when it is done
            managed = as_consumer(held)
            deleter(managed)(managed)
        del held
        later = vm.run(-x)  # gets the same blocks
        np.testing.assert_array_equal(later.numpy(), chain(-x))
        driver(vm, "cuStreamSynchronize", stream)
        np.testing.assert_array_equal(seen, chain(x))
        del later
    assert vm.memory["live_bytes"] == 0
    del vm
    gc.collect()
    assert emulator.get("cuEventCreate") == emulator.get("cuEventDestroy") > 0


def as_consumer(held: Any) -> int:
    """Take the tensor of a capsule, as a library does; its address."""
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
    managed = api.PyCapsule_GetPointer(held, b"dltensor_versioned")
    api.PyCapsule_SetName(held, USED_NAME)
    return int(managed)


USED_NAME = b"used_dltensor_versioned"


def deleter(managed: int) -> Any:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.c_void_p.from_address(managed + 16).value or 0)


def test_two_consumers_and_one_that_names_no_stream() -> None:
    vm = machine(CHAIN, fuse=False, plan=False)
    streams, seen = [new_stream(vm), new_stream(vm)], np.zeros((2, 4), "f")
    result = vm.run(np.ones(4, "f"))
    held = [result.__dlpack__(stream=s, max_version=(1, 0)) for s in (*streams, -1, None, 1, 2)]
    for row, stream in zip(seen, streams, strict=True):
        driver(vm, "cuMemcpyDtoHAsync", row.ctypes.data, result.__cuda_array_interface__["data"][0], row.nbytes, stream)
    held.clear()
    del result
    vm.run(np.zeros(4, "f")).numpy()
    for stream in streams:
        driver(vm, "cuStreamSynchronize", stream)
    np.testing.assert_array_equal(seen, [chain(np.ones(4, "f"))] * 2)


def test_a_consumers_stream_that_is_gone_is_waited_for_by_the_host() -> None:
    vm = machine(CHAIN, fuse=False)
    stream, result = new_stream(vm), vm.run(np.ones(4, "f"))
    held = result.__dlpack__(stream=stream, max_version=(1, 0))
    driver(vm, "cuStreamDestroy", stream)
    waits = emulator.get("cuCtxSynchronize")
    del held
    assert emulator.get("cuCtxSynchronize") == waits + 1
    with pytest.raises(BufferError, match="the consumer's stream cannot be used: cuStreamIsCapturing"):
        result.__dlpack__(stream=stream, max_version=(1, 0))
    with pytest.raises(BufferError, match="a copy on the GPU is the consumer's to make"):
        result.__dlpack__(stream=-1, max_version=(1, 0), copy=True)


def test_what_the_owner_of_an_argument_writes_next_comes_after_the_run() -> None:
    vm = machine(CHAIN, fuse=False)
    other = machine("def @main(%x: Tensor[(?n), float32]) { %x * 2f }")
    lent = other.run(np.full(4, 3, "f"))
    stream = new_stream(vm)
    address = lent.__cuda_array_interface__["data"][0]
    other._wait(None)
    result = vm.run(Foreign(address, (4,), "float32", stream))
    driver(vm, "cuMemsetD8Async", address, 0, 16, stream)
    driver(vm, "cuStreamSynchronize", stream)
    np.testing.assert_array_equal(result.numpy(), chain(np.full(4, 6, "f")))


def test_an_owner_that_goes_while_the_program_runs_is_waited_for_by_the_host() -> None:
    vm = machine(CHAIN, fuse=False)
    lent = vm.run(np.ones(4, "f"))
    vm._wait(None)
    stream, session = new_stream(vm), vm._runtime.session
    assert session is not None
    borrowed = Foreign(lent.__cuda_array_interface__["data"][0], (4,), "float32", stream)
    prepared = session.borrow(borrowed)
    assert (prepared.address, session._owners) == (borrowed.address, {stream})
    driver(vm, "cuStreamDestroy", stream)
    vm.run(np.ones(4, "f"))
    session.make_owners_wait()
    assert emulator.get("queued") == 0 and not session._owners
    with pytest.raises(relay.VMError, match="the stream of an argument's owner cannot be used: cuStreamIsCapturing"):
        vm.run(borrowed)


@pytest.mark.parametrize("device", ["cuda", "sim"])
def test_a_host_argument_may_be_overwritten_after_the_run(device: str) -> None:
    vm = VirtualMachine(relay.compile(HEADER + CHAIN, target=device, fuse=False))
    for given in (np.ones(4, "f"), np.ones((4, 2), "f")[:, 0], vm.run(np.ones(4, "f")).numpy()):
        wanted, before = chain(np.array(given)), vm.run(np.ones(4, "f"))  # something is queued
        result = vm.run(given)
        given[:] = -1
        np.testing.assert_array_equal(result.numpy(), wanted)
        assert before.shape == (4,)


# ---- captures of other libraries, and other GPUs' contexts ------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0, 1])
def test_a_capture_of_another_library_is_not_spoilt(mode: int) -> None:
    vm, stranger = machine(CHAIN, fuse=False), machine(CHAIN, fuse=False)
    x, stream = np.ones(4, "f"), new_stream(vm)
    lent = vm.run(x)
    held = lent.__dlpack__(stream=stream, max_version=(1, 0))
    block = lent.__cuda_array_interface__["data"][0]
    dropped = stranger.run(x)
    driver(vm, "cuStreamBeginCapture", stream, mode)
    driver(vm, "cuMemsetD8Async", block, 0, 16, stream)
    del dropped, stranger  # machines, results and what consumers held go at any time
    gc.collect()
    del held, lent
    np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
    with pytest.raises(BufferError, match="is captured in a graph"):
        vm.run(x).__dlpack__(stream=stream, max_version=(1, 0))
    with pytest.raises(relay.VMError, match="captures a graph"):
        vm.run(Foreign(block, (4,), "float32", stream))
    assert vm._runtime.session is not None and vm._runtime.session.interop._unrecorded
    with vm._runtime.session.device.as_current():
        graph = vm._runtime.session._driver.get("cuStreamEndCapture", stream, out=1)
    assert graph
    vm.run([1.0, 1.0])  # the slow way: what was put off is done
    assert not vm._runtime.session.interop._unrecorded


def test_a_thread_keeps_its_own_gpu() -> None:
    emulator.set("devices", 2)
    forget()
    first, second = machine(CHAIN, "cuda:0"), machine(CHAIN, "cuda:1")
    assert first._runtime.session is not None and second._runtime.session is not None
    x = np.ones(3, "f")
    with second._runtime.session.device.as_current():
        mine = second._runtime.session._driver.get("cuCtxGetCurrent")
        result = first.run(x)
        np.testing.assert_array_equal(result.numpy(), chain(x))
        held = result.__dlpack__(stream=1, max_version=(1, 0))
        del held, result
        first.run([1.0, 1.0]).numpy()
        first.trim()
        del first
        gc.collect()
        assert second._runtime.session._driver.get("cuCtxGetCurrent") == mine
