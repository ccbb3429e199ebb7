"""Memory of the machine, as machine code: objects, reference counts, pooled storage.

``objects.chunks`` has the memory of objects.  A freed storage keeps its block and goes to the free list of its size class, so a
repeated run allocates nothing.  On the host a block also serves a storage of half its size.  Small storages there have no
block.  Sizes are in bytes.
"""

from __future__ import annotations

from ....ops.core.tensor_types import DTYPES, ITEMSIZE
from ....ops.native.inlining import keep_out_of_line
from ....ops.native.memory import alloc, copy_bytes, fill_bytes, float_bits, free, load_i64, native, store_i64, tensor
from ....ops.native.object_layout import (
    ADT,
    OBJECT_BYTES,
    STORAGE,
    TAG_ADT,
    TAG_CLOSURE,
    TAG_PENDING,
    TAG_STORAGE,
    TAG_TENSOR,
    TENSOR,
)
from ....ops.native.objects import adt_at, free_at, pending_at, storage_at
from ....ops.native.status import OUT_OF_MEMORY, SIZE_OVERFLOW
from ...device_table import CPU
from ...state.device_requests import ALLOC, COPY_ON_DEVICE, END_USE, FETCH_DROP, FREE, TRIM, TRIM_BEGIN, ask
from ...state.state_layout import (
    CLASSES_PER_POWER,
    FIRST_POWER,
    HOST_COPIES,
    N_CLASSES,
    N_POOLS,
    POISON,
    SMALL_CLASSES,
    state_at,
)
from .chunks import (
    INLINE_FIELDS,
    LARGE,
    SMALL,
    free_object,
    is_inline_storage,
    new_object,
    size_of_record,
    size_of_storage,
    size_of_tensor,
)
from .poison import NBYTES, link_tensor, unlink_tensor

assert TENSOR.fields is not None and STORAGE.fields is not None and ADT.fields is not None
_PAYLOAD = TENSOR.fields["payload"][1]
_ELEMENTS = STORAGE.fields["elements"][1]
_FIELDS = ADT.fields["inline"][1]
#: The binary logarithm of the size of each dtype's elements, 2 bits each: a shift is cheaper than a table.
_ITEM_SHIFTS = sum((ITEMSIZE[name].bit_length() - 1) << 2 * k for k, name in enumerate(DTYPES))
assert all(ITEMSIZE[name] in (1, 2, 4, 8) for name in DTYPES)
#: A float64 shifted to the right by ``_CLASS_BITS`` has its exponent and the digits that are the number of the class within its
#: power of two.  ``_FIRST_LARGE``: that word for ``1 << FIRST_POWER``; 1023 is the bias of the exponent.
_CLASS_BITS = 52 - (CLASSES_PER_POWER.bit_length() - 1)
_FIRST_LARGE = (1023 + FIRST_POWER) * CLASSES_PER_POWER
assert CLASSES_PER_POWER.bit_count() == 1 and 64 * SMALL_CLASSES == 1 << FIRST_POWER
_MAX_BYTES = 1 << 46
#: The limit for a tensor without elements, with its empty axes counted as 1: loops over it then take seconds at most.
_MAX_EMPTY = 1 << 36
#: Most free storages of a size class that are in the order of their addresses.
_ORDERED = 16
#: In ``writer`` of a storage: the launch that should have written it was dropped, because work before it failed.
LOST = -1
#: In ``size_class`` of a storage: a caller's array, donated for one run (see ``api.donation``).
DONATED = -1


# ---- objects -------------------------------------------------------------------------------------------------------


@native
def is_lost(at: int) -> bool:
    """Whether the launch that produces this tensor was dropped."""
    storage = tensor(at).storage
    return storage != 0 and storage_at(storage).writer == LOST  # type: ignore[no-any-return]


@native
def retain(at: int) -> int:
    """Increment the reference count; the object."""
    tensor(at).refcount += 1
    return at


@native
def release(state: int, at: int) -> None:
    """Decrement the reference count; free dead objects, deep structures without recursion."""
    if at == 0:
        return
    o = tensor(at)
    o.refcount -= 1
    if o.refcount == 0:
        if o.tag == TAG_TENSOR:
            free_tensor(state, at)
        else:
            free_others(state, at)


