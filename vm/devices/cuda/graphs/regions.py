"""The table of regions of launches, as machine code: keys of regions, their rows, the graphs of a row.

The key of a region has of each launch of a kernel the function, the block and the number of words, and of each library call all
words.  Regions with equal keys launch the same functions in the same order, over any sizes, addresses and grids.
"""

from __future__ import annotations

from .....ops.native.c_functions import by_name
from .....ops.native.memory import alloc, copy_bytes, free, load_i64, native
from ....state.gpu_layout import (
    AWAITED,
    CAPTURED,
    ENTRY_BLOCK,
    GRAPH,
    KERNEL_ENTRY,
    MAX_TRIALS,
    MAX_VARIANTS,
    MET,
    NEVER,
    VARIANT,
    entry_at,
    gpu_at,
    graph_at,
    variant_at,
    words_at,
)
from ....state.state_layout import state_at
from ..driver_api.driver_calls import GRAPH_DESTROY, GRAPH_EXEC_DESTROY, drive_1

_ROW, _VARIANT = GRAPH.itemsize, VARIANT.itemsize
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)
_LOW = 0xFFFFFFFF
#: Words of a kernel's launch in a key, and the mark in the first of them: the first word of a library call has no such bits.
KERNEL_KEY_WORDS, _KERNEL = 3, 1 << 32
compare_bytes = by_name("memcmp", 3)


# ---- words ------------------------------------------------------------------------------------------------------------------


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
def store_key(at: int, end: int, to: int) -> int:
    """Store the key of the entries from ``at`` to ``end``, which has at most as many words; the number of its words."""
    start = to
    while at < end:
        words = entry_at(at).words
        if entry_at(at).kind == KERNEL_ENTRY:
            block, key = words_at(at + 8 * ENTRY_BLOCK), words_at(to)
            key.word[0] = words | _KERNEL
            key.word[1] = entry_at(at).function
            key.word[2] = block.word[0] | block.word[1] << 16 | block.word[2] << 32
            to += 8 * KERNEL_KEY_WORDS
        else:
            copy_bytes(to, at, 8 * words)
            to += 8 * words
        at += 8 * words
    return (to - start) // 8


@native
def hash_entry(at: int) -> int:
    """A hash of the words of an entry."""
    return hash_words(at, entry_at(at).words)


@native
def hash_key(gpu: int, at: int) -> int:
    """A hash of the key of an entry."""
    if entry_at(at).kind != KERNEL_ENTRY:
        return hash_entry(at)
    out = gpu_at(gpu).out
    return hash_words(out, store_key(at, at + 8 * entry_at(at).words, out))


# ---- rows -------------------------------------------------------------------------------------------------------------------


@native
def is_awaited(gpu: int, words: int, key: int) -> bool:
    """Whether a region that is captured, or is to be captured, begins with an entry of these hashes of its words and its key.

    A region with library calls begins with these very words: its graph is replayed only for equal words of the library calls.
    """
    c = gpu_at(gpu)
    for i in range(c.n_graphs):
        g = graph_at(c.graph_rows + _ROW * i)
        is_first = g.first == words or g.first == key
        if is_first and g.state == CAPTURED:
            return True
        if is_first and g.state == AWAITED:
            g.trials += 1
            if g.trials <= MAX_TRIALS:
                return True
            g.state = NEVER
    return False


@native
def find_region(gpu: int, key: int, words: int) -> int:
    """The row of the region with this key; for a new region a new row, or the least recently used one.  0: no memory."""
    c = gpu_at(gpu)
    h = hash_words(key, words)
    oldest, met = 0, c.graph_clock + 1
    for i in range(c.n_graphs):
        g = graph_at(c.graph_rows + _ROW * i)
        if g.hash == h and g.key_words == words and are_equal(g.key, key, words):
            return c.graph_rows + _ROW * i
        if g.met < met:
            oldest, met = i, g.met
    copy = alloc(8 * words)
    if copy == 0:
        return 0
    copy_bytes(copy, key, 8 * words)
    number = c.n_graphs + 0
    if number < c.graph_limit:
        c.n_graphs += 1
    else:
        number = oldest
        free_region(gpu, c.graph_rows + _ROW * number)
        state_at(c.state).evictions += 1
    row = c.graph_rows + _ROW * number
    g = graph_at(row)
    g.hash = h
    g.key = copy
    g.key_words = words
    g.met = 0
    g.state = MET
    g.first = 0
    g.trials = 0
    g.variants = c.variants + _VARIANT * MAX_VARIANTS * number
    g.n_variants = 0
    g.far = 0
    for i in range(MAX_VARIANTS):
        variant_at(variant_of(row, i)).exec = 0
    return row


@native
def variant_of(row: int, number: int) -> int:
    """The address of a region's graph by its number."""
    return graph_at(row).variants + _VARIANT * number


@native
def free_region(gpu: int, row: int) -> None:
    """Free a region's key and its graphs."""
    g = graph_at(row)
    free_variants(gpu, row)
    if g.key != 0:
        free(g.key)
    g.key = 0


@native
def free_variants(gpu: int, row: int) -> None:
    """Free a region's graphs.  The driver destroys a running graph when it has completed."""
    g = graph_at(row)
    for i in range(g.n_variants):
        v = variant_at(variant_of(row, i))
        drive_1(gpu, GRAPH_EXEC_DESTROY, v.exec)
        drive_1(gpu, GRAPH_DESTROY, v.graph)
        free(v.entries)
        free(v.nodes)
        v.exec = 0
    g.n_variants = 0


@native
def forget_regions(gpu: int) -> None:
    """Forget all regions, and free their graphs.  No entry is held back."""
    c = gpu_at(gpu)
    for i in range(c.n_graphs):
        free_region(gpu, c.graph_rows + _ROW * i)
    c.n_graphs = 0
    c.last_variant = 0
