"""Launches of a GPU, as machine code: one by one, or a region of launches as a CUDA graph.

With graphs off an entry goes to the driver at once.  With graphs on, entries are held back until the region ends (the host reads,
copies, or returns to Python) and are then compared with earlier regions.  A region with the same words as an earlier one is
captured, and later replayed by one call.  In mode ``auto``, entries are held back only if a region that is captured, or has
occurred twice, begins with the same entry; else they are launched at once, and their words are kept to recognise the region.
Equal words mean equal functions, shapes and memory, so a replay has the effect of the launches.  A graph needs no memory of its
own: it is replayed only if its addresses are those just allocated.

A replay saves time of the host, and about 1 us of the GPU between two kernels: it pays even if the host is ahead of the GPU.

If the region that followed the region before the last time is captured, entries are compared with it as they come: nothing is
copied while they are equal.
"""

from __future__ import annotations

from ....ops.native.jit.c_functions import by_name
from ....ops.native.jit.inlining import keep_out_of_line
from ....ops.native.memory import alloc, copy_bytes, free, load_i64, native
from ....ops.native.status import OK, OUT_OF_MEMORY
from ...runtime.growable import grow
from ...runtime.state_layout import state_at
from .driver_calls import (
    CAPTURE_BEGIN,
    CAPTURE_END,
    GRAPH_DESTROY,
    GRAPH_EXEC_DESTROY,
    GRAPH_LAUNCH,
    GRAPH_MAKE,
    checked,
    drive_1,
    drive_2,
    drive_3,
)
from .entries import launch_entries, launch_entry
from .gpu_layout import (
    AWAITED,
    CAPTURED,
    ENTRY_WORDS,
    GRAPH,
    GRAPHS_AUTO,
    GRAPHS_OFF,
    MAX_LAUNCH_WORDS,
    MAX_QUEUED,
    MAX_TRIALS,
    MET,
    NEVER,
    gpu_at,
    graph_at,
)

_ROW = GRAPH.itemsize
#: CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: calls of other threads do not interfere with a capture.
_THREAD_LOCAL = 1
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)
_LOW = 0xFFFFFFFF
compare_bytes = by_name("memcmp", 3)


# ---- entries ------------------------------------------------------------------------------------------------------------


@native
def reserve_entry(gpu: int, words: int) -> int:
    """Reserve a queue entry of ``words`` words; its address, 0: no memory."""
    c = gpu_at(gpu)
    if c.queue_used + words > c.queue_words:
        capacity = max(2 * c.queue_words, c.queue_used + words + MAX_LAUNCH_WORDS)
        block = grow(c.queue, c.queue_used, capacity)
        if block == 0:
            return 0
        c.queue = block
        c.queue_words = capacity
    return c.queue + 8 * c.queue_used


@native
def issue_entry(gpu: int, entry: int) -> int:
    """Launch an entry, or hold it back; a status."""
    c = gpu_at(gpu)
    if c.graphs == GRAPHS_OFF:
        return launch_entry(gpu, entry)
    words = load_i64(entry + 8 * ENTRY_WORDS)
    if c.n_queued == 0:
        begin_following(gpu)
    expected: int = c.expected
    if expected != 0:
        if expected + 8 * words <= c.expected_end and are_equal(expected, entry, words):
            c.expected = expected + 8 * words
            c.n_queued += 1
            return flush(gpu) if c.n_queued >= MAX_QUEUED else OK
        stop_following(gpu)
    at = reserve_entry(gpu, words)
    if at == 0:
        return OUT_OF_MEMORY
    copy_bytes(at, entry, 8 * words)
    return commit_entry(gpu, words)


