"""Handlers of single instructions, as machine code.

``at`` is the address of the instruction's words, ``regs`` the address of the frame's registers.  Every handler returns a status.
"""

from __future__ import annotations

from ...ops.core.tensor_types import DTYPES, MAX_RANK
from ...ops.native.jit.c_functions import call_4
from ...ops.native.memory import clock_ns, fill_bytes, load_i64, load_u8, native, store_i64, tensor
from ...ops.native.object_layout import TAG_ADT, TAG_PENDING, TAG_STORAGE, TAG_TENSOR
from ...ops.native.status import INTERNAL, NOT_ON_HOST, OK, OUT_OF_MEMORY
from ..bytecode.sync_reason import SyncReason, number_of
from .event_trace import record_event, record_shape_func
from .frames import set_register
from .heap import (
    checked_bytes,
    itemsize,
    n_bytes,
    n_elements,
    new_object,
    new_record,
    new_storage,
    release,
    retain,
    scalar,
    status_of_bytes,
    vector,
)
from .launch_check import gather_operands
from .poison import link_tensor
from .shape_eval import evaluate
from .state_layout import EVENT_ALLOC, HOST_CALL, N_DEVICES, PACKED_WORDS, TRACE_OFF, state_at
from .stream import (
    arguments_match,
    begin_copy_or_wait,
    device_to_host,
    end_copy,
    host_to_device,
    launch,
    wait_for_all,
)

_INT64 = DTYPES.index("int64")
_MEMORY = number_of(SyncReason.MEMORY)


@native
def invoke_packed(state, at, regs, pc):
    """Launch a kernel; a status, or HOST_CALL negated for a kernel in Python."""
    s = state_at(state)
    packed, n = load_i64(at + 8), load_i64(at + 24)
    row = s.packed + 8 * PACKED_WORDS * packed
    argv = s.argv
    gather_operands(argv, regs, at + 32, n)
    if not arguments_match(load_i64(row + 16), argv, n):
        return INTERNAL
    demands = load_i64(row + 40)
    if demands != 0:
        status = call_4(load_i64(demands), state, demands, regs, at + 32)
        if status != OK:
            return status
    if load_i64(row) == 0:
        return -HOST_CALL
    return launch(state, packed, argv, n, load_i64(at + 16), pc)


@native
def alloc_storage(state, dst, nbytes, device, pc):
    """Allocate a storage into ``dst``; a status."""
    if nbytes < 0:
        return status_of_bytes(nbytes)
    storage = new_storage(state, nbytes, device)
    s = state_at(state)
    if storage == 0 and s.outstanding != 0:  # the pool's free blocks can be returned once no outstanding work may use them
        status = wait_for_all(state, _MEMORY) + 0
        if status != 0:
            return status
        storage = new_storage(state, nbytes, device)
    if storage == 0:
        return OUT_OF_MEMORY
    set_register(state, dst, storage)
    if s.tracing != TRACE_OFF:
        now = clock_ns()
        record_event(state, EVENT_ALLOC, pc, device, now, now, nbytes)
    return OK


@native
def shape_vector(at):
    """Check for an int64 vector on the host, with no more elements than a tensor has axes; a status."""
    t = tensor(at)
    if t.tag != TAG_TENSOR or t.dtype != _INT64 or t.ndim != 1 or t.shape[0] > MAX_RANK:
        return INTERNAL
    return OK if t.device == 0 else NOT_ON_HOST


@native
def alloc_storage_reg(state, at, regs, pc):
    shape = load_i64(regs + 8 * load_i64(at + 16))
    status = shape_vector(shape)
    if status != OK:
        return status
    t = tensor(shape)
    nbytes = checked_bytes(t.data, t.shape[0], load_i64(at + 24))
    return alloc_storage(state, regs + 8 * load_i64(at + 8), nbytes, load_i64(at + 32), pc)


@native
def take_storage(state, at, regs, pc):
    """Reuse the storage of a dead tensor, or allocate one; a status.

    Storages of tensors that the caller holds, of inputs that were not donated, of constants and of views are never reused.
    """
    source, device = load_i64(regs + 8 * load_i64(at + 16)), load_i64(at + 24)
    t = tensor(source)
    if t.tag != TAG_TENSOR:
        return INTERNAL
    storage = t.storage
    if storage != 0 and t.refcount == 1:
        block = tensor(storage)
        if block.refcount == 1 and block.device == device and block.data == t.data:
            set_register(state, regs + 8 * load_i64(at + 8), retain(storage))
            return OK
    return alloc_storage(state, regs + 8 * load_i64(at + 8), n_bytes(source), device, pc)


@native
def make_tensor(state, dst, storage, offset, dtype, shape, ndim):
    """Make a tensor in part of a storage, with the sizes at address ``shape``; a status."""
    block = tensor(storage)
    if block.tag != TAG_STORAGE:
        return INTERNAL
    nbytes = checked_bytes(shape, ndim, dtype)
    if nbytes < 0:
        return status_of_bytes(nbytes)
    if offset + nbytes > block.shape[0]:
        return INTERNAL
    at = new_object(state, TAG_TENSOR)
    if at == 0:
        return OUT_OF_MEMORY
    t = tensor(at)
    t.ndim = ndim
    t.dtype = dtype
    t.device = block.device
    t.data = block.data + offset
    t.storage = retain(storage)
    if state_at(state).poison != 0:
        link_tensor(at, nbytes)
    for i in range(ndim):
        t.shape[i] = load_i64(shape + 8 * i)
    set_register(state, dst, at)
    return OK


@native
def alloc_tensor_reg(state, at, regs):
    shape = load_i64(regs + 8 * load_i64(at + 32))
    status = shape_vector(shape)
    if status != OK:
        return status
    t = tensor(shape)
    storage = load_i64(regs + 8 * load_i64(at + 16))
    dst = regs + 8 * load_i64(at + 8)
    return make_tensor(state, dst, storage, load_i64(at + 24), load_i64(at + 40), t.data, t.shape[0])


