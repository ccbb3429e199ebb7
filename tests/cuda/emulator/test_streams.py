"""Streams and events of the emulated GPU: nothing runs before somebody waits, and then no more than must."""

from __future__ import annotations

import ctypes

import numpy as np

from ...emulator import emulator
from ...emulator.session import Session, call, made, refused, word


def test_nothing_runs_before_somebody_waits(gpu: Session, image: bytes) -> None:
    host, source = np.zeros(3, np.int64), np.array([1, 2, 3])
    x = gpu.put(source)
    source[:] = 99  # ordinary memory was taken at the call
    gpu.launch(image, "add", (1,), (32,), (x, 3, 10))
    gpu.to_host(host, x)
    assert not host.any()
    assert emulator.get("kernels") == 0
    assert emulator.get("queued") == 4
    assert emulator.library().cuStreamQuery(word(gpu.stream)) == 600
    gpu.wait()
    assert list(host) == [11, 12, 13]
    assert emulator.library().cuStreamQuery(word(gpu.stream)) == 0


def test_pinned_memory_is_read_when_the_copy_runs(gpu: Session) -> None:
    source = gpu.pinned((3,), np.int64)
    assert (source.view(np.uint8) == 0xA5).all()
    source[:] = 1, 2, 3
    x = gpu.put(source)
    source[:] = 7
    assert list(gpu.get(x, (3,), np.int64)) == [7, 7, 7]
    gpu.put(source)
    call("cuMemFreeHost", word(source.ctypes.data))
    refused(700, "cuStreamSynchronize", word(gpu.stream))


def test_an_event_runs_only_what_comes_before_it(gpu: Session, image: bytes) -> None:
    x, event = gpu.put(np.zeros(1, np.int64)), word(made("cuEventCreate", 0))
    first, second = np.zeros((2, 1), np.int64)
    call("cuEventSynchronize", event)  # it was never recorded
    gpu.launch(image, "add", (1,), (32,), (x, 1, 5))
    gpu.to_host(first, x)
    call("cuEventRecord", event, word(gpu.stream))
    gpu.launch(image, "add", (1,), (32,), (x, 1, 5))
    gpu.to_host(second, x)
    other = gpu.new_stream()
    gpu.put(np.zeros(4), other)
    assert emulator.library().cuEventQuery(event) == 600
    call("cuEventSynchronize", event)
    assert emulator.library().cuEventQuery(event) == 0
    assert (first[0], second[0], emulator.get("kernels")) == (5, 0, 1)
    assert emulator.get("queued") == 4  # a launch and a copy, and all of the other stream


def test_a_stream_that_waits_for_an_event_runs_the_other_stream_up_to_it(gpu: Session, image: bytes) -> None:
    copies, event, host = gpu.new_stream(), word(made("cuEventCreate", 2)), np.zeros(1, np.int64)
    x = gpu.put(np.array([1]))
    gpu.launch(image, "add", (1,), (32,), (x, 1, 10))
    call("cuEventRecord", event, word(gpu.stream))
    call("cuStreamWaitEvent", word(copies), event, 0)
    gpu.launch(image, "add", (1,), (32,), (x, 1, 100))
    gpu.to_host(host, x, copies)
    gpu.wait(copies)
    assert host[0] == 11
    assert emulator.get("kernels") == 1


def test_without_the_event_the_other_stream_comes_too_early(gpu: Session, image: bytes) -> None:
    copies, host = gpu.new_stream(), np.zeros(1, np.int64)
    x = gpu.put(np.array([1]))
    gpu.wait()
    gpu.launch(image, "add", (1,), (32,), (x, 1, 10))
    gpu.to_host(host, x, copies)
    gpu.wait(copies)
    assert host[0] == 1


def test_events_measure_time(gpu: Session, image: bytes) -> None:
    first, last, untimed = (word(made("cuEventCreate", flags)) for flags in (0, 0, 2))
    ms = ctypes.c_float(-1)
    call("cuEventRecord", first, word(gpu.stream))
    x = gpu.put(np.zeros(4096, np.int64))
    gpu.launch(image, "add", (8,), (256,), (x, 4096, 1))
    call("cuEventRecord", last, word(gpu.stream))
    call("cuEventRecord", untimed, word(gpu.stream))
    refused(600, "cuEventElapsedTime", ctypes.byref(ms), first, last)
    gpu.wait()
    call("cuEventElapsedTime", ctypes.byref(ms), first, last)
    assert ms.value > 0
    refused(400, "cuEventElapsedTime", ctypes.byref(ms), first, untimed)


def test_a_full_queue_runs_its_first_half(gpu: Session, image: bytes) -> None:
    x = gpu.put(np.zeros(1, np.int64))
    gpu.wait()
    emulator.set("queue_limit", 10)
    for _ in range(11):
        gpu.launch(image, "add", (1,), (32,), (x, 1, 1))
    assert (emulator.get("kernels"), emulator.get("queued")) == (5, 6)


def test_everything_at_once_for_code_on_the_host(gpu: Session, image: bytes) -> None:
    x = gpu.put(np.array([1, 2]))
    with emulator.at_once(gpu.stream):
        gpu.launch(image, "add", (1,), (32,), (x, 2, 10))
        emulator.array(x, (2,), np.int64)[:] *= 2
    gpu.launch(image, "add", (1,), (32,), (x, 2, 100))
    assert list(emulator.array(x, (2,), np.int64)) == [22, 24]
    assert list(gpu.get(x, (2,), np.int64)) == [122, 124]
    assert emulator.get("cuStreamSynchronize") == 1
