"""The emulated driver: contexts, handles, devices, threads of the host."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ...emulator import emulator
from ...emulator.session import Session, call, made, refused, word


def test_contexts_and_handles_are_checked() -> None:
    emulator.reset()
    out = ctypes.c_uint64()
    refused(3, "cuDeviceGetCount", ctypes.byref(out))
    emulator.set("no_device", 1)
    refused(100, "cuInit", 0)
    emulator.set("no_device", 0)
    emulator.set("devices", 2)
    emulator.set("driver_version", 11080)
    call("cuInit", 0)
    assert (made("cuDriverGetVersion"), made("cuDeviceGetCount")) == (11080, 2)
    refused(101, "cuDeviceGet", ctypes.byref(out), 2)
    call("cuCtxSetCurrent", None)
    refused(201, "cuStreamCreate", ctypes.byref(out), 1)
    call("cuCtxSetCurrent", word(made("cuDevicePrimaryCtxRetain", 1)))
    stream = made("cuStreamCreate", 1)
    call("cuStreamDestroy_v2", word(stream))
    refused(400, "cuStreamSynchronize", word(stream))
    refused(400, "cuStreamSynchronize", None)
    emulator.reset()
    refused(3, "cuStreamSynchronize", word(stream))


@pytest.mark.parametrize("capability", [80, 90])
def test_a_device_says_what_it_is(gpu: Session, capability: int) -> None:
    emulator.set("compute_capability", capability)
    attributes = {n: made("cuDeviceGetAttribute", n, 0) for n in (1, 10, 75, 76, 97, 115)}
    assert attributes == {1: 1024, 10: 32, 75: capability // 10, 76: 0, 97: 227 << 10, 115: 1}
    assert made("cuDeviceTotalMem_v2", 0) == emulator.get("memory")
    text = ctypes.c_char_p()
    call("cuGetErrorName", 700, ctypes.byref(text))
    assert text.value == b"CUDA_ERROR_ILLEGAL_ADDRESS"
    refused(1, "cuGetErrorName", 12345, ctypes.byref(text))


def test_threads_of_the_host_share_the_gpu(gpu: Session, image: bytes) -> None:
    def work(by: int) -> int:
        call("cuCtxSetCurrent", word(context))
        stream = gpu.new_stream()
        x = gpu.put(np.zeros(1, np.int64), stream)
        for _ in range(20):
            gpu.launch(image, "add", (2,), (64,), (x, 1, by), stream=stream)
            gpu.launch(image, "sums", (1,), (64,), (x, x, 1), stream=stream)
            gpu.wait(stream)
        return int(emulator.array(x, (1,), np.int64)[0])

    context = made("cuDevicePrimaryCtxRetain", 0)
    for entry in ("add", "sums"):
        gpu.function(image, entry)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 20, 40, 60]
