"""Memory of the emulated GPU: poison, in the order of streams; its end; failures that a test asks for."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from ...emulator import emulator
from ...emulator.session import CudaError, Session, call, refused, word


def test_memory_is_poison_in_the_order_of_the_stream(gpu: Session) -> None:
    x = gpu.allocate(1000)
    assert x % 512 == 0
    gpu.wait()
    memory = emulator.array(x, (1000,), np.uint8)
    assert (memory == 0xA5).all()
    memory[:] = 1
    gpu.free(x)
    assert (memory == 1).all()
    gpu.wait()
    assert (memory == 0xA5).all()
    refused(1, "cuMemFreeAsync", word(x), word(gpu.stream))


def test_freed_memory_is_had_again_at_once_on_its_stream_and_later_on_others(gpu: Session) -> None:
    other, x = gpu.new_stream(), gpu.allocate(1 << 20)
    gpu.free(x)
    assert gpu.allocate(1 << 20, other) != x
    assert gpu.allocate(1 << 19) == x
    gpu.wait()
    assert x < gpu.allocate(1 << 18, other) < x + (1 << 20)


def test_a_copy_that_comes_after_its_memory_was_freed_is_an_error(gpu: Session) -> None:
    copies, host, x = gpu.new_stream(), np.zeros(4), gpu.put(np.ones(4))
    gpu.to_host(host, x, copies)
    gpu.free(x)
    gpu.wait()
    assert "not there" in refused(700, "cuStreamSynchronize", word(copies))


def test_memory_ends(gpu: Session) -> None:
    total = emulator.get("memory")
    out = ctypes.c_uint64()
    args = (ctypes.byref(out), word(total), word(gpu.pool), word(gpu.stream))
    x = gpu.allocate(512)
    refused(2, "cuMemAllocFromPoolAsync", *args)
    gpu.free(x)
    refused(2, "cuMemAllocFromPoolAsync", ctypes.byref(out), word(total + 1), word(gpu.pool), word(gpu.stream))
    free, all_bytes = ctypes.c_uint64(), ctypes.c_uint64()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(all_bytes))
    assert (free.value, all_bytes.value) == (total - 512, total)  # the pool keeps what it had ...
    gpu.wait()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(all_bytes))
    assert free.value == total  # ... until somebody waits, for its threshold is 0
    assert emulator.get("error") == 0


@pytest.mark.parametrize("which", [1, 3])
def test_an_allocation_can_be_made_to_fail(gpu: Session, which: int) -> None:
    emulator.set("fail_allocation", which)
    failed = []
    for i in range(1, 5):
        try:
            gpu.allocate(8)
        except CudaError as error:
            failed.append((i, error.code))
    assert failed == [(which, 2)]
    with pytest.raises(KeyError):
        emulator.set("unknown", 1)


def test_a_launch_can_be_made_to_fail_at_the_next_wait(gpu: Session, image: bytes) -> None:
    x = gpu.put(np.zeros(1, np.int64))
    emulator.set("launch_error", 700)
    gpu.launch(image, "add", (1,), (32,), (x, 1, 1))
    gpu.launch(image, "add", (1,), (32,), (x, 1, 1))
    refused(700, "cuStreamSynchronize", word(gpu.stream))
    refused(700, "cuMemAllocFromPoolAsync", ctypes.byref(ctypes.c_uint64()), word(8), word(gpu.pool), word(gpu.stream))
    assert emulator.get("kernels") == 0


@pytest.mark.parametrize("function", ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async"])
def test_copies_of_foreign_memory_are_refused(gpu: Session, function: str) -> None:
    x, host = gpu.allocate(100), np.zeros(100, np.uint8)
    source: object = {"cuMemcpyHtoDAsync_v2": word(host.ctypes.data), "cuMemcpyDtoDAsync_v2": word(x), "cuMemsetD8Async": 0}[
        function
    ]
    call(function, word(x), source, word(100), word(gpu.stream))
    refused(1, function, word(x + 1), source, word(100), word(gpu.stream))
    refused(1, function, word(host.ctypes.data), source, word(1), word(gpu.stream))
    call(function, word(0), source, word(0), word(gpu.stream))
