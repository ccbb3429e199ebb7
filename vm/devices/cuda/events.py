"""Events of a GPU, as machine code: synchronization points of streams, and timestamps for a trace."""

from __future__ import annotations

from ....ops.native.memory import array_float32, free, load_i64, native, store_i64
from ....ops.native.status import OK, OUT_OF_MEMORY
from ...state.gpu_layout import TIMED_WORDS, gpu_at, timed_at
from ...state.growable import grow
from ...state.state_layout import event_at, state_at
from .driver_api.driver_calls import (
    EVENT_CREATE,
    EVENT_DESTROY,
    EVENT_RECORD,
    EVENT_TIME,
    NO_MEMORY,
    checked,
    drive_1,
    drive_2,
    drive_3,
)

_DISABLE_TIMING = 2


@native
def new_event(gpu: int, flags: int) -> int:
    """Create an event; 0 if there is no memory, or the GPU has failed."""
    c = gpu_at(gpu)
    error = drive_2(gpu, EVENT_CREATE, c.out, flags)
    if error == 0:
        return load_i64(c.out)
    if error != NO_MEMORY:
        checked(gpu, error)
    return 0


@native
def acquire_event(gpu: int) -> int:
    """An event without timing, from the free list or a new one; 0 if there is none."""
    c = gpu_at(gpu)
    if c.n_events == 0:
        return new_event(gpu, _DISABLE_TIMING)
    c.n_events -= 1
    return load_i64(c.events + 8 * c.n_events)


@native
def release_event(gpu: int, event: int) -> None:
    """Return an event to the free list."""
    c = gpu_at(gpu)
    if c.n_events == c.events_words:
        capacity = 2 * c.events_words + 64
        block = grow(c.events, c.n_events, capacity)
        if block == 0:
            drive_1(gpu, EVENT_DESTROY, event)
            return
        c.events = block
        c.events_words = capacity
    store_i64(c.events + 8 * c.n_events, event)
    c.n_events += 1


@native
def acquire_timed_event(gpu: int) -> int:
    """An event with timing, from the free list or a new one; 0 if there is none."""
    c = gpu_at(gpu)
    if c.n_timed_events == 0:
        return new_event(gpu, 0)
    c.n_timed_events -= 1
    return load_i64(c.timed_events + 8 * c.n_timed_events)


@native
def release_timed_event(gpu: int, event: int) -> None:
    """Return an event with timing to the free list."""
    c = gpu_at(gpu)
    if c.n_timed_events == c.timed_events_words:
        capacity = 2 * c.timed_events_words + 64
        block = grow(c.timed_events, c.n_timed_events, capacity)
        if block == 0:
            drive_1(gpu, EVENT_DESTROY, event)
            return
        c.timed_events = block
        c.timed_events_words = capacity
    store_i64(c.timed_events + 8 * c.n_timed_events, event)
    c.n_timed_events += 1


@native
def begin_timing(gpu: int, stream: int) -> int:
    """Record an event on the stream before the timed work; 0: the work is not timed."""
    event = acquire_timed_event(gpu)
    if event != 0:
        gpu_at(gpu).starts_early = 0
        checked(gpu, drive_2(gpu, EVENT_RECORD, event, stream))
    return event


@native
def end_timing(gpu: int, stream: int, start: int, row: int) -> int:
    """Record the end of the work timed since ``begin_timing``, with its row at word ``row`` of the trace; a status.

    Takes over the event ``start``.
    """
    c = gpu_at(gpu)
    if start == 0:
        return OK
    event = acquire_timed_event(gpu)
    if event == 0:
        release_timed_event(gpu, start)
        return OK
    if c.timed_used + TIMED_WORDS > c.timed_words:
        capacity = 2 * c.timed_words + TIMED_WORDS * 1024
        block = grow(c.timed, c.timed_used, capacity)
        if block == 0:
            release_timed_event(gpu, start)
            release_timed_event(gpu, event)
            return OUT_OF_MEMORY
        c.timed = block
        c.timed_words = capacity
    timed = timed_at(c.timed + 8 * c.timed_used)
    timed.start = start
    timed.end = event
    timed.row = row
    c.timed_used += TIMED_WORDS
    c.starts_early = 0
    return checked(gpu, drive_2(gpu, EVENT_RECORD, event, stream))


@native
def drop_timing(gpu: int, start: int) -> None:
    """Undo ``begin_timing`` for failed work."""
    if start != 0:
        release_timed_event(gpu, start)


@native
def elapsed_ns(gpu: int, start: int, end: int) -> int:
    """Nanoseconds between two completed events; -1 if the driver reports an error."""
    c = gpu_at(gpu)
    if drive_3(gpu, EVENT_TIME, c.out, start, end) != 0:
        return -1
    return int(array_float32(c.out, 1)[0] * 1.0e6)


@native
def read_times(state: int, gpu: int) -> None:
    """Write the times of completed work to the rows of the trace; all work must have completed."""
    s, c = state_at(state), gpu_at(gpu)
    for i in range(c.timed_used // TIMED_WORDS):
        timed = timed_at(c.timed + 8 * TIMED_WORDS * i)
        start, end, row = timed.start, timed.end, timed.row
        if row < s.trace_used:
            # the driver reports float32 milliseconds: short times are exact only when measured directly
            begun, took = elapsed_ns(gpu, c.base_event, start), elapsed_ns(gpu, start, end)
            if begun >= 0 and took >= 0:
                event = event_at(s.trace + 8 * row)
                event.start = c.base_ns + begun
                event.end = c.base_ns + begun + took
        release_timed_event(gpu, start)
        release_timed_event(gpu, end)
    c.timed_used = 0


@native
def destroy_block(gpu: int, block: int, n: int, step: int, each: int) -> None:
    """Destroy events, the first ``each`` of every ``step`` words of a block, and free the block."""
    if block == 0:
        return
    for i in range(n):
        if i % step < each:
            drive_1(gpu, EVENT_DESTROY, load_i64(block + 8 * i))
    free(block)


@native
def destroy_events(gpu: int) -> None:
    """Destroy all events."""
    c = gpu_at(gpu)
    destroy_block(gpu, c.events, c.n_events, 1, 1)
    destroy_block(gpu, c.timed_events, c.n_timed_events, 1, 1)
    destroy_block(gpu, c.timed, c.timed_used, 3, 2)  # start and end, then a row
    if c.base_event != 0:
        drive_1(gpu, EVENT_DESTROY, c.base_event)
    c.events = c.n_events = c.events_words = 0
    c.timed_events = c.n_timed_events = c.timed_events_words = 0
    c.timed = c.timed_used = c.timed_words = 0
    c.base_event = 0
