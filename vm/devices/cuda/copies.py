"""Copies to a GPU, on it, and from it, as machine code.

Bytes from the host pass through a ring of page-locked memory.  The driver would read pageable memory through buffers of its own,
and page-locked memory of users (such as an array of ``numpy()``) only when the stream gets there, after the user may have
changed it.
"""

from __future__ import annotations

from ....ops.native.memory import copy_bytes, load_i64, native
from ....ops.native.status import DEVICE_ERROR, OUT_OF_MEMORY
from ...state.gpu_layout import PORTABLE, RING_ALIGNMENT, RING_PART_BYTES, RING_PARTS, gpu_at
from ...state.state_layout import state_at
from .driver_api.driver_calls import (
    COPY_ON_DEVICE,
    COPY_TO_DEVICE,
    COPY_TO_HOST,
    EVENT_RECORD,
    EVENT_WAIT,
    HOST_ALLOC,
    HOST_FREE,
    NO_MEMORY,
    STREAM_WAIT,
    STREAM_WAIT_EVENT,
    checked,
    drive_1,
    drive_2,
    drive_3,
    drive_4,
)
from .events import acquire_event, begin_timing, drop_timing, end_timing, release_event
from .graphs.held_back import flush


@native
def to_device(state: int, gpu: int, to: int, source: int, nbytes: int, traced: int) -> int:
    """Copy from the host, in stream order; a status.  The source may change afterwards.  ``traced``: see TO_DEVICE.

    The bytes pass through the ring, part by part, so the driver reads page-locked memory only, and asynchronously.
    """
    c = gpu_at(gpu)
    if c.error != 0:
        return DEVICE_ERROR
    status = flush(gpu) + 0
    if status != 0 or nbytes == 0:
        return status
    row = traced >> 1
    start = begin_timing(gpu, c.compute) if row >= 0 else 0
    done = 0
    while status == 0 and done < nbytes:
        n = min(nbytes - done, RING_PART_BYTES)
        free = free_in_ring(gpu, n)
        if free == 0:
            status = DEVICE_ERROR if c.error != 0 else OUT_OF_MEMORY
        else:
            copy_bytes(free, source + done, n)
            status = checked(gpu, drive_4(gpu, COPY_TO_DEVICE, to + done, free, n, c.compute)) + 0
        done += n
    if status != 0:
        drop_timing(gpu, start)
        return status
    return end_timing(gpu, c.compute, start, row)


@native
def free_in_ring(gpu: int, nbytes: int) -> int:
    """Room for at most RING_PART_BYTES bytes in the ring, in front of a copy; 0: no memory, or the GPU has failed.

    The ring's parts are filled in turn.  The end of the copies from a part is an event, for which the host waits before it fills
    the part again.
    """
    c = gpu_at(gpu)
    if c.ring == 0:
        error = drive_3(gpu, HOST_ALLOC, c.out, RING_PARTS * RING_PART_BYTES, PORTABLE)
        if error != 0:
            if error != NO_MEMORY:
                checked(gpu, error)
            return 0
        c.ring = load_i64(c.out)
    if c.ring_used + nbytes > RING_PART_BYTES:
        event = acquire_event(gpu) if c.ring_events[c.ring_part] == 0 else c.ring_events[c.ring_part]
        if event == 0:
            return 0
        c.ring_events[c.ring_part] = event
        if checked(gpu, drive_2(gpu, EVENT_RECORD, event, c.compute)) != 0:
            return 0
        c.ring_part = (c.ring_part + 1) % RING_PARTS
        c.ring_used = 0
        earlier = c.ring_events[c.ring_part]
        if earlier != 0 and checked(gpu, drive_1(gpu, EVENT_WAIT, earlier)) != 0:
            return 0
    free = c.ring + RING_PART_BYTES * c.ring_part + c.ring_used
    c.ring_used += (nbytes + RING_ALIGNMENT - 1) // RING_ALIGNMENT * RING_ALIGNMENT
    return free


@native
def close_ring(gpu: int) -> None:
    """Free the ring, after all copies have run."""
    c = gpu_at(gpu)
    for i in range(RING_PARTS):
        if c.ring_events[i] != 0:
            release_event(gpu, c.ring_events[i])
            c.ring_events[i] = 0
    if c.ring != 0:
        drive_1(gpu, STREAM_WAIT, c.compute)
        drive_1(gpu, HOST_FREE, c.ring)
        c.ring = 0


@native
def on_device(state: int, gpu: int, to: int, source: int, nbytes: int) -> int:
    """Copy within the GPU, in stream order; a status."""
    state_at(state).outstanding = 1
    status = flush(gpu) + 0
    if status != 0 or nbytes == 0:
        return status
    return checked(gpu, drive_4(gpu, COPY_ON_DEVICE, to, source, nbytes, gpu_at(gpu).compute))


@native
def begin_copy(state: int, gpu: int, to: int, source: int, nbytes: int, row: int) -> int:
    """Begin a copy to page-locked memory after all earlier launches; an event to wait for, or a negated status."""
    c = gpu_at(gpu)
    if c.error != 0:
        return -DEVICE_ERROR
    status = flush(gpu) + 0
    if status != 0:
        return -status
    event = acquire_event(gpu)
    if event == 0:
        return -(DEVICE_ERROR if c.error != 0 else OUT_OF_MEMORY)
    status = checked(gpu, drive_2(gpu, EVENT_RECORD, event, c.compute)) + 0
    if status == 0:
        status = checked(gpu, drive_3(gpu, STREAM_WAIT_EVENT, c.copies, event, 0)) + 0
    start = begin_timing(gpu, c.copies) if row >= 0 else 0
    if status == 0 and nbytes != 0:
        status = checked(gpu, drive_4(gpu, COPY_TO_HOST, to, source, nbytes, c.copies)) + 0
    if status == 0:
        status = end_timing(gpu, c.copies, start, row) + 0
    else:
        drop_timing(gpu, start)
    # the event is recorded again: the other stream already waits for its first use
    if status == 0:
        status = checked(gpu, drive_2(gpu, EVENT_RECORD, event, c.copies)) + 0
    if status != 0:
        release_event(gpu, event)
        return -status
    return event