@native
def free_tensor(state: int, at: int) -> None:
    """Free a dead tensor, and its storage with the last tensor in it."""
    o = tensor(at)
    if o.storage != 0:
        if state_at(state).poison != 0:
            unlink_tensor(state, at)
        storage = storage_at(o.storage)
        storage.refcount -= 1
        if storage.refcount == 0:
            free_storage(state, o.storage)
    if o.count == 0:
        free_object(state, at, LARGE)
    else:
        free_object(state, at, SMALL)


@native
def free_others(state: int, at: int) -> None:
    """Free a dead object that is no tensor, and the objects that die with it."""
    keep_out_of_line()
    head = at  # a list of dead objects; ``next``, their count of references, is 0 for the last
    while head != 0:
        at = head
        head = free_at(at).next
        tag = tensor(at).tag
        if tag == TAG_STORAGE:
            free_storage(state, at)
        elif tag == TAG_ADT or tag == TAG_CLOSURE:
            held = adt_at(at)
            for i in range(held.n_fields):
                head = release_field(state, load_i64(held.fields + 8 * i), head)
            if held.fields != at + _FIELDS:
                free(held.fields)
            free_object(state, at, size_of_record(held.n_fields))
        elif tag == TAG_PENDING:
            # the copy is dropped, but the device may still be writing to it
            pending = pending_at(at)
            if pending.device != CPU:
                ask(state, FETCH_DROP, pending.ticket, 0, 0, 0)
            head = release_field(state, pending.source, release_field(state, pending.to, head))
            free_object(state, at, SMALL)


@native
def release_field(state: int, at: int, head: int) -> int:
    """Decrement the reference count of a field, and free a dead tensor; the new head of the list of other dead objects."""
    if at == 0:
        return head
    o = tensor(at)
    o.refcount -= 1
    if o.refcount != 0:
        return head
    if o.tag == TAG_TENSOR:
        free_tensor(state, at)
        return head
    free_at(at).next = head
    return at


@native
def new_record(state: int, tag: int, number: int, n_fields: int) -> int:
    """A tuple (``number``: constructor tag) or closure (function number) of ``n_fields`` fields; 0: no memory."""
    at = new_object(state, tag, size_of_record(n_fields))
    if at == 0:
        return 0
    o = adt_at(at)  # a closure has its function's number in the same place
    o.constructor = number
    o.n_fields = n_fields
    o.fields = at + _FIELDS
    if n_fields > INLINE_FIELDS:
        o.fields = alloc(8 * n_fields)
        if o.fields == 0:
            free_object(state, at, LARGE)
            return 0
    for i in range(n_fields):
        store_i64(o.fields + 8 * i, 0)
    return at


# ---- storage --------------------------------------------------------------------------------------------------------


@native
def size_class(nbytes: int) -> int:
    """The size class of ``nbytes``."""
    if nbytes <= 64 * SMALL_CLASSES:
        return max(nbytes - 1, 0) >> 6
    return SMALL_CLASSES + (float_bits((nbytes - 1) * 1.0) >> _CLASS_BITS) - _FIRST_LARGE


