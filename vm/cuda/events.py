"""Events of a card, as machine code: where a stream has come to, and, while a trace is taken, when."""

from __future__ import annotations

from ...ops.native.memory import array_float32, free, load_i64, native, store_i64
from ...ops.native.status import OK, OUT_OF_MEMORY
from ..growth import grown
from ..layout import state_at
from .calls import EVENT_CREATE, EVENT_DESTROY, EVENT_RECORD, EVENT_TIME, NO_MEMORY, checked, drive_1, drive_2, drive_3
from .layout import card_at

_WITHOUT_TIMES = 2
#: Places in a row of the trace (see ``layout.EVENT_WORDS``): when it ran.
_START, _END = 4, 5


@native
def new_event(card, flags):
    """A fresh event of the driver; 0 where there is no memory for it, or the card has failed."""
    c = card_at(card)
    error = drive_2(card, EVENT_CREATE, c.out, flags)
    if error == 0:
        return load_i64(c.out)
    if error != NO_MEMORY:
        checked(card, error)
    return 0


@native
def take_event(card):
    """An event without times; 0 where there is none to be had."""
    c = card_at(card)
    if c.n_events == 0:
        return new_event(card, _WITHOUT_TIMES)
    c.n_events -= 1
    return load_i64(c.events + 8 * c.n_events)


@native
def give_event(card, event):
    """Keep an event for the next who needs one."""
    c = card_at(card)
    if c.n_events == c.events_words:
        capacity = 2 * c.events_words + 64
        block = grown(c.events, c.n_events, capacity)
        if block == 0:
            drive_1(card, EVENT_DESTROY, event)
            return
        c.events = block
        c.events_words = capacity
    store_i64(c.events + 8 * c.n_events, event)
    c.n_events += 1


@native
def take_timed(card):
    """An event with times; 0 where there is none to be had."""
    c = card_at(card)
    if c.n_timed_events == 0:
        return new_event(card, 0)
    c.n_timed_events -= 1
    return load_i64(c.timed_events + 8 * c.n_timed_events)


@native
def give_timed(card, event):
    """Keep an event with times for the next who needs one."""
    c = card_at(card)
    if c.n_timed_events == c.timed_events_words:
        capacity = 2 * c.timed_events_words + 64
        block = grown(c.timed_events, c.n_timed_events, capacity)
        if block == 0:
            drive_1(card, EVENT_DESTROY, event)
            return
        c.timed_events = block
        c.timed_events_words = capacity
    store_i64(c.timed_events + 8 * c.n_timed_events, event)
    c.n_timed_events += 1


@native
def begin_timing(card, stream):
    """An event recorded on the stream before what is to be timed; 0: it is not timed."""
    event = take_timed(card)
    if event != 0:
        checked(card, drive_2(card, EVENT_RECORD, event, stream))
    return event


@native
def end_timing(card, stream, start, row):
    """Record the end of what ``begin_timing`` began, whose row begins at word ``row`` of the trace; a status.

    The event ``start`` is taken over.
    """
    c = card_at(card)
    if start == 0:
        return OK
    event = take_timed(card)
    if event == 0:
        give_timed(card, start)
        return OK
    if c.timed_used + 3 > c.timed_words:
        capacity = 2 * c.timed_words + 3 * 1024
        block = grown(c.timed, c.timed_used, capacity)
        if block == 0:
            give_timed(card, start)
            give_timed(card, event)
            return OUT_OF_MEMORY
        c.timed = block
        c.timed_words = capacity
    at = c.timed + 8 * c.timed_used
    store_i64(at, start)
    store_i64(at + 8, event)
    store_i64(at + 16, row)
    c.timed_used += 3
    return checked(card, drive_2(card, EVENT_RECORD, event, stream))


@native
def drop_timing(card, start):
    """Undo ``begin_timing`` for work that has failed."""
    if start != 0:
        give_timed(card, start)


@native
def elapsed_ns(card, start, end):
    """Nanoseconds between two events that have happened; -1 where the driver does not say."""
    c = card_at(card)
    if drive_3(card, EVENT_TIME, c.out, start, end) != 0:
        return -1
    return int(array_float32(c.out, 1)[0] * 1.0e6)


@native
def read_times(state, card):
    """Put the times of what has run into the rows of the trace; everything must have run."""
    s, c = state_at(state), card_at(card)
    for i in range(c.timed_used // 3):
        at = c.timed + 24 * i
        start, end, row = load_i64(at), load_i64(at + 8), load_i64(at + 16)
        if row < s.trace_used:
            # the driver gives float32 milliseconds: short times stay exact only when asked for by themselves
            begun, took = elapsed_ns(card, c.base_event, start), elapsed_ns(card, start, end)
            if begun >= 0 and took >= 0:
                store_i64(s.trace + 8 * (row + _START), c.base_ns + begun)
                store_i64(s.trace + 8 * (row + _END), c.base_ns + begun + took)
        give_timed(card, start)
        give_timed(card, end)
    c.timed_used = 0


@native
def destroy_all(card, block, n, step, each):
    """Give events back to the driver: the first ``each`` of every ``step`` words of a block, which the system gets back."""
    if block == 0:
        return
    for i in range(n):
        if i % step < each:
            drive_1(card, EVENT_DESTROY, load_i64(block + 8 * i))
    free(block)


@native
def give_back_events(card):
    """Give every event back to the driver."""
    c = card_at(card)
    destroy_all(card, c.events, c.n_events, 1, 1)
    destroy_all(card, c.timed_events, c.n_timed_events, 1, 1)
    destroy_all(card, c.timed, c.timed_used, 3, 2)  # start and end, then a row
    if c.base_event != 0:
        drive_1(card, EVENT_DESTROY, c.base_event)
    c.events = c.n_events = c.events_words = 0
    c.timed_events = c.n_timed_events = c.timed_events_words = 0
    c.timed = c.timed_used = c.timed_words = 0
    c.base_event = 0
