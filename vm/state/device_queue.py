"""The queue of an asynchronous device, as machine code: entries of variable length, ``kind, length in words, ...``."""

from __future__ import annotations

from ...ops.native.memory import fill_bytes, native, store_i64
from ...ops.native.status import OK, OUT_OF_MEMORY
from .growable import grow
from .state_layout import POISON, state_at

#: Kinds of queue entries.
QUEUE_KERNEL, QUEUE_COPY, QUEUE_POISON = 1, 2, 3


@native
def reserve(state: int, words: int) -> int:
    """Reserve a queue entry of ``words`` words; its address, or 0: no memory."""
    s = state_at(state)
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
def queue_poison(state: int, block: int, nbytes: int) -> None:
    """Poison a freed block: at once, or after the work queued so far, which may still read it."""
    if state_at(state).queue_used == 0:
        fill_bytes(block, POISON, nbytes)
        return
    at = reserve(state, 4)
    if at != 0:
        store_i64(at, QUEUE_POISON)
        store_i64(at + 8, 4)
        store_i64(at + 16, block)
        store_i64(at + 24, nbytes)


@native
def queue_copy(state: int, to: int, source: int, nbytes: int, free_source: int) -> int:
    """Queue a copy into device memory; a status."""
    at = reserve(state, 6)
    if at == 0:
        return OUT_OF_MEMORY
    store_i64(at, QUEUE_COPY)
    store_i64(at + 8, 6)
    store_i64(at + 16, to)
    store_i64(at + 24, source)
    store_i64(at + 32, nbytes)
    store_i64(at + 40, free_source)
    return OK
