"""Kernels that the emulated GPU starts before the kernel in front of them has ended."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from relayvm.ops.codegen.dependent_launch import waiting

from ...emulator import emulator
from ...emulator.session import CudaError, Session, call, refused, word

_TEXT = """
extern "C" __global__ void add(int64* to, const int64* __restrict__ from, int64 n) {
  BEGIN_KERNEL();
  int64 i = blockIdx.x * int64(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  to[i] = from[i] + 1;
}
extern "C" __global__ void hasty(int64* to, const int64* from, int64 n) {
  BEGIN_KERNEL();
  int64 i = blockIdx.x * int64(blockDim.x) + threadIdx.x;
  to[i] = from[i] + 1;
}
"""
#: The second kernel reads before it waits.
_HASTY = waiting(_TEXT).replace(
    """void hasty(int64* to, const int64* from, int64 n) {
  BEGIN_KERNEL();
  int64 i = blockIdx.x * int64(blockDim.x) + threadIdx.x;
  to[i] = from[i] + 1;
""",
    """void hasty(int64* to, const int64* from, int64 n) {
  int64 i = blockIdx.x * int64(blockDim.x) + threadIdx.x, early = from[i];
  BEGIN_KERNEL();
  to[i] = early + 1;
""",
)
_EARLY = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_N = 200


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_int * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("n_attributes", ctypes.c_uint),
    )


def launch_early(gpu: Session, image: bytes, name: str, args: tuple[int, ...], attribute: int = _EARLY) -> None:
    """Launch a kernel that may start before the kernel in front of it has ended."""
    attributes = (_Attribute * 1)(_Attribute(attribute, 0, (ctypes.c_int * 16)(1)))
    config = _Config((4, 1, 1), (64, 1, 1), 0, gpu.stream, attributes, 1)
    words = [ctypes.c_uint64(a) for a in args]
    params = (ctypes.c_void_p * len(words))(*(ctypes.addressof(w) for w in words))
    call("cuLaunchKernelEx", ctypes.byref(config), word(gpu.function(image, name)), params, None)


def _arrays(gpu: Session, n: int) -> list[Any]:
    return [gpu.put(np.arange(256) if k == 0 else np.zeros(256, np.int64)) for k in range(n)]


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("schedule", range(6))
def test_a_chain_of_kernels_that_wait_is_in_order(gpu: Session, schedule: int, checked: bool) -> None:
    image, x = emulator.compile(waiting(_TEXT), checked=checked), _arrays(gpu, 6)
    emulator.set("schedule", schedule)
    gpu.launch(image, "add", (4,), (64,), (x[1], x[0], _N))
    for k in range(1, 5):
        launch_early(gpu, image, "add", (x[k + 1], x[k], _N))
    np.testing.assert_array_equal(gpu.get(x[5], (256,), np.int64)[:_N], np.arange(_N) + 5)
    assert emulator.get("early_starts") > 0 and emulator.get("kernels") == 5


def test_kernels_of_graphs_start_early(gpu: Session) -> None:
    image, x = emulator.compile(waiting(_TEXT)), _arrays(gpu, 4)
    call("cuStreamBeginCapture_v2", word(gpu.stream), 1)
    gpu.launch(image, "add", (4,), (64,), (x[1], x[0], _N))
    launch_early(gpu, image, "add", (x[2], x[1], _N))
    launch_early(gpu, image, "add", (x[3], x[2], _N))
    out = ctypes.c_uint64()
    call("cuStreamEndCapture", word(gpu.stream), ctypes.byref(out))
    call("cuGraphInstantiateWithFlags", ctypes.byref(out), word(out.value), word(0))
    for _ in range(3):
        call("cuGraphLaunch", word(out.value), word(gpu.stream))
    np.testing.assert_array_equal(gpu.get(x[3], (256,), np.int64)[:_N], np.arange(_N) + 3)
    assert emulator.get("early_starts") > 0


def test_what_is_read_before_the_wait_is_old(gpu: Session) -> None:
    image, x = emulator.compile(_HASTY), _arrays(gpu, 4)
    wrong = 0
    for _ in range(4):
        gpu.launch(image, "add", (4,), (64,), (x[1], x[0], 256))
        launch_early(gpu, image, "hasty", (x[2], x[1], 256))
        wrong += not np.array_equal(gpu.get(x[2], (256,), np.int64), np.arange(256) + 2)
        call("cuMemsetD8Async", word(x[1]), 0, word(2048), word(gpu.stream))
    assert wrong == emulator.get("early_starts") > 0


def test_a_kernel_that_does_not_wait_poisons_the_gpu(gpu: Session) -> None:
    image, x = emulator.compile(_TEXT), _arrays(gpu, 3)
    gpu.launch(image, "add", (4,), (64,), (x[1], x[0], _N))
    launch_early(gpu, image, "add", (x[2], x[1], _N))
    with pytest.raises(CudaError, match="64 of 64 threads of a block end without waiting for the kernels in front"):
        gpu.get(x[2], (256,), np.int64)


@pytest.mark.parametrize("between", ["nothing", "copy", "event", "wait"])
def test_only_a_kernel_may_be_in_front(gpu: Session, between: str) -> None:
    image, x = emulator.compile(waiting(_TEXT)), _arrays(gpu, 3)
    event = ctypes.c_uint64()
    call("cuEventCreate", ctypes.byref(event), 2)
    if between != "nothing":
        gpu.launch(image, "add", (4,), (64,), (x[1], x[0], _N))
    if between == "copy":
        call("cuMemcpyDtoDAsync_v2", word(x[1]), word(x[0]), word(8), word(gpu.stream))
    elif between == "event":
        call("cuEventRecord", event, word(gpu.stream))
    elif between == "wait":
        call("cuStreamWaitEvent", word(gpu.stream), event, 0)
    with pytest.raises(CudaError, match="behind what is no kernel"):
        launch_early(gpu, image, "add", (x[2], x[1], _N))


def test_other_attributes_and_old_devices_are_refused(gpu: Session) -> None:
    image, x = emulator.compile(waiting(_TEXT)), _arrays(gpu, 3)
    gpu.launch(image, "add", (4,), (64,), (x[1], x[0], _N))
    with pytest.raises(CudaError, match="unknown attribute"):
        launch_early(gpu, image, "add", (x[2], x[1], _N), attribute=7)
    emulator.set("compute_capability", 80)
    with pytest.raises(CudaError, match="starts no kernel early"):
        launch_early(gpu, image, "add", (x[2], x[1], _N))
    refused(400, "cuLaunchKernelEx", ctypes.byref(_Config()), word(7), None, None)
