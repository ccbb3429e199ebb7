"""Kernels compiled to be checked: every access outside of a block and every race in shared memory is found."""

from __future__ import annotations

import numpy as np
import pytest

from ...emulator import emulator
from ...emulator.session import Session, refused, word


@pytest.mark.parametrize("threads", [32, 96, 1024])
def test_checked_kernels_do_what_others_do(gpu: Session, checked: bytes, threads: int) -> None:
    x = np.arange(5000)
    y = gpu.allocate(8 * 1024)
    gpu.launch(checked, "sums", (2,), (threads,), (gpu.put(x), y, len(x)))
    assert gpu.get(y, (1,), np.int64)[0] == x.sum()
    gpu.launch(checked, "scans", (1,), (threads,), (gpu.put(x), y))
    assert np.array_equal(gpu.get(y, (threads,), np.int64), np.cumsum(x[:threads]))
    gpu.launch(checked, "reversed", (2,), (threads,), (gpu.put(x), y, 1), shared_bytes=8 * threads)
    assert np.array_equal(gpu.get(y, (threads,), np.int64), x[:threads][::-1])


@pytest.mark.parametrize("at", [0, 4, 5, -1, 1 << 20])
def test_a_read_outside_of_a_block_is_found(gpu: Session, checked: bytes, at: int) -> None:
    gpu.launch(checked, "read_at", (1,), (1,), (gpu.put(np.arange(5)), gpu.allocate(8), at))
    if 0 <= at < 5:
        gpu.wait()
    else:
        assert "a read of 8 bytes" in refused(700, "cuStreamSynchronize", word(gpu.stream))


@pytest.mark.parametrize("at", [-512, -1, 100, 511])
def test_a_checked_write_outside_of_a_block_does_not_happen(gpu: Session, checked: bytes, at: int) -> None:
    y = gpu.allocate(100)
    gpu.wait()
    gpu.launch(checked, "write_at", (1,), (1,), (y, at))
    assert "a write of 1 bytes" in refused(700, "cuStreamSynchronize", word(gpu.stream))
    assert emulator.array(y + at, (1,), np.uint8)[0] != 1


def test_memory_that_is_freed_or_not_yet_there_is_found(gpu: Session, checked: bytes) -> None:
    other, x = gpu.new_stream(), gpu.allocate(8)
    gpu.launch(checked, "write_at", (1,), (1,), (x, 0))
    gpu.wait()
    later = gpu.allocate(8)
    gpu.launch(checked, "write_at", (1,), (1,), (later, 0), stream=other)
    refused(700, "cuStreamSynchronize", word(other))


@pytest.mark.parametrize(("at", "fine"), [(0, True), (255, True), (256, False), (-1, False), (300 << 10, False)])
def test_shared_memory_ends_where_the_launch_said(gpu: Session, checked: bytes, at: int, fine: bool) -> None:
    gpu.launch(checked, "shared_at", (1,), (64,), (gpu.allocate(8), at), shared_bytes=256)
    if fine:
        gpu.wait()
    else:
        refused(700, "cuStreamSynchronize", word(gpu.stream))


@pytest.mark.parametrize("schedule", [0, 1, 5])
@pytest.mark.parametrize(
    ("entry", "args", "fine"),
    [
        ("exchange", (0, 0), True),
        ("exchange", (1, 0), False),
        ("exchange", (1, 1), True),
        ("exchange", (1, 2), True),
        ("exchange", (32, 0), False),
        ("exchange", (32, 1), False),
        ("exchange", (32, 2), True),
        ("reuse", (1,), True),
        ("reuse", (0,), False),
        ("tally", (1,), True),
        ("tally", (0,), False),
    ],
)
def test_races_in_shared_memory_are_found(
    gpu: Session, checked: bytes, entry: str, args: tuple[int, ...], fine: bool, schedule: int
) -> None:
    emulator.set("schedule", schedule)
    gpu.launch(checked, entry, (2,), (64,), (gpu.allocate(8 * 64), *args))
    if fine:
        gpu.wait()
    else:
        assert "a race in shared memory" in refused(719, "cuStreamSynchronize", word(gpu.stream))
