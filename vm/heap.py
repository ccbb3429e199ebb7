"""Memory of the machine, as machine code: objects, reference counts, pooled storage.

Objects are records (``ops.native.layout.TENSOR``) from a free list.  A freed storage keeps its block and waits in the
free list of its size class, so a repeated run allocates nothing.  Sizes in bytes.
"""

from __future__ import annotations

from ..ops.native.by_address import call_6
from ..ops.native.layout import OBJECT_BYTES, TAG_ADT, TAG_CLOSURE, TAG_PENDING, TAG_STORAGE, TAG_TENSOR, TENSOR
from ..ops.native.memory import alloc, copy_bytes, fill_bytes, free, load_i64, native, store_i64, tensor
from ..ops.native.status import OUT_OF_MEMORY, SIZE_OVERFLOW
from ..ops.ty import DTYPES, ITEMSIZE
from .device_queue import queue_poison
from .layout import (
    CARD_ALLOC,
    CARD_AWAIT,
    CARD_COPY_ON_DEVICE,
    CARD_COPY_WAIT,
    CARD_FLUSH,
    CARD_FREE,
    CARD_TRIM,
    CLASSES_PER_POWER,
    CPU,
    CUDA,
    FIRST_POWER,
    N_CLASSES,
    N_POOLS,
    POISON,
    SIM,
    SMALL_CLASSES,
    state_at,
)
from .poison import NBYTES, forget, remember

#: Objects in a block of memory taken for them.
OBJECTS_PER_CHUNK = 256
_PAYLOAD = TENSOR.fields["payload"][1]
_SHAPE = TENSOR.fields["shape"][1]
#: Fields of a tuple or closure that fit into the object itself (shape and payload words).
INLINE_FIELDS = (OBJECT_BYTES - _SHAPE) // 8
_ITEMSIZES = tuple(ITEMSIZE[name] for name in DTYPES)
_MAX_BYTES = 1 << 46
#: As many for a tensor without elements, were its empty axes of size 1: what a loop goes through in seconds.
_MAX_EMPTY = 1 << 36
#: In ``ndim`` of a storage: the work that should have written it was dropped when work before it failed.
LOST = -1
#: In ``shape`` of a storage on a card, behind its size: the list of others' streams that used it (see ``cuda.lending``), 0: none.
USERS = 1
#: Word of the payload of a storage on ``sim``: which one it was of all that were handed out.
TURN = 1
#: In ``count`` of a storage, its size class: it is a caller's array, for the time of a run (see ``donation``).
DONATED = -1


# ---- objects -------------------------------------------------------------------------------------------------------


@native
def more_objects(state):
    """Fill the free list.  False when there is no memory."""
    chunk = alloc(64 + OBJECTS_PER_CHUNK * OBJECT_BYTES)
    if chunk == 0:
        return False
    s = state_at(state)
    store_i64(chunk, s.object_chunks)
    s.object_chunks = chunk
    head = s.free_objects
    for i in range(OBJECTS_PER_CHUNK):
        at = chunk + 64 + i * OBJECT_BYTES
        tensor(at).refcount = head
        head = at
    s.free_objects = head
    return True


@native
def new_object(state, tag):
    """A fresh object that its caller owns; 0 when there is no memory."""
    s = state_at(state)
    if s.free_objects == 0 and not more_objects(state):
        return 0
    at = s.free_objects
    o = tensor(at)
    s.free_objects = o.refcount
    s.live_objects += 1
    o.refcount = 1
    o.tag = tag
    o.storage = 0
    return at


@native
def retain(at):
    """One more owner."""
    tensor(at).refcount += 1
    return at


@native
def release(state, at):
    """One owner less; what nobody owns any more is freed, deep structures without recursion."""
    if at == 0:
        return
    o = tensor(at)
    o.refcount -= 1
    if o.refcount != 0:
        return
    head = at  # the dead, linked through ``refcount`` (which is 0 for the last)
    while head != 0:
        at = head
        o = tensor(at)
        head = o.refcount
        tag = o.tag
        if tag == TAG_TENSOR:
            if o.storage != 0 and state_at(state).poison != 0:
                forget(state, at)
            head = drop(o.storage, head)
        elif tag == TAG_STORAGE:
            free_storage(state, at)
            continue
        elif tag == TAG_ADT or tag == TAG_CLOSURE:
            for i in range(o.count):
                head = drop(load_i64(o.data + 8 * i), head)
            if o.device != 0:
                free(o.data)
        elif tag == TAG_PENDING:
            # nobody wants the copy any more, but the card may still be writing it
            if o.device == CUDA:
                call_6(state_at(state).card, state, CARD_COPY_WAIT, o.count, 0, 0, 0)
            head = drop(o.storage, drop(o.data, head))
        free_object(state, at)


@native
def drop(at, head):
    """One owner less of a field; the new head of the list of the dead."""
    if at == 0:
        return head
    o = tensor(at)
    o.refcount -= 1
    if o.refcount != 0:
        return head
    o.refcount = head
    return at