@native
def class_bytes(c: int) -> int:
    """The block size of a size class."""
    if c < SMALL_CLASSES:
        return 64 * (c + 1)
    power = FIRST_POWER + (c - SMALL_CLASSES) // CLASSES_PER_POWER
    return (1 << power) + ((c - SMALL_CLASSES) % CLASSES_PER_POWER + 1) * ((1 << power) // CLASSES_PER_POWER)


@native
def class_of_free(state: int, c: int) -> int:
    """The first of the size classes behind ``c`` on the host, up to twice as large, that has a free storage; ``c``: none has.

    Tensors of many sizes need fewer blocks so, and more of these stay in the caches.  A limit of memory counts blocks as large as
    tensors need them: under a limit every size class has its own.
    """
    s = state_at(state)
    if c >= SMALL_CLASSES and s.limit_bytes >= _MAX_BYTES:
        for larger in range(c + 1, min(c + CLASSES_PER_POWER + 1, N_CLASSES)):
            if s.free_storage[larger] != 0:
                return larger
    return c


@native
def new_block(state: int, pool: int, size: int) -> int:
    """The address of a new block; 0 if there is no memory."""
    if pool != CPU:
        return ask(state, ALLOC, pool, size, 0, 0)
    return alloc(size)


@native
def free_block(state: int, pool: int, block: int) -> None:
    """Free a block."""
    if pool != CPU:
        ask(state, FREE, pool, block, 0, 0)
    else:
        free(block)


@native
def new_storage(state: int, nbytes: int, device: int) -> int:
    """A storage object with a block of at least ``nbytes``; 0 if there is no memory or the limit is reached."""
    s = state_at(state)
    if nbytes > _MAX_BYTES:
        return 0
    c = size_class(nbytes)
    slot = device * N_CLASSES + c
    if device == CPU and s.free_storage[slot] == 0:
        slot = class_of_free(state, c)
    at = s.free_storage[slot]
    if at != 0:
        s.free_storage[slot] = free_at(at).next
        storage_at(at).refcount = 1
    else:
        at = allocate_storage(state, class_bytes(c), device, c)
        if at == 0:
            return 0
    storage_at(at).writer = 0
    if device != CPU:
        s.handed_out += 1
        storage_at(at).serial = s.handed_out
    size = storage_at(at).nbytes
    s.allocs += 1
    s.alloc_bytes += nbytes
    s.live_bytes += size
    s.peak_bytes = max(s.peak_bytes, s.live_bytes)
    return at


@native
def allocate_storage(state: int, size: int, device: int, c: int) -> int:
    """A storage with a new block from the system or the device."""
    s = state_at(state)
    if s.pool_bytes + size > s.limit_bytes:
        trim(state)
        if s.pool_bytes + size > s.limit_bytes:
            return 0
    at = new_object(state, TAG_STORAGE, size_of_storage(state, device, size))
    if at == 0:
        return 0
    block = at + _ELEMENTS
    if not is_inline_storage(device, size):
        block = new_block(state, device, size)
        if block == 0:
            trim(state)
            block = new_block(state, device, size)
            if block == 0:
                free_object(state, at, size_of_storage(state, device, size))
                return 0
    if device == CPU and s.poison != 0:
        fill_bytes(block, POISON, size)
    o = storage_at(at)
    if s.poison != 0:
        o.first_tensor = 0
    o.data = block
    o.nbytes = size
    o.users = s.first_users if device != CPU else 0
    o.device = device
    o.size_class = c
    s.pool_bytes += size
    return at


@native
def free_storage(state: int, at: int) -> None:
    """Return a storage to the pool; a donated one to its array."""
    s = state_at(state)
    o = storage_at(at)
    if (o.device != CPU or s.poison != 0) and (o.device == CPU or o.users != 0):
        end_use(state, at)
    if o.size_class == DONATED:
        free_object(state, at, LARGE)
        return
    slot = o.device * N_CLASSES + o.size_class
    before = 0
    if o.device != CPU:
        before = lower_storage(s.free_storage[slot], o.data)
    if before == 0:
        free_at(at).next = s.free_storage[slot]
        s.free_storage[slot] = at
    else:
        free_at(at).next = free_at(before).next
        free_at(before).next = at
    s.live_bytes -= o.nbytes


@native
def lower_storage(at: int, address: int) -> int:
    """The last of the first free storages in a list whose blocks lie before an address; 0: none.

    The lowest free block of a device is used first, so a repeated run has the addresses of the run before, and its graph serves.
    """
    before = 0
    for _ in range(_ORDERED):
        if at == 0 or free_at(at).data > address:
            break
        before = at
        at = free_at(at).next
    return before


@native
def end_use(state: int, at: int) -> None:
    """End the use of a storage's bytes.

    Dead memory of the host is poisoned if asked for; a device does what it has to before the next use.
    """
    keep_out_of_line()
    o = storage_at(at)
    if o.device != CPU:
        o.users = ask(state, END_USE, o.data, o.nbytes, o.users, 0)
    elif state_at(state).poison != 0:
        fill_bytes(o.data, POISON, o.nbytes)


@native
def trim(state: int) -> int:
    """Free the pool's free storages; blocks that queued work may use stay.  The number of their bytes.

    Blocks are returned to the system; the bytes of small storages on the host are among the free objects.
    """
    s = state_at(state)
    given = 0
    busy = ask(state, TRIM_BEGIN, 0, 0, 0, 0) if s.device != 0 else 0
    for device in range(N_POOLS):
        if device != CPU and busy != 0:
            continue
        for c in range(N_CLASSES):
            at = s.free_storage[device * N_CLASSES + c]
            while at != 0:
                following = free_at(at).next
                if not is_inline_storage(device, free_at(at).nbytes):
                    free_block(state, device, free_at(at).data)
                size = free_at(at).nbytes
                given += size
                free_object(state, at, size_of_storage(state, device, size))
                at = following
            s.free_storage[device * N_CLASSES + c] = 0
    s.pool_bytes -= given
    if s.device != 0:
        ask(state, TRIM, 0, 0, 0, 0)
    return given


# ---- tensors --------------------------------------------------------------------------------------------------------


@native
def itemsize(dtype: int) -> int:
    """Bytes of one element."""
    return 1 << ((_ITEM_SHIFTS >> 2 * dtype) & 3)


@native
def n_elements(at: int) -> int:
    """Number of elements of a tensor."""
    o = tensor(at)
    n = 1
    for i in range(o.ndim):
        n *= o.shape[i]
    return n


@native
def n_bytes(at: int) -> int:
    """Number of bytes of a tensor's elements."""
    return n_elements(at) * itemsize(tensor(at).dtype)


@native
def checked_bytes(shape: int, ndim: int, dtype: int) -> int:
    """The number of bytes of a tensor with the ``ndim`` sizes at address ``shape``; -1 for a negative size or an overflow.

    The other sizes of a tensor without elements count, too: loops iterate over them.
    """
    total = itemsize(dtype)
    size, signs = total * 1.0, 0  # in float64, which has no overflow and rounds no number up to a limit to another
    for i in range(ndim):
        d = load_i64(shape + 8 * i)
        signs |= d
        size *= max(d, 1) * 1.0
        total *= d
    return -1 if signs < 0 or size > (_MAX_BYTES if total != 0 else _MAX_EMPTY) * 1.0 else total


@native
def vector(state: int, n: int) -> int:
    """A host int64 vector of ``n <= 8`` elements, stored in the object itself; 0: no memory."""
    at = new_object(state, TAG_TENSOR, LARGE)
    if at != 0:
        o = tensor(at)
        o.ndim = 1
        o.shape[0] = n
        o.dtype = 5  # int64
        o.device = 0
        o.data = at + _PAYLOAD
    return at


@native
def scalar(state: int, value: int) -> int:
    """A host int64 scalar; 0: no memory."""
    at = vector(state, 1)
    if at != 0:
        tensor(at).ndim = 0
        tensor(at).payload[0] = value
    return at


@native
def is_inline(at: int) -> bool:
    """Whether the tensor stores its elements in the object itself."""
    t = tensor(at)
    return t.storage == 0 and t.data == at + _PAYLOAD  # type: ignore[no-any-return]


@native
def view(state: int, source: int, dtype: int) -> int:
    """A view of a tensor's elements, whose shape the caller sets; 0: no memory."""
    at = new_object(state, TAG_TENSOR, LARGE)
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
            link_tensor(at, s.payload[NBYTES])
    return at


@native
def like(state: int, source: int, device: int) -> int:
    """A tensor of the same shape and dtype with a new storage on ``device`` (HOST_COPIES: on the host); 0: no memory."""
    storage = new_storage(state, n_bytes(source), device)
    if storage == 0:
        return 0
    at = new_object(state, TAG_TENSOR, size_of_tensor(state, tensor(source).ndim))
    if at == 0:
        release(state, storage)
        return 0
    o = tensor(at)
    s = tensor(source)
    o.ndim = s.ndim
    o.dtype = s.dtype
    o.device = device if device != HOST_COPIES else CPU
    o.storage = storage
    o.data = storage_at(storage).data
    for i in range(s.ndim):
        o.shape[i] = s.shape[i]
    if state_at(state).poison != 0:
        link_tensor(at, n_bytes(at))
    return at


@native
def owned(state: int, at: int) -> int:
    """The tensor, or a copy if the machine does not own its elements (an input, donated too, a constant); 0: no memory.

    Takes over the caller's reference.
    """
    storage = tensor(at).storage
    if is_inline(at) or (storage != 0 and storage_at(storage).size_class != DONATED):
        return at
    device = tensor(at).device
    copy = like(state, at, device)
    if copy != 0 and device != CPU:
        ask(state, COPY_ON_DEVICE, tensor(copy).data, tensor(at).data, n_bytes(at), 0)
    elif copy != 0:
        copy_bytes(tensor(copy).data, tensor(at).data, n_bytes(at))
    release(state, at)
    return copy


@native
def status_of_bytes(nbytes: int) -> int:
    """The status of a failed allocation of this size."""
    return SIZE_OVERFLOW if nbytes < 0 else OUT_OF_MEMORY