@native
def make_record(state, at, regs, tag):
    """Make the object of AllocADT or AllocClosure; a status."""
    n = load_i64(at + 24)
    made = new_record(state, tag, load_i64(at + 16), n)
    if made == 0:
        return OUT_OF_MEMORY
    fields = tensor(made).data
    for i in range(n):
        store_i64(fields + 8 * i, retain(load_i64(regs + 8 * load_i64(at + 32 + 8 * i))))
    set_register(state, regs + 8 * load_i64(at + 8), made)
    return OK


@native
def get_field(state, at, regs):
    source, index = load_i64(regs + 8 * load_i64(at + 16)), load_i64(at + 24)
    o = tensor(source)
    if o.tag != TAG_ADT or index >= o.count:
        return INTERNAL
    set_register(state, regs + 8 * load_i64(at + 8), retain(load_i64(o.data + 8 * index)))
    return OK


@native
def truth_value(at):
    """The truth value of a host tensor of one element, 1 or 0; -1 for a device tensor, -2 for anything else."""
    t = tensor(at)
    if t.tag != TAG_TENSOR or n_elements(at) != 1:
        return -2
    if t.device != 0:
        return -1
    for i in range(itemsize(t.dtype)):
        if load_u8(t.data + i) != 0:
            return 1
    return 0


@native
def load_const(state, at, regs, pc):
    s = state_at(state)
    device = load_i64(at + 24)
    row = s.constants + 8 * N_DEVICES * load_i64(at + 16)
    found = load_i64(row + 8 * device)
    if found == 0:
        found = host_to_device(state, load_i64(row), device, pc, -1, True)
        if found == 0:
            return s.status
        store_i64(row + 8 * device, found)
    set_register(state, regs + 8 * load_i64(at + 8), retain(found))
    return OK


@native
def shape_of(state, at, regs):
    source = load_i64(regs + 8 * load_i64(at + 16))
    t = tensor(source)
    if t.tag != TAG_TENSOR:
        return INTERNAL
    made = vector(state, t.ndim)
    if made == 0:
        return OUT_OF_MEMORY
    for i in range(t.ndim):
        tensor(made).payload[i] = t.shape[i]
    set_register(state, regs + 8 * load_i64(at + 8), made)
    return OK


@native
def device_copy(state, at, regs, pc):
    source = load_i64(regs + 8 * load_i64(at + 16))
    to, reason = load_i64(at + 32), load_i64(at + 40)
    t = tensor(source)
    if t.tag != TAG_TENSOR:
        return INTERNAL
    if t.device == to:
        made = retain(source)
    elif to == 0:
        made = device_to_host(state, source, pc, reason)
    else:
        made = host_to_device(state, source, to, pc, reason, False)
    if made == 0:
        return state_at(state).status
    set_register(state, regs + 8 * load_i64(at + 8), made)
    return OK


@native
def copy_begin(state, at, regs, pc):
    source = load_i64(regs + 8 * load_i64(at + 16))
    if tensor(source).tag != TAG_TENSOR or tensor(source).device == 0:
        return INTERNAL
    made = begin_copy_or_wait(state, source, pc, load_i64(at + 32))
    if made == 0:
        return state_at(state).status
    set_register(state, regs + 8 * load_i64(at + 8), made)
    return OK


@native
def copy_wait(state, at, regs):
    s = state_at(state)
    held = regs + 8 * load_i64(at + 16)
    pending = load_i64(held)
    if tensor(pending).tag != TAG_PENDING:
        return INTERNAL
    store_i64(held, 0)
    made = end_copy(state, pending, load_i64(s.reason_kinds + 8 * tensor(pending).dtype), 0)
    if made == 0:
        return s.status
    set_register(state, regs + 8 * load_i64(at + 8), made)
    return OK


@native
def invoke_shape_func(state, at, regs, pc):
    s = state_at(state)
    n = load_i64(at + 16)
    for i in range(n):
        source = load_i64(regs + 8 * load_i64(at + 24 + 8 * i))
        if tensor(source).tag != TAG_TENSOR:
            return INTERNAL
        store_i64(s.argv + 8 * i, source)
    outs = s.argv + 8 * n
    dsts = at + 32 + 8 * n
    n_outs = load_i64(dsts - 8)
    fill_bytes(outs, 0, 8 * n_outs)
    start = clock_ns() if s.tracing != TRACE_OFF else 0
    status = evaluate(state, load_i64(s.shape_programs + 8 * load_i64(at + 8)), s.argv, outs)
    s.shape_func_calls += 1
    if s.tracing != TRACE_OFF:
        record_shape_func(state, pc, load_i64(at + 8), start, s.argv, n)
    for i in range(n_outs):
        made = load_i64(outs + 8 * i)
        if status == OK:
            set_register(state, regs + 8 * load_i64(dsts + 8 * i), made)
        elif made != 0:  # registers stay unchanged: an argument may be in one of them, and its value is in the error's text
            release(state, made)
    return status


@native
def load_consti(state, at, regs):
    made = scalar(state, load_i64(at + 16))
    if made == 0:
        return OUT_OF_MEMORY
    set_register(state, regs + 8 * load_i64(at + 8), made)
    return OK


@native
def get_tag(state, at, regs):
    source = load_i64(regs + 8 * load_i64(at + 16))
    if tensor(source).tag != TAG_ADT:
        return INTERNAL
    made = scalar(state, tensor(source).dtype)
    if made == 0:
        return OUT_OF_MEMORY
    set_register(state, regs + 8 * load_i64(at + 8), made)
    return OK
