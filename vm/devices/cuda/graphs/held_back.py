"""Launches of a GPU, as machine code: one by one, or a region of launches as a CUDA graph.

With graphs off an entry goes to the driver at once.  With graphs on, entries are held back until the region ends (the host reads,
copies, or returns to Python) and are then compared with earlier regions.  A region with the key of an earlier region (see
``regions``) is captured, and later replayed by one call, after changes of the nodes whose entries differ (see ``captures``).  In
mode ``auto``, entries are held back only if a region that is captured, or has occurred twice, begins with the same function; else
they are launched at once, and their key is kept to recognise the region.  The entries of a graph are all words of its launches,
so a replay has the effect of the launches.  A graph needs no memory of its own: it is replayed only if its addresses are the
addresses just allocated.

A replay saves time of the host, and about 1 us of the GPU between two kernels: it pays even if the host is ahead of the GPU.

If the graph that followed the graph launched last is known, entries are compared with its entries as they come: nothing is
copied while they are equal.
"""

from __future__ import annotations

from .....ops.native.inlining import keep_out_of_line
from .....ops.native.memory import copy_bytes, native
from .....ops.native.status import OK, OUT_OF_MEMORY
from ....state.gpu_layout import (
    AWAITED,
    CHANGE_NS,
    FAR,
    GRAPH_LAUNCH_NS,
    GRAPHS_AUTO,
    GRAPHS_OFF,
    LAUNCH_NS,
    MAX_FAR,
    MAX_LAUNCH_WORDS,
    MAX_QUEUED,
    MAX_VARIANTS,
    MET,
    NEVER,
    entry_at,
    gpu_at,
    graph_at,
    variant_at,
)
from ....state.growable import grow
from ....state.state_layout import state_at
from ..driver_api.driver_calls import GRAPH_LAUNCH, checked, drive_2
from .captures import capture, nearest, update
from .entries import launch_entries, launch_entry
from .regions import (
    KERNEL_KEY_WORDS,
    are_equal,
    find_region,
    free_variants,
    hash_entry,
    hash_key,
    is_awaited,
    store_key,
)

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
    words = entry_at(entry).words
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
        c.is_issued = 1 if c.graphs == GRAPHS_AUTO and not is_awaited(gpu, hash_entry(at), hash_key(gpu, at)) else 0
    c.queue_used += words
    c.n_queued += 1
    status = launch_entry(gpu, at) + 0 if c.is_issued != 0 else OK
    return flush(gpu) if status == OK and c.n_queued >= MAX_QUEUED else status


# ---- following a graph ------------------------------------------------------------------------------------------------------


@native
def begin_following(gpu: int) -> None:
    """Expect the entries of the graph that followed the last one before."""
    c = gpu_at(gpu)
    variant = variant_at(c.last_variant).next if c.last_variant != 0 else 0
    if variant != 0 and variant_at(variant).exec != 0 and reserve_entry(gpu, variant_at(variant).words) != 0:
        c.expected = variant_at(variant).entries
        c.expected_end = c.expected + 8 * variant_at(variant).words


@native
def stop_following(gpu: int) -> None:
    """Put the entries that were as expected into the queue, which has room for them."""
    keep_out_of_line()
    c = gpu_at(gpu)
    entries: int = variant_at(variant_at(c.last_variant).next).entries
    copy_bytes(c.queue, entries, c.expected - entries)
    c.queue_used = (c.expected - entries) // 8
    c.expected = 0


@native
def launch_graph(gpu: int, variant: int) -> int:
    """Launch a graph, whose nodes have the entries that are held back; a status."""
    c = gpu_at(gpu)
    c.graph_clock += 1
    graph_at(variant_at(variant).region).met = c.graph_clock
    if c.last_variant != 0:
        variant_at(c.last_variant).next = variant
    c.last_variant = variant
    c.starts_early = 0
    return checked(gpu, drive_2(gpu, GRAPH_LAUNCH, variant_at(variant).exec, c.compute))


@native
def replay(gpu: int, variant: int) -> int:
    """Launch a graph once more; a status."""
    state_at(gpu_at(gpu).state).replays += 1
    return launch_graph(gpu, variant)


# ---- regions --------------------------------------------------------------------------------------------------------------


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
        return replay(gpu, variant_at(c.last_variant).next)
    if c.expected != 0:
        stop_following(gpu)
    words = c.queue_used
    c.queue_used = 0
    is_issued = c.is_issued
    c.is_issued = 0
    if n < 2:
        return OK if is_issued != 0 else launch_entries(gpu, c.queue, c.queue + 8 * words)
    return end_region(gpu, n, words, is_issued)


@native
def end_region(gpu: int, n: int, words: int, is_issued: int) -> int:
    """End the region of the ``n`` entries in the queue; a status."""
    c = gpu_at(gpu)
    c.queue_used = words
    key = reserve_entry(gpu, words)
    c.queue_used = 0
    end = c.queue + 8 * words
    key_words = store_key(c.queue, end, key) if key != 0 else 0
    row = find_region(gpu, key, key_words) if key != 0 else 0
    if row == 0:
        return OK if is_issued != 0 else launch_entries(gpu, c.queue, end)
    g = graph_at(row)
    is_new = g.met == 0
    c.graph_clock += 1
    g.met = c.graph_clock
    if is_new:
        is_pure = key_words == KERNEL_KEY_WORDS * n
        g.first = hash_key(gpu, c.queue) if is_pure else hash_entry(c.queue)
    elif g.state == MET and c.graphs == GRAPHS_AUTO:
        g.state = AWAITED
    if is_issued != 0:
        c.last_variant = 0
        return OK
    variant = 0 if is_new or g.state == NEVER else graph_of(gpu, row, n, words)
    if variant != 0:
        return launch_graph(gpu, variant)
    c.last_variant = 0
    return launch_entries(gpu, c.queue, end)


@native
def graph_of(gpu: int, row: int, n: int, words: int) -> int:
    """A graph of the ``n`` entries in the queue, old or new; 0: their launches take less time, or the driver refuses.

    A far graph is changed; if that happens often, the region is captured once more, up to MAX_VARIANTS.
    """
    c, g = gpu_at(gpu), graph_at(row)
    end = c.queue + 8 * words
    variant, captures = 0, g.n_variants == 0
    if g.n_variants != 0:
        variant = nearest(gpu, row, c.queue, end)
        if c.change_ns == 0:
            state_at(c.state).replays += 1
            return variant
        if c.change_ns * FAR > n * CHANGE_NS and g.n_variants < MAX_VARIANTS:
            g.far += 1
            captures = g.far >= MAX_FAR
    if captures:
        g.far = 0
        variant = capture(gpu, row, c.queue, words, n)
    elif c.change_ns + GRAPH_LAUNCH_NS > n * LAUNCH_NS:
        return 0
    elif update(gpu, variant, c.queue, end):
        state_at(c.state).replays += 1
    else:
        variant = 0
    if variant == 0:
        free_variants(gpu, row)
        g.state = NEVER
        state_at(c.state).graph_failures += 1
    return variant