@native
def commit_entry(gpu: int, words: int) -> int:
    """Launch the filled entry of ``words`` words at the end of the queue, or hold it back; a status."""
    c = gpu_at(gpu)
    at = c.queue + 8 * c.queue_used
    if c.n_queued == 0:
        c.is_issued = 1 if c.graphs == GRAPHS_AUTO and not is_awaited(gpu, hash_words(at, words)) else 0
    c.queue_used += words
    c.n_queued += 1
    status = launch_entry(gpu, at) + 0 if c.is_issued != 0 else OK
    return flush(gpu) if status == OK and c.n_queued >= MAX_QUEUED else status


# ---- following a captured region --------------------------------------------------------------------------------------------


@native
def begin_following(gpu: int) -> None:
    """Expect the entries of the region that followed the region before the last time, if it is captured."""
    c = gpu_at(gpu)
    row = graph_at(c.last_region).next if c.last_region != 0 else 0
    if row != 0 and graph_at(row).state == CAPTURED and reserve_entry(gpu, graph_at(row).words) != 0:
        c.expected = graph_at(row).entries
        c.expected_end = c.expected + 8 * graph_at(row).words


@native
def stop_following(gpu: int) -> None:
    """Put the entries that were as expected into the queue, which has room for them."""
    keep_out_of_line()
    c = gpu_at(gpu)
    entries: int = graph_at(graph_at(c.last_region).next).entries
    copy_bytes(c.queue, entries, c.expected - entries)
    c.queue_used = (c.expected - entries) // 8
    c.expected = 0


@native
def meet(gpu: int, row: int) -> None:
    """Note the use of a region, after the region before."""
    c = gpu_at(gpu)
    c.graph_clock += 1
    graph_at(row).met = c.graph_clock
    if c.last_region != 0:
        graph_at(c.last_region).next = row
    c.last_region = row


@native
def replay(gpu: int, row: int) -> int:
    """Launch the graph of a region whose entries are held back; a status."""
    meet(gpu, row)
    state_at(gpu_at(gpu).state).replays += 1
    gpu_at(gpu).starts_early = 0
    return checked(gpu, drive_2(gpu, GRAPH_LAUNCH, graph_at(row).exec, gpu_at(gpu).compute))


# ---- regions --------------------------------------------------------------------------------------------------------------


@native
def is_awaited(gpu: int, first: int) -> bool:
    """Whether a region that is captured, or is to be captured, begins with an entry of this hash."""
    c = gpu_at(gpu)
    for i in range(c.n_graphs):
        g = graph_at(c.graph_rows + _ROW * i)
        if g.first == first and g.state == CAPTURED:
            return True
        if g.first == first and g.state == AWAITED:
            g.trials += 1
            if g.trials <= MAX_TRIALS:
                return True
            g.state = NEVER
    return False


@native
def hash_words(at: int, words: int) -> int:
    """A hash of words: four chains of multiplications, of every fourth word, run at once."""
    a, b, c, d = words, 1, 2, 3
    i = 0
    while i + 4 <= words:
        a = (a ^ load_i64(at + 8 * i)) * _ODD
        b = (b ^ load_i64(at + 8 * i + 8)) * _ODD
        c = (c ^ load_i64(at + 8 * i + 16)) * _ODD
        d = (d ^ load_i64(at + 8 * i + 24)) * _ODD
        i += 4
    while i < words:
        a = (a ^ load_i64(at + 8 * i)) * _ODD
        i += 1
    # a product's high bits depend on all bits below: each chain's go down before the next is added
    h = (a ^ ((a >> 32) & _LOW)) * _ODD + b
    h = (h ^ ((h >> 32) & _LOW)) * _ODD + c
    h = (h ^ ((h >> 32) & _LOW)) * _ODD + d
    return (h ^ ((h >> 32) & _LOW)) * _ODD


@native
def are_equal(a: int, b: int, words: int) -> bool:
    """Whether the words at two addresses are equal."""
    return compare_bytes(a, b, 8 * words) & _LOW == 0


