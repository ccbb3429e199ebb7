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


# ---- changes of nodes --------------------------------------------------------------------------------------------------------


class Captured:
    """A graph of two launches of ``add`` and a fill, whose source graph is kept."""

    def __init__(self, gpu: Session, image: bytes, x: int) -> None:
        self.gpu, self.function, self.nodes = gpu, gpu.function(image, "add"), []
        call("cuStreamBeginCapture_v2", word(gpu.stream), 1)
        for _ in range(2):
            gpu.launch(image, "add", (1,), (32,), (x, 1, 10))
            self.nodes.append(last_node(gpu.stream))
        call("cuMemsetD8Async", word(x + 8), 0, word(8), word(gpu.stream))
        self.nodes.append(last_node(gpu.stream))
        self.graph = made_of_stream(gpu.stream)
        self.executable = made("cuGraphInstantiateWithFlags", word(self.graph), word(0))

    def launch(self) -> None:
        call("cuGraphLaunch", word(self.executable), word(self.gpu.stream))

    def change(
        self, node: int, *args: int, grid: int = 1, refused_with: int = 0, function: int = 0, size: int | None = None
    ) -> None:
        words = (ctypes.c_uint64 * max(1, len(args)))(*(word(value).value for value in args))
        nbytes = ctypes.c_size_t(8 * len(args) if size is None else size)
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(words), 2, ctypes.addressof(nbytes), None)
        sizes = (ctypes.c_uint32 * 8)(grid, 1, 1, 32, 1, 1, 0, 0)
        params = np.array(
            [function or self.function, *np.frombuffer(sizes, np.uint64), 0, ctypes.addressof(extra), 0, 0], np.uint64
        )
        given = word(self.executable), word(node), word(params.ctypes.data)
        if refused_with:
            refused(refused_with, "cuGraphExecKernelNodeSetParams_v2", *given)
        else:
            call("cuGraphExecKernelNodeSetParams_v2", *given)


def last_node(stream: int) -> int:
    status, number, graph, nodes, n = (ctypes.c_uint64() for _ in range(5))
    call("cuStreamGetCaptureInfo_v2", word(stream), *map(ctypes.byref, (status, number, graph, nodes, n)))
    assert (status.value & 0xFFFFFFFF, n.value) == (1, 1)
    return ctypes.c_uint64.from_address(nodes.value).value


def test_a_changed_node_has_other_arguments_in_later_launches(gpu: Session, image: bytes) -> None:
    x, y = gpu.put(np.array([1, 1])), gpu.put(np.array([5]))
    graph = Captured(gpu, image, x)
    graph.launch()  # runs after the change, as it was
    graph.change(graph.nodes[1], y, 1, 100)
    graph.launch()
    assert list(gpu.get(x, (2,), np.int64)) == [31, 0]
    assert list(gpu.get(y, (1,), np.int64)) == [105]
    other = made("cuGraphInstantiateWithFlags", word(graph.graph), word(0))
    call("cuGraphLaunch", word(other), word(gpu.stream))  # the source graph is as it was
    assert list(gpu.get(x, (1,), np.int64)) == [51]


def test_what_cannot_be_changed_is_refused(gpu: Session, image: bytes) -> None:
    x = gpu.put(np.array([1, 1]))
    graph, other = Captured(gpu, image, x), Captured(gpu, image, x)
    graph.change(other.nodes[0], x, 1, 10, refused_with=1)  # a node of another graph
    graph.change(graph.nodes[2], x, 1, 10, refused_with=1)  # the node of a fill
    graph.change(graph.nodes[0], x, 1, 10, grid=0, refused_with=1)
    graph.change(graph.nodes[0], x, 1, 10, size=16, refused_with=1)
    graph.change(graph.nodes[0], x, 1, 10, function=1, refused_with=400)
    emulator.set("fail_update", 1)
    graph.change(graph.nodes[0], x, 1, 10, refused_with=1)
    graph.change(graph.nodes[0], x, 1, 10)
    call("cuGraphDestroy", word(graph.graph))
    graph.change(graph.nodes[0], x, 1, 10, refused_with=1)  # its source graph is gone
    graph.launch()
    assert list(gpu.get(x, (1,), np.int64)) == [21]


def test_a_function_of_another_context_is_refused(gpu: Session, image: bytes) -> None:
    emulator.set("devices", 2)
    x = gpu.put(np.array([1, 1]))
    graph = Captured(gpu, image, x)
    call("cuCtxSetCurrent", word(made("cuDevicePrimaryCtxRetain", 1)))
    foreign = made("cuModuleGetFunction", word(made("cuModuleLoadData", image)), b"add")
    call("cuCtxSetCurrent", word(made("cuDevicePrimaryCtxRetain", 0)))
    graph.change(graph.nodes[0], x, 1, 10, function=foreign, refused_with=1)