@native
def free_object(state, at):
    s = state_at(state)
    o = tensor(at)
    o.tag = 0
    o.refcount = s.free_objects
    s.free_objects = at
    s.live_objects -= 1


@native
def new_record(state, tag, number, n_fields):
    """A tuple (``number``: constructor tag) or closure (function number) with room for ``n_fields``; 0: no memory."""
    at = new_object(state, tag)
    if at == 0:
        return 0
    o = tensor(at)
    o.dtype = number
    o.count = n_fields
    o.device = 0
    o.data = at + _SHAPE
    if n_fields > INLINE_FIELDS:
        o.data = alloc(8 * n_fields)
        o.device = 1
        if o.data == 0:
            o.device = 0
            o.count = 0
            release(state, at)
            return 0
    for i in range(n_fields):
        store_i64(o.data + 8 * i, 0)
    return at


# ---- storage --------------------------------------------------------------------------------------------------------


@native
def size_class(nbytes):
    """The class whose blocks hold ``nbytes``."""
    if nbytes <= 64 * SMALL_CLASSES:
        return max(0, (nbytes + 63) // 64 - 1)
    power = FIRST_POWER
    while (2 << power) < nbytes:
        power += 1
    step = (1 << power) // CLASSES_PER_POWER
    return SMALL_CLASSES + CLASSES_PER_POWER * (power - FIRST_POWER) + (nbytes - (1 << power) + step - 1) // step - 1


@native
def class_bytes(c):
    """The size of a block of a class."""
    if c < SMALL_CLASSES:
        return 64 * (c + 1)
    power = FIRST_POWER + (c - SMALL_CLASSES) // CLASSES_PER_POWER
    return (1 << power) + ((c - SMALL_CLASSES) % CLASSES_PER_POWER + 1) * ((1 << power) // CLASSES_PER_POWER)


@native
def new_block(state, pool, size):
    """The address of a fresh block; 0 when there is no memory."""
    if pool >= CUDA:
        return call_6(state_at(state).card, state, CARD_ALLOC, pool, size, 0, 0)
    return alloc(size)


@native
def free_block(state, pool, block):
    """Give a block back."""
    if pool >= CUDA:
        call_6(state_at(state).card, state, CARD_FREE, pool, block, 0, 0)
    else:
        free(block)


@native
def new_storage(state, nbytes, device):
    """A storage object with a block of at least ``nbytes``; 0 when there is no memory or the limit is reached."""
    s = state_at(state)
    if nbytes > _MAX_BYTES:
        return 0
    c = size_class(nbytes)
    slot = device * N_CLASSES + c
    at = s.free_storage[slot]
    if at != 0:
        s.free_storage[slot] = tensor(at).refcount
        tensor(at).refcount = 1
    else:
        at = fresh_storage(state, class_bytes(c), device, c)
        if at == 0:
            return 0
    tensor(at).ndim = 0
    if device == SIM:
        s.handed_out += 1
        tensor(at).payload[TURN] = s.handed_out
    size = tensor(at).shape[0]
    s.allocs += 1
    s.alloc_bytes += nbytes
    s.live_bytes += size
    s.peak_bytes = max(s.peak_bytes, s.live_bytes)
    return at


@native
def fresh_storage(state, size, device, c):
    """A storage whose block comes from the system or the card."""
    s = state_at(state)
    if s.pool_bytes + size > s.limit_bytes:
        trim(state)
        if s.pool_bytes + size > s.limit_bytes:
            return 0
    block = new_block(state, device, size)
    if block == 0:
        trim(state)
        block = new_block(state, device, size)
        if block == 0:
            return 0
    at = new_object(state, TAG_STORAGE)
    if at == 0:
        free_block(state, device, block)
        return 0
    if device == SIM or (device == CPU and s.poison != 0):
        fill_bytes(block, POISON, size)
    o = tensor(at)
    o.payload[0] = 0
    o.data = block
    o.shape[0] = size
    o.shape[USERS] = 0
    o.device = device
    o.count = c
    s.pool_bytes += size
    return at


@native
def free_storage(state, at):
    """Back to the pool.  On ``sim`` the block is poisoned once the work before has run; a card works in the order of its
    stream, so whatever gets the block next comes after what had it, and waits for streams of others that used it."""
    s = state_at(state)
    o = tensor(at)
    size = o.shape[0]
    if o.count == DONATED:
        if s.poison != 0:
            fill_bytes(o.data, POISON, size)
        free_object(state, at)
        return
    if o.device == SIM:
        queue_poison(state, o.data, size)
    elif o.device == CPU and s.poison != 0:
        fill_bytes(o.data, POISON, size)
    elif o.device == CUDA and o.shape[USERS] != 0:
        call_6(s.card, state, CARD_AWAIT, o.shape[USERS], 0, 0, 0)
        o.shape[USERS] = 0
    slot = o.device * N_CLASSES + o.count
    o.refcount = s.free_storage[slot]
    s.free_storage[slot] = at
    s.live_bytes -= size


@native
def trim(state):
    """Give the pool's free blocks back to the system; blocks that queued work may touch stay.  Bytes given back."""
    s = state_at(state)
    given = 0
    if s.card != 0:
        call_6(s.card, state, CARD_FLUSH, 0, 0, 0, 0)  # a status that it gives again when it is waited for
    for device in range(N_POOLS):
        if device == SIM and s.queue_used != 0:
            continue
        for c in range(N_CLASSES):
            at = s.free_storage[device * N_CLASSES + c]
            while at != 0:
                following = tensor(at).refcount
                free_block(state, device, tensor(at).data)
                given += tensor(at).shape[0]
                free_object(state, at)
                at = following
            s.free_storage[device * N_CLASSES + c] = 0
    s.pool_bytes -= given
    if s.card != 0:
        call_6(s.card, state, CARD_TRIM, 0, 0, 0, 0)
    return given


# ---- tensors --------------------------------------------------------------------------------------------------------


@native
def itemsize(dtype):
    """Bytes of one element."""
    return _ITEMSIZES[dtype]


@native
def n_elements(at):
    """Number of elements of a tensor."""
    o = tensor(at)
    n = 1
    for i in range(o.ndim):
        n *= o.shape[i]
    return n


@native
def n_bytes(at):
    """Number of bytes of a tensor's elements."""
    return n_elements(at) * itemsize(tensor(at).dtype)


@native
def checked_bytes(shape, ndim, dtype):
    """Bytes of a tensor with the ``ndim`` sizes at address ``shape``; -1 where one is negative or the product too large.

    Of a tensor without elements the other sizes count, too: loops go through them.
    """
    total = itemsize(dtype)
    size = total * 1.0  # beside the integer, because it cannot wrap
    for i in range(ndim):
        d = load_i64(shape + 8 * i)
        if d < 0:
            return -1
        total *= d
        size *= max(d, 1)
    return -1 if size > (_MAX_BYTES if total != 0 else _MAX_EMPTY) else total


@native
def vector(state, n):
    """A host int64 vector of ``n <= 8`` elements, held in the object itself; 0: no memory."""
    at = new_object(state, TAG_TENSOR)
    if at != 0:
        o = tensor(at)
        o.ndim = 1
        o.shape[0] = n
        o.dtype = 5  # int64
        o.device = 0
        o.data = at + _PAYLOAD
    return at


@native
def scalar(state, value):
    """A host int64 scalar; 0: no memory."""
    at = vector(state, 1)
    if at != 0:
        tensor(at).ndim = 0
        tensor(at).payload[0] = value
    return at


@native
def is_inline(at):
    """Does the tensor hold its elements itself?"""
    return tensor(at).data == at + _PAYLOAD


@native
def view(state, source, dtype):
    """A tensor over the same elements, shape still to be set; 0: no memory."""
    at = new_object(state, TAG_TENSOR)
    if at == 0:
        return 0
    o = tensor(at)
    s = tensor(source)
    o.dtype = dtype
    o.device = s.device
    if is_inline(source):
        copy_bytes(at + _PAYLOAD, source + _PAYLOAD, OBJECT_BYTES - _PAYLOAD)
        o.data = at + _PAYLOAD
        return at
    o.data = s.data
    o.storage = s.storage
    if s.storage != 0:
        retain(s.storage)
        if state_at(state).poison != 0:
            remember(at, s.payload[NBYTES])
    return at


@native
def like(state, source, device):
    """A tensor of the same shape and dtype with storage of its own on ``device`` (PINNED: on the host); 0: no memory."""
    storage = new_storage(state, n_bytes(source), device)
    if storage == 0:
        return 0
    at = new_object(state, TAG_TENSOR)
    if at == 0:
        release(state, storage)
        return 0
    o = tensor(at)
    s = tensor(source)
    o.ndim = s.ndim
    o.dtype = s.dtype
    o.device = device if device <= CUDA else 0
    o.storage = storage
    o.data = tensor(storage).data
    for i in range(s.ndim):
        o.shape[i] = s.shape[i]
    if state_at(state).poison != 0:
        remember(at, n_bytes(at))
    return at


@native
def owned(state, at):
    """The tensor itself, or a copy when its elements belong to somebody else (an input, donated too, a constant); 0: no memory.

    Takes over the caller's reference.
    """
    storage = tensor(at).storage
    if is_inline(at) or (storage != 0 and tensor(storage).count != DONATED):
        return at
    device = tensor(at).device
    copy = like(state, at, device)
    if copy != 0 and device == CUDA:
        call_6(state_at(state).card, state, CARD_COPY_ON_DEVICE, tensor(copy).data, tensor(at).data, n_bytes(at), 0)
    elif copy != 0:
        copy_bytes(tensor(copy).data, tensor(at).data, n_bytes(at))
    release(state, at)
    return copy


@native
def status_of_bytes(nbytes):
    """Why a storage of this size could not be had."""
    return SIZE_OVERFLOW if nbytes < 0 else OUT_OF_MEMORY
