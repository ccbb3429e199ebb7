"""Graphs of regions, as machine code: a capture of entries, and changes of the nodes whose entries differ.

A change is one call of the driver for a kernel's node: function, grid, block, arguments; attributes of a node stay.  It affects
later launches of the graph only.  Nodes of libraries are never changed: ``cuGraphExecUpdate`` keeps cluster sizes silently, and
no call sets them.
"""

from __future__ import annotations

from .....ops.native.memory import alloc, copy_bytes, free, load_i64, native, store_i64
from .....ops.native.status import OK
from ....state.gpu_layout import (
    CAPTURED,
    CHANGE_NS,
    ENTRY_GRID,
    KERNEL_ENTRY,
    REGRID_NS,
    entry_at,
    gpu_at,
    graph_at,
    node_params_at,
    variant_at,
    words_at,
)
from ....state.state_layout import state_at
from ..driver_api.driver_calls import (
    CAPTURE_BEGIN,
    CAPTURE_END,
    CAPTURE_INFO,
    GRAPH_DESTROY,
    GRAPH_MAKE,
    SET_KERNEL_NODE,
    drive_1,
    drive_2,
    drive_3,
    drive_6,
)
from .entries import grid_and_block, launch_entry, store_extra
from .regions import are_equal, variant_of

#: CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: calls of other threads do not interfere with a capture.
_THREAD_LOCAL = 1
#: The place of the record NODE_PARAMS in the scratch block of driver calls, behind the words of ``store_extra``.
_PARAMS = 8 * 8


# ---- capture ------------------------------------------------------------------------------------------------------------------


@native
def capture(gpu: int, row: int, at: int, words: int, n: int) -> int:
    """Capture ``n`` entries of ``words`` words as one more graph of a region; its address, 0: that failed."""
    g = graph_at(row)
    entries, nodes = alloc(8 * words), alloc(8 * n)
    variant = variant_of(row, g.n_variants)
    v = variant_at(variant)
    if entries != 0 and nodes != 0:
        copy_bytes(entries, at, 8 * words)
        v.graph = 0
        v.exec = make_graph(gpu, variant, entries, entries + 8 * words, nodes)
    if entries == 0 or nodes == 0 or v.exec == 0:
        free(entries)
        free(nodes)
        return 0
    v.entries = entries
    v.words = words
    v.nodes = nodes
    v.region = row
    v.next = 0
    g.n_variants += 1
    g.state = CAPTURED
    state_at(gpu_at(gpu).state).captures += 1
    return variant


@native
def make_graph(gpu: int, variant: int, at: int, end: int, nodes: int) -> int:
    """Capture entries in a graph, which ``variant`` keeps, and store their nodes; the executable graph, 0: that failed."""
    c = gpu_at(gpu)
    config = c.launch_config
    c.starts_early = 0
    if drive_2(gpu, CAPTURE_BEGIN, c.compute, _THREAD_LOCAL) != 0:
        return 0
    before = c.error
    c.launch_config = config if c.captures_early != 0 else 0
    status = OK
    while at < end and status == OK:
        status = launch_entry(gpu, at) + 0
        store_i64(nodes, last_node(gpu) if entry_at(at).kind == KERNEL_ENTRY else 0)
        nodes += 8
        at += 8 * entry_at(at).words
    c.launch_config = config
    c.starts_early = 0
    ended = drive_2(gpu, CAPTURE_END, c.compute, c.out)
    graph = load_i64(c.out) if ended == 0 else 0
    c.error = before  # launches that failed under capture have not run
    made = 0
    if status == OK and graph != 0 and drive_3(gpu, GRAPH_MAKE, c.out, graph, 0) == 0:
        made = load_i64(c.out)
    if made == 0 and graph != 0:
        drive_1(gpu, GRAPH_DESTROY, graph)
    variant_at(variant).graph = graph
    return made


@native
def last_node(gpu: int) -> int:
    """The node that the capture added last; 0: the driver does not say, or there are several without successors."""
    out = gpu_at(gpu).out
    words = words_at(out)
    words.word[1] = 0
    words.word[5] = 0
    error = drive_6(gpu, CAPTURE_INFO, gpu_at(gpu).compute, out + 8, out + 16, out + 24, out + 32, out + 40)
    return load_i64(words.word[4]) if error == 0 and words.word[5] == 1 else 0


# ---- changes of nodes ---------------------------------------------------------------------------------------------------------


@native
def nearest(gpu: int, row: int, at: int, end: int) -> int:
    """The graph of a region that is soonest changed to the entries from ``at`` to ``end``; the time in ns is ``change_ns``."""
    c, g = gpu_at(gpu), graph_at(row)
    change_ns = CHANGE_NS if c.launch_config == 0 or c.captures_early == 0 else REGRID_NS
    best, least = 0, 1 << 62
    for i in range(g.n_variants):
        variant = variant_of(row, i)
        time_ns = time_to_change(variant_at(variant).entries, at, end, change_ns, least)
        if time_ns < least:
            best, least = variant, time_ns
    c.change_ns = least
    return best


@native
def time_to_change(old: int, at: int, end: int, change_ns: int, limit: int) -> int:
    """The time in ns to change the entries at ``old`` to those from ``at`` to ``end``, whose keys are equal.

    ``change_ns``: of one node whose grid stays.  ``limit``: a longer time need not be exact.
    """
    if are_equal(old, at, (end - at) // 8):
        return 0
    time_ns = 0
    while at < end and time_ns < limit:
        words = entry_at(at).words
        if not are_equal(old, at, words):
            has_grid = are_equal(old + 8 * ENTRY_GRID, at + 8 * ENTRY_GRID, 3)
            time_ns += change_ns if has_grid else REGRID_NS
        old += 8 * words
        at += 8 * words
    return time_ns


@native
def update(gpu: int, variant: int, at: int, end: int) -> bool:
    """Change the nodes of a graph whose entries differ from those from ``at`` to ``end``; False: the driver refuses."""
    v = variant_at(variant)
    old, node = v.entries + 0, v.nodes + 0
    while at < end:
        words = entry_at(at).words
        if not are_equal(old, at, words):
            if load_i64(node) == 0 or set_node(gpu, v.exec, load_i64(node), at) != 0:
                return False
            copy_bytes(old, at, 8 * words)
            state_at(gpu_at(gpu).state).updates += 1
        old += 8 * words
        at += 8 * words
        node += 8
    return True


@native
def set_node(gpu: int, graph: int, node: int, at: int) -> int:
    """Set the parameters of a kernel's node to those of an entry; the driver's error number."""
    out = gpu_at(gpu).out
    p = node_params_at(out + _PARAMS)
    p.function = entry_at(at).function
    for i in range(3):
        p.sizes[i] = grid_and_block(at, i)
    p.shared_bytes = entry_at(at).shared
    p.params = 0
    p.extra = store_extra(gpu, at)
    p.kernel = 0
    p.context = 0
    return drive_3(gpu, SET_KERNEL_NODE, graph, node, out + _PARAMS)
