"""The queue of the simulated device, as machine code: entries of variable length, and copies over the simulated link."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....ops.native.memory import clock_ns, fill_bytes, native, record
from ....ops.native.object_layout import Record
from ....ops.native.status import OK, OUT_OF_MEMORY
from ...state.growable import grow
from ...state.state_layout import POISON

_WORD = np.int64

#: The record of the device.
SIM = np.dtype(
    [
        ("queue", _WORD),  # entries of variable length
        ("queue_words", _WORD),
        ("staged_bytes", _WORD),  # of queued copies
        ("queue_head", _WORD),  # words already run
        ("queue_used", _WORD),
        ("queue_base", _WORD),  # words that ran before the contents of the buffer
        ("link_bytes_per_s", _WORD),  # 0: as fast as memory
        ("link_latency_ns", _WORD),  # of each copy over the link
    ]
)
#: Kinds of queue entries.
QUEUE_KERNEL, QUEUE_COPY, QUEUE_POISON = 1, 2, 3
#: The begin of every entry.
_ENTRY = [("kind", _WORD), ("words", _WORD)]
#: A queued kernel, before its descriptors.  ``asked_start``, ``asked_end``: start and end of its enqueueing by the host if traced
#: (else 0).  ``handed_out``: number of storages allocated so far.
KERNEL = np.dtype(
    [
        *_ENTRY, ("function", _WORD), ("n", _WORD), ("pc", _WORD), ("packed", _WORD), ("asked_start", _WORD),
        ("asked_end", _WORD), ("n_outputs", _WORD), ("handed_out", _WORD),
    ]
)  # fmt: skip
#: A queued copy into device memory.  ``owns``: whether the source is freed afterwards.
COPY = np.dtype([*_ENTRY, ("to", _WORD), ("source", _WORD), ("nbytes", _WORD), ("owns", _WORD)])
#: A block to be poisoned.
DEAD = np.dtype([*_ENTRY, ("block", _WORD), ("nbytes", _WORD)])

sim_at: Callable[[int], Record] = record(SIM)
kernel_at: Callable[[int], Record] = record(KERNEL)
copy_at: Callable[[int], Record] = record(COPY)
dead_at: Callable[[int], Record] = record(DEAD)
_COPY_WORDS, _DEAD_WORDS = COPY.itemsize // 8, DEAD.itemsize // 8


@native
def reserve(record: int, words: int) -> int:
    """Reserve a queue entry of ``words`` words; its address, or 0: no memory."""
    s = sim_at(record)
    if s.queue_used + words > s.queue_words:
        capacity = max(2 * s.queue_words, s.queue_used + words + 4096)
        block = grow(s.queue, s.queue_used, capacity)
        if block == 0:
            return 0
        s.queue = block
        s.queue_words = capacity
    at = s.queue + 8 * s.queue_used
    s.queue_used += words
    return at


@native
def queue_poison(record: int, block: int, nbytes: int) -> None:
    """Poison dead bytes: at once, or after the work queued so far, which may still read them."""
    if sim_at(record).queue_used == 0:
        fill_bytes(block, POISON, nbytes)
        return
    at = reserve(record, _DEAD_WORDS)
    if at != 0:
        e = dead_at(at)
        e.kind = QUEUE_POISON
        e.words = _DEAD_WORDS
        e.block = block
        e.nbytes = nbytes


@native
def queue_copy(record: int, to: int, source: int, nbytes: int, owns: int) -> int:
    """Queue a copy into device memory; a status."""
    at = reserve(record, _COPY_WORDS)
    if at == 0:
        return OUT_OF_MEMORY
    e = copy_at(at)
    e.kind = QUEUE_COPY
    e.words = _COPY_WORDS
    e.to = to
    e.source = source
    e.nbytes = nbytes
    e.owns = owns
    return OK


@native
def wait_for_transfer(record: int, start: int, nbytes: int) -> None:
    """Wait until a transfer that began at ``start`` has crossed the simulated link."""
    s = sim_at(record)
    rate, until = s.link_bytes_per_s, start + s.link_latency_ns
    if rate > 0:
        until += int(nbytes * 1.0e9 / rate)
    if until > start:
        while clock_ns() < until:
            pass
