"""Graphs of the emulated driver: captured, replayed, spoilt."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from ...emulator import emulator
from ...emulator.session import CudaError, Session, call, made, refused, word


def captured(gpu: Session) -> int:
    """The graph that ends here, ready to be launched."""
    graph = made_of_stream(gpu.stream)
    executable = made("cuGraphInstantiateWithFlags", word(graph), word(0))
    call("cuGraphDestroy", word(graph))
    return executable


def made_of_stream(stream: int) -> int:
    out = ctypes.c_uint64()
    call("cuStreamEndCapture", word(stream), ctypes.byref(out))
    return out.value


def test_a_captured_graph_is_replayed(gpu: Session, image: bytes) -> None:
    x, y = gpu.put(np.array([1])), gpu.allocate(8)
    pinned = gpu.pinned((1,), np.int64)
    call("cuStreamBeginCapture_v2", word(gpu.stream), 1)
    gpu.launch(image, "add", (1,), (32,), (x, 1, 10))
    call("cuMemsetD8Async", word(y), 0, word(8), word(gpu.stream))
    call("cuMemcpyDtoDAsync_v2", word(y), word(x), word(8), word(gpu.stream))
    gpu.to_host(pinned, y)
    graph = captured(gpu)
    gpu.wait()
    assert emulator.get("kernels") == 0
    for count in (1, 2, 3):
        call("cuGraphLaunch", word(graph), word(gpu.stream))
        gpu.wait()
        assert pinned[0] == 1 + 10 * count
    call("cuGraphExecDestroy", word(graph))
    refused(400, "cuGraphLaunch", word(graph), word(gpu.stream))
    assert emulator.get("cuLaunchKernel") == 1
    assert emulator.get("kernels") == 3


@pytest.mark.parametrize("what", ["wait", "query", "allocate", "free", "host", "pageable"])
def test_what_cannot_be_captured_spoils_the_capture(gpu: Session, image: bytes, what: str) -> None:
    x, host, stream = gpu.put(np.zeros(1)), np.zeros(1), word(gpu.stream)
    call("cuStreamBeginCapture_v2", stream, 1)
    gpu.launch(image, "add", (1,), (32,), (x, 1, 10))
    forbidden = {
        "wait": ("cuStreamSynchronize", stream),
        "query": ("cuStreamQuery", stream),
        "allocate": ("cuMemAllocFromPoolAsync", ctypes.byref(ctypes.c_uint64()), word(8), word(gpu.pool), stream),
        "free": ("cuMemFreeAsync", word(x), stream),
        "host": ("cuMemHostAlloc", ctypes.byref(ctypes.c_uint64()), word(8), 0),
        "pageable": ("cuMemcpyHtoDAsync_v2", word(x), word(host.ctypes.data), word(8), stream),
    }
    refused(900, *forbidden[what])
    with pytest.raises(CudaError) as caught:
        gpu.launch(image, "add", (1,), (32,), (x, 1, 10))
    assert caught.value.code == 901
    refused(901, "cuStreamEndCapture", stream, ctypes.byref(ctypes.c_uint64()))
    gpu.wait()  # the stream is as it was


def test_a_capture_over_two_streams_must_be_joined(gpu: Session, image: bytes) -> None:
    other, events = gpu.new_stream(), [word(made("cuEventCreate", 2)) for _ in range(2)]
    x = gpu.put(np.zeros(2, np.int64))
    for joined in (True, False):
        call("cuStreamBeginCapture_v2", word(gpu.stream), 1)
        gpu.launch(image, "add", (1,), (32,), (x, 1, 1))
        call("cuEventRecord", events[0], word(gpu.stream))
        call("cuStreamWaitEvent", word(other), events[0], 0)
        gpu.launch(image, "add", (1,), (32,), (x + 8, 1, 1), stream=other)
        call("cuEventRecord", events[1], word(other))
        if joined:
            call("cuStreamWaitEvent", word(gpu.stream), events[1], 0)
            call("cuGraphLaunch", word(captured(gpu)), word(gpu.stream))
            assert list(gpu.get(x, (2,), np.int64)) == [1, 1]
        else:
            refused(904, "cuStreamEndCapture", word(gpu.stream), ctypes.byref(ctypes.c_uint64()))


def test_a_replay_after_its_memory_was_freed_is_an_error(gpu: Session) -> None:
    x = gpu.allocate(8)
    call("cuStreamBeginCapture_v2", word(gpu.stream), 1)
    call("cuMemsetD8Async", word(x), 0, word(8), word(gpu.stream))
    graph = captured(gpu)
    gpu.free(x)
    call("cuGraphLaunch", word(graph), word(gpu.stream))
    refused(700, "cuStreamSynchronize", word(gpu.stream))
