"""Memory of objects, as machine code: chunks of objects of three sizes, with a free list for each size.

An object is a record (``ops.native.object_layout.TENSOR``) or the first one or two lines of one, as far as its kind needs.  Dead
objects go to the free list; ``trim_chunks`` returns chunks without a live object to the system.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....ops.native.inlining import keep_out_of_line
from ....ops.native.jit.non_temporal import LINE_BYTES
from ....ops.native.memory import alloc, free, native, record, tensor
from ....ops.native.object_layout import ADT, OBJECT_BYTES, STORAGE, Record
from ....ops.native.objects import free_at
from ...device_table import CPU
from ...state.state_layout import OBJECT_SIZES, state_at

#: Sizes of objects: one, two or three lines.
SMALL, MEDIUM, LARGE = range(OBJECT_SIZES)
assert (LARGE + 1) * LINE_BYTES == OBJECT_BYTES
#: Objects that are added to a free list at once: as many as the first chunk has.
_BATCH = 256
#: A chunk has twice the objects of the chunk before it, up to this number: then it is in huge pages (see ``memory.alloc``).
_MOST_PER_CHUNK = 1 << 16
assert ADT.fields is not None and STORAGE.fields is not None
_FIELDS = ADT.fields["inline"][1]
#: Fields of a tuple or closure that are stored in a small, a medium and a large object.
_SMALL_FIELDS, _MEDIUM_FIELDS, INLINE_FIELDS = ((LINE_BYTES * (size + 1) - _FIELDS) // 8 for size in range(OBJECT_SIZES))
#: The bytes that a storage on the host can store in the object itself.
_INLINE_BYTES = STORAGE.fields["first_tensor"][1] - STORAGE.fields["elements"][1]

#: The head of a chunk, in a line of its own.  ``next``: another chunk.  ``capacity``: the number of objects.  The first ``used``
#: objects are in use or in the free list.
_CHUNK = np.dtype([(name, np.int64) for name in ("next", "size", "capacity", "used")])
chunk_at: Callable[[int], Record] = record(_CHUNK)


# ---- sizes -----------------------------------------------------------------------------------------------------------


@native
def size_of_tensor(state: int, ndim: int) -> int:
    """The size of a tensor with a storage.  A scalar has no sizes; its payload is used only to poison dead memory."""
    return SMALL if ndim == 0 and state_at(state).poison == 0 else LARGE


@native
def size_of_record(n_fields: int) -> int:
    """The size of a tuple or closure."""
    if n_fields <= _SMALL_FIELDS:
        return SMALL
    return MEDIUM if n_fields <= _MEDIUM_FIELDS else LARGE


@native
def is_inline_storage(pool: int, nbytes: int) -> bool:
    """Whether a storage has its bytes in the object itself, and no block."""
    return pool == CPU and nbytes <= _INLINE_BYTES


@native
def size_of_storage(state: int, pool: int, nbytes: int) -> int:
    """The size of a storage."""
    return MEDIUM if is_inline_storage(pool, nbytes) and state_at(state).poison == 0 else LARGE


@native
def bytes_of_tensor(at: int) -> int:
    """The bytes of a tensor's object."""
    lacking: int = tensor(at).count
    return OBJECT_BYTES - LINE_BYTES * lacking


# ---- objects ---------------------------------------------------------------------------------------------------------


@native
def new_object(state: int, tag: int, size: int) -> int:
    """A new object, owned by the caller; 0 if there is no memory."""
    s = state_at(state)
    if s.free_objects[size] == 0 and not refill(state, size):
        return 0
    at = s.free_objects[size]
    s.free_objects[size] = free_at(at).next
    o = tensor(at)
    s.live_objects += 1
    o.refcount = 1
    o.tag = tag
    o.storage = 0
    o.count = LARGE - size
    return at


@native
def free_object(state: int, at: int, size: int) -> None:
    """Add a dead object to the free list of its size."""
    s = state_at(state)
    o = free_at(at)
    o.tag = 0
    o.next = s.free_objects[size]
    s.free_objects[size] = at
    s.live_objects -= 1


# ---- chunks ----------------------------------------------------------------------------------------------------------


@native
def new_chunk(state: int, size: int) -> int:
    """A new chunk for objects of a size; 0 if there is no memory."""
    s = state_at(state)
    before: int = s.open_chunks[size]
    count = _BATCH if before == 0 else min(2 * chunk_at(before).capacity, _MOST_PER_CHUNK)
    nbytes = LINE_BYTES * (size + 1)
    chunk = alloc(LINE_BYTES + count * nbytes)
    if chunk == 0:
        count = _BATCH
        chunk = alloc(LINE_BYTES + count * nbytes)
        if chunk == 0:
            return 0
    c = chunk_at(chunk)
    c.next = s.object_chunks
    c.used = 0
    c.capacity = count
    c.size = size
    s.object_chunks = chunk
    s.open_chunks[size] = chunk
    return chunk


@native
def object_in(chunk: int, index: int) -> int:
    """The address of an object of a chunk."""
    return chunk + LINE_BYTES + index * LINE_BYTES * (chunk_at(chunk).size + 1)


@native
def refill(state: int, size: int) -> bool:
    """Add a batch of objects to the free list of a size.  False if there is no memory."""
    keep_out_of_line()
    s = state_at(state)
    chunk: int = s.open_chunks[size]
    if chunk == 0 or chunk_at(chunk).used == chunk_at(chunk).capacity:
        chunk = new_chunk(state, size)
        if chunk == 0:
            return False
    used = chunk_at(chunk).used
    head: int = s.free_objects[size]
    for i in range(used + _BATCH - 1, used - 1, -1):  # the list is in the order of addresses
        at = object_in(chunk, i)
        free_at(at).tag = 0
        free_at(at).next = head
        head = at
    chunk_at(chunk).used = used + _BATCH
    s.free_objects[size] = head
    return True


@native
def trim_chunks(state: int) -> None:
    """Return chunks without a live object to the system; the objects of a chunk are then in the free list by their addresses."""
    s = state_at(state)
    for size in range(OBJECT_SIZES):
        s.free_objects[size] = 0
        s.open_chunks[size] = 0
    chunk: int = s.object_chunks
    s.object_chunks = 0
    while chunk != 0:
        c = chunk_at(chunk)
        following, size = c.next, c.size
        n_live = 0
        for i in range(c.used):
            if free_at(object_in(chunk, i)).tag != 0:
                n_live += 1
        if n_live == 0:
            free(chunk)
        else:
            c.next = s.object_chunks
            s.object_chunks = chunk
            for i in range(c.used - 1, -1, -1):
                at = object_in(chunk, i)
                if free_at(at).tag == 0:
                    free_at(at).next = s.free_objects[size]
                    s.free_objects[size] = at
            if s.open_chunks[size] == 0 or c.used < c.capacity:
                s.open_chunks[size] = chunk
        chunk = following