@native
def flush(gpu: int) -> int:
    """End the region: replay it, capture it, or launch its entries; a status."""
    c = gpu_at(gpu)
    n = c.n_queued
    if n == 0:
        return OK
    c.n_queued = 0
    if c.expected != 0 and c.expected == c.expected_end:
        c.expected = 0
        return replay(gpu, graph_at(c.last_region).next)
    if c.expected != 0:
        stop_following(gpu)
    words = c.queue_used
    c.queue_used = 0
    end = c.queue + 8 * words
    is_issued = c.is_issued
    c.is_issued = 0
    if n < 2:
        return OK if is_issued != 0 else launch_entries(gpu, c.queue, end)
    row = find_region(gpu, hash_words(c.queue, words), words)
    g = graph_at(row)
    if g.state == CAPTURED and is_issued == 0 and are_equal(g.entries, c.queue, words):
        return replay(gpu, row)
    meet(gpu, row)
    is_new = g.words == 0
    if is_new:
        g.words = words
        g.first = hash_words(c.queue, load_i64(c.queue + 8 * ENTRY_WORDS))
    elif g.state == MET and c.graphs == GRAPHS_AUTO:
        g.state = AWAITED
    if is_issued != 0:
        return OK
    # captured: another region with the same hash
    if is_new or g.state == NEVER or g.state == CAPTURED:
        return launch_entries(gpu, c.queue, end)
    return capture(gpu, row, words)


@native
def find_region(gpu: int, h: int, words: int) -> int:
    """The row of a region; for a new region a new row, or the least recently used one."""
    c = gpu_at(gpu)
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
        free_region(gpu, row)
        state_at(c.state).evictions += 1
    g = graph_at(row)
    g.hash = h
    g.words = 0
    g.entries = 0
    g.exec = 0
    g.state = MET
    g.first = 0
    g.trials = 0
    g.next = 0
    return row


@native
def free_region(gpu: int, row: int) -> None:
    """Free a region's resources.  The driver destroys a running graph when it has completed."""
    g = graph_at(row)
    if g.exec != 0:
        drive_1(gpu, GRAPH_EXEC_DESTROY, g.exec)
    if g.entries != 0:
        free(g.entries)
    g.exec = 0
    g.entries = 0


@native
def forget_regions(gpu: int) -> None:
    """Forget all regions, and free their graphs.  No entry is held back."""
    c = gpu_at(gpu)
    for i in range(c.n_graphs):
        free_region(gpu, c.graph_rows + _ROW * i)
    c.n_graphs = 0
    c.last_region = 0


@native
def capture(gpu: int, row: int, words: int) -> int:
    """Capture the queued region in a graph and launch it; if that fails, never try again and launch separately.  A status."""
    c, g = gpu_at(gpu), graph_at(row)
    entries = alloc(8 * words)
    if entries == 0:
        return OUT_OF_MEMORY
    copy_bytes(entries, c.queue, 8 * words)
    made, config = 0, c.launch_config
    c.starts_early = 0
    if drive_2(gpu, CAPTURE_BEGIN, c.compute, _THREAD_LOCAL) == 0:
        before = c.error
        c.launch_config = config if c.captures_early != 0 else 0
        status = launch_entries(gpu, entries, entries + 8 * words) + 0
        c.launch_config = config
        c.starts_early = 0
        ended = drive_2(gpu, CAPTURE_END, c.compute, c.out)
        graph = load_i64(c.out) if ended == 0 else 0
        c.error = before  # launches that failed under capture have not run
        if status == 0 and graph != 0 and drive_3(gpu, GRAPH_MAKE, c.out, graph, 0) == 0:
            made = load_i64(c.out)
        if graph != 0:
            drive_1(gpu, GRAPH_DESTROY, graph)
    if made == 0:
        free(entries)
        g.state = NEVER
        state_at(c.state).graph_failures += 1
        return launch_entries(gpu, c.queue, c.queue + 8 * words)
    g.entries = entries
    g.exec = made
    g.state = CAPTURED
    state_at(c.state).captures += 1
    return checked(gpu, drive_2(gpu, GRAPH_LAUNCH, made, c.compute))
