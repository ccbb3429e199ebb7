"""Launches of a card, as machine code: one by one, or a region of them at once as a graph.

A launch is made ready as an *entry*: function, grid and every argument word, addresses included.  With graphs off it goes to
the driver at once.  With graphs on, entries are held back until the region ends (the host reads, copies, or returns to
Python) and are then compared with the regions met before: the very same words again are captured, and after that replayed
with one call.  Equal words mean equal functions, shapes and memory, so a replay can never do anything but what the launches
would have done, and a graph needs no memory of its own: it is replayed only when its addresses are those just allotted.
"""

from __future__ import annotations

from ...ops.native.by_address import call_24
from ...ops.native.memory import alloc, clock_ns, copy_bytes, free, load_i64, native, store_i64
from ...ops.native.status import DEVICE_ERROR, INTERNAL, OK, OUT_OF_MEMORY
from ..growth import grown
from ..layout import state_at
from .calls import (
    CAPTURE_BEGIN,
    CAPTURE_END,
    EVENT_QUERY,
    EVENT_RECORD,
    GRAPH_DESTROY,
    GRAPH_EXEC_DESTROY,
    GRAPH_LAUNCH,
    GRAPH_MAKE,
    LAUNCH_KERNEL,
    checked,
    drive_1,
    drive_2,
    drive_3,
    drive_11,
)
from .events import begin_timing, elapsed_ns, give_timed, take_timed
from .layout import (
    CAPTURED,
    ENTRY_ARGS,
    ENTRY_BLOCK,
    ENTRY_FUNCTION,
    ENTRY_GRID,
    ENTRY_KIND,
    ENTRY_N_ARGS,
    ENTRY_SHARED,
    ENTRY_WORDS,
    GRAPH,
    GRAPHS_AUTO,
    GRAPHS_OFF,
    KERNEL_ENTRY,
    MAX_LAUNCH_WORDS,
    MAX_QUEUED,
    MET,
    NEVER,
    card_at,
    graph_at,
)

_ROW = GRAPH.itemsize
#: What cuLaunchKernel takes arguments by: a block of words and its size.
_BUFFER, _SIZE = 1, 2
#: Another thread's call may not spoil a capture, nor a capture another thread's call.
_THREAD_LOCAL = 1
#: From a launch to the end of a small kernel on an idle card, at most.
_LATENCY_NS = 20_000
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)


# ---- entries ------------------------------------------------------------------------------------------------------------


@native
def room(card, words):
    """The address for an entry of so many words at the end of the queue; 0: no memory."""
    c = card_at(card)
    if c.queue_used + words > c.queue_words:
        capacity = max(2 * c.queue_words, c.queue_used + words + MAX_LAUNCH_WORDS)
        block = grown(c.queue, c.queue_used, capacity)
        if block == 0:
            return 0
        c.queue = block
        c.queue_words = capacity
    return c.queue + 8 * c.queue_used


@native
def issue(card, at):
    """Give one entry to the driver; a status."""
    c = card_at(card)
    n = load_i64(at + 8 * ENTRY_N_ARGS)
    args = at + 8 * ENTRY_ARGS
    function = load_i64(at + 8 * ENTRY_FUNCTION)
    if load_i64(at + 8 * ENTRY_KIND) != KERNEL_ENTRY:
        return call_library(card, function, args, n)
    extra = c.out + 8
    store_i64(c.out, 8 * n)
    store_i64(extra, _BUFFER)
    store_i64(extra + 8, args)
    store_i64(extra + 16, _SIZE)
    store_i64(extra + 24, c.out)
    store_i64(extra + 32, 0)
    g, b = at + 8 * ENTRY_GRID, at + 8 * ENTRY_BLOCK
    gx, gy, gz = load_i64(g), load_i64(g + 8), load_i64(g + 16)
    bx, by, bz = load_i64(b), load_i64(b + 8), load_i64(b + 16)
    shared = load_i64(at + 8 * ENTRY_SHARED)
    return checked(card, drive_11(card, LAUNCH_KERNEL, function, gx, gy, gz, bx, by, bz, shared, c.compute, 0, extra))


@native
def call_library(card, function, args, n):
    """Call a library's function with up to 24 words; a status."""
    if n > 24:
        return INTERNAL
    w = card_at(card).out
    for i in range(n):
        store_i64(w + 8 * i, load_i64(args + 8 * i))
    error = call_24(
        function, load_i64(w), load_i64(w + 8), load_i64(w + 16), load_i64(w + 24), load_i64(w + 32), load_i64(w + 40),
        load_i64(w + 48), load_i64(w + 56), load_i64(w + 64), load_i64(w + 72), load_i64(w + 80), load_i64(w + 88),
        load_i64(w + 96), load_i64(w + 104), load_i64(w + 112), load_i64(w + 120), load_i64(w + 128), load_i64(w + 136),
        load_i64(w + 144), load_i64(w + 152), load_i64(w + 160), load_i64(w + 168), load_i64(w + 176), load_i64(w + 184),
    )  # fmt: skip
    if error & 0xFFFFFFFF != 0:
        # a library's numbers are its own: kept apart from the driver's by their sign
        card_at(card).error = -(error & 0xFFFFFFFF)
        return DEVICE_ERROR
    return OK


@native
def issue_all(card, at, end):
    """Give the entries from ``at`` to ``end`` to the driver; a status."""
    while at < end:
        status = issue(card, at) + 0
        if status != 0:
            return status
        at += 8 * load_i64(at + 8 * ENTRY_WORDS)
    return OK


@native
def ready(card, words):
    """The entry of so many words at the end of the queue is filled: launch it, or hold it back; a status."""
    c = card_at(card)
    at = c.queue + 8 * c.queue_used
    if c.graphs == GRAPHS_OFF:
        return issue(card, at)
    if c.n_queued == 0:
        c.queued_ns = clock_ns()
    c.queue_used += words
    c.n_queued += 1
    return flush(card) if c.n_queued >= MAX_QUEUED else OK


# ---- regions --------------------------------------------------------------------------------------------------------------


@native
def hash_of(at, words):
    """A hash of words."""
    h = words * _ODD
    for i in range(words):
        h = (h ^ load_i64(at + 8 * i)) * _ODD
        h ^= (h >> 29) & 0x7FFFFFFFF
    return h


@native
def same(a, b, words):
    """Are the words at two places equal?"""
    i = 0
    while i < words and load_i64(a + 8 * i) == load_i64(b + 8 * i):
        i += 1
    return i == words


@native
def flush(card):
    """The region ends: replay it, capture it, or launch what it holds; a status."""
    c = card_at(card)
    words, n = c.queue_used, c.n_queued
    if words == 0:
        return OK
    c.queue_used = 0
    c.n_queued = 0
    end = c.queue + 8 * words
    if n < 2:
        return issue_all(card, c.queue, end)
    h = hash_of(c.queue, words)
    row = region(card, h, words)
    g = graph_at(row)
    c.graph_clock += 1
    g.met = c.graph_clock
    if g.state == CAPTURED:
        if same(g.entries, c.queue, words):
            state_at(c.state).replays += 1
            return checked(card, drive_2(card, GRAPH_LAUNCH, g.exec, c.compute))
        return issue_all(card, c.queue, end)  # another region with the same hash
    if g.state == NEVER:
        return issue_all(card, c.queue, end)
    if g.words == 0:
        g.words = words
        return first_time(card, row, end)
    if c.graphs == GRAPHS_AUTO and not pays(card, row):
        return issue_all(card, c.queue, end)
    return capture(card, row, words)


@native
def region(card, h, words):
    """The row of a region; a fresh one, perhaps in the place of the one met longest ago, if it was never met."""
    c = card_at(card)
    oldest, met = 0, c.graph_clock + 1
    for i in range(c.n_graphs):
        g = graph_at(c.graph_rows + _ROW * i)
        if g.hash == h and g.words == words:
            return c.graph_rows + _ROW * i
        if g.met < met:
            oldest, met = i, g.met
    if c.n_graphs < c.graph_limit:
        row = c.graph_rows + _ROW * c.n_graphs
        c.n_graphs += 1
    else:
        row = c.graph_rows + _ROW * oldest
        forget(card, row)
        state_at(c.state).evictions += 1
    g = graph_at(row)
    g.hash = h
    g.words = 0
    g.entries = 0
    g.exec = 0
    g.host_ns = 0
    g.device_ns = -1
    g.start_event = 0
    g.end_event = 0
    g.state = MET
    return row


@native
def forget(card, row):
    """Give back what a region holds.  A graph that still runs is freed by the driver when it has."""
    g = graph_at(row)
    if g.exec != 0:
        drive_1(card, GRAPH_EXEC_DESTROY, g.exec)
    if g.entries != 0:
        free(g.entries)
    if g.start_event != 0:
        give_timed(card, g.start_event)
    if g.end_event != 0:
        give_timed(card, g.end_event)
    g.exec = 0
    g.entries = 0
    g.start_event = 0
    g.end_event = 0


@native
def first_time(card, row, end):
    """Launch a region met for the first time; where graphs must pay, time it.  A status."""
    c, g = card_at(card), graph_at(row)
    if c.graphs != GRAPHS_AUTO:
        return issue_all(card, c.queue, end)
    # the host's time is that of the launches: what it did before it asked for them, it does for a graph too
    start = clock_ns()
    g.start_event = begin_timing(card, c.compute)
    status = issue_all(card, c.queue, end) + 0
    g.end_event = take_timed(card)
    if status == 0 and g.end_event != 0:
        status = checked(card, drive_2(card, EVENT_RECORD, g.end_event, c.compute))
    g.host_ns = clock_ns() - start
    return status


@native
def pays(card, row):
    """Did the host take longer to launch the region than the card to run it?  Not known before it has run.

    A card that is faster waits for each launch: between the events around the region it then takes as long as the host, and
    a little more for the last one.  Only a card that takes clearly longer than the host is one that the host is ahead of.
    """
    g = graph_at(row)
    if g.device_ns < 0:
        if g.start_event == 0 or g.end_event == 0:
            g.state = NEVER
            return False
        if drive_1(card, EVENT_QUERY, g.end_event) != 0:
            return False
        g.device_ns = elapsed_ns(card, g.start_event, g.end_event)
        give_timed(card, g.start_event)
        give_timed(card, g.end_event)
        g.start_event = 0
        g.end_event = 0
    if g.device_ns < 0 or g.device_ns > g.host_ns + g.host_ns // 4 + _LATENCY_NS:
        g.state = NEVER
        return False
    return True


@native
def capture(card, row, words):
    """Make a graph of the region in the queue, and run it; where that fails, it is launched one by one for good.  A status."""
    c, g = card_at(card), graph_at(row)
    entries = alloc(8 * words)
    if entries == 0:
        return OUT_OF_MEMORY
    copy_bytes(entries, c.queue, 8 * words)
    made = 0
    if drive_2(card, CAPTURE_BEGIN, c.compute, _THREAD_LOCAL) == 0:
        before = c.error
        status = issue_all(card, entries, entries + 8 * words) + 0
        ended = drive_2(card, CAPTURE_END, c.compute, c.out)
        graph = load_i64(c.out) if ended == 0 else 0
        c.error = before  # what fails under capture has not run
        if status == 0 and graph != 0 and drive_3(card, GRAPH_MAKE, c.out, graph, 0) == 0:
            made = load_i64(c.out)
        if graph != 0:
            drive_1(card, GRAPH_DESTROY, graph)
    if made == 0:
        free(entries)
        g.state = NEVER
        state_at(c.state).graph_failures += 1
        return issue_all(card, c.queue, c.queue + 8 * words)
    g.entries = entries
    g.exec = made
    g.state = CAPTURED
    state_at(c.state).captures += 1
    return checked(card, drive_2(card, GRAPH_LAUNCH, made, c.compute))
