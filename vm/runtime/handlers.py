"""Handlers of launches, allocations and copies, as machine code: see ``bytecode.dispatch``."""

from __future__ import annotations

from ...ops.core.tensor_types import DTYPES, MAX_RANK
from ...ops.native.c_functions import call_4
from ...ops.native.inlining import keep_out_of_line
from ...ops.native.memory import clock_ns, load_i64, native, store_i64, tensor
from ...ops.native.object_layout import TAG_ADT, TAG_CLOSURE, TAG_PENDING, TAG_STORAGE, TAG_TENSOR
from ...ops.native.objects import adt_at, pending_at, storage_at
from ...ops.native.status import INTERNAL, NOT_ON_HOST, OK, OUT_OF_MEMORY
from ..bytecode import isa
from ..bytecode.dispatch import handles
from ..bytecode.sync_reason import SyncReason, number_of
from ..state.state_layout import (
    EVENT_ALLOC,
    HOST_CALL,
    N_DEVICES,
    PACKED_BYTES,
    SHAPE_PROGRAM_BYTES,
    TRACE_OFF,
    demands_at,
    packed_at,
    shape_program_at,
    state_at,
)
from .frames import set_register
from .launch_check import gather_operands
from .objects.chunks import new_object, size_of_tensor
from .objects.cycles import collect_cycles
from .objects.heap import (
    checked_bytes,
    n_bytes,
    new_record,
    new_storage,
    retain,
    scalar,
    status_of_bytes,
    vector,
)
from .objects.poison import link_tensor
from .shape_eval import evaluate
from .stream import (
    arguments_match,
    begin_copy_or_wait,
    device_to_host,
    end_copy,
    host_to_device,
    launch,
    wait_for_all,
)
from .tracing.event_trace import record_event, record_shape_func

_INT64 = DTYPES.index("int64")
_MEMORY = number_of(SyncReason.MEMORY)


@handles(isa.InvokePacked)
@native
def invoke_packed(state: int, pc: int, regs: int, packed: int, n_outputs: int, args: int, n_args: int) -> int:
    """Launch a kernel; a status, or HOST_CALL negated for a kernel in Python."""
    s = state_at(state)
    row = packed_at(s.packed + PACKED_BYTES * packed)
    argv = s.argv
    gather_operands(argv, regs, args, n_args)
    if not arguments_match(row.types, argv, n_args):
        return INTERNAL
    demands = row.demands
    if demands != 0:
        status = call_4(demands_at(demands).check, state, demands, regs, args)
        if status != OK:
            return status
    if row.function == 0:
        return -HOST_CALL
    return launch(state, packed, argv, n_args, n_outputs, pc)


@native
def storage_after_all(state: int, nbytes: int, device: int) -> int:
    """A storage once outstanding work has ended, which may use free blocks, and cycles are freed; or a negated status."""
    keep_out_of_line()
    s = state_at(state)
    if s.outstanding != 0:
        status = wait_for_all(state, _MEMORY) + 0
        if status != 0:
            return -status
        storage = new_storage(state, nbytes, device)
        if storage != 0:
            return storage
    if s.search_at != 0 and collect_cycles(state) > 0:
        storage = new_storage(state, nbytes, device)
        if storage != 0:
            return storage
    return -OUT_OF_MEMORY


@handles(isa.AllocStorage)
@native
def alloc_storage(state: int, dst: int, nbytes: int, device: int, pc: int) -> int:
    """Allocate a storage into ``dst``; a status."""
    if nbytes < 0:
        return status_of_bytes(nbytes)
    storage = new_storage(state, nbytes, device)
    s = state_at(state)
    if storage == 0:
        storage = storage_after_all(state, nbytes, device)
        if storage <= 0:
            return -storage
    set_register(state, dst, storage)
    if s.tracing != TRACE_OFF:
        now = clock_ns()
        record_event(state, EVENT_ALLOC, pc, device, now, now, nbytes)
    return OK


@native
def shape_vector(at: int) -> int:
    """Check for an int64 vector on the host, with no more elements than a tensor has axes; a status."""
    t = tensor(at)
    if t.tag != TAG_TENSOR or t.dtype != _INT64 or t.ndim != 1 or t.shape[0] > MAX_RANK:
        return INTERNAL
    return OK if t.device == 0 else NOT_ON_HOST


@handles(isa.AllocStorageReg)
@native
def alloc_storage_reg(state: int, pc: int, dst: int, shape: int, dtype: int, device: int) -> int:
    status = shape_vector(shape)
    if status != OK:
        return status
    t = tensor(shape)
    nbytes = checked_bytes(t.data, t.shape[0], dtype)
    return alloc_storage(state, dst, nbytes, device, pc)


@handles(isa.TakeStorage)
@native
def take_storage(state: int, pc: int, dst: int, src: int, device: int) -> int:
    """Reuse the storage of a dead tensor, or allocate one; a status.

    Storages of tensors that the caller holds, of inputs that were not donated, of constants and of views are never reused.
    """
    t = tensor(src)
    if t.tag != TAG_TENSOR:
        return INTERNAL
    storage = t.storage
    if storage != 0 and t.refcount == 1:
        block = storage_at(storage)
        if block.refcount == 1 and block.device == device and block.data == t.data:
            set_register(state, dst, retain(storage))
            return OK
    return alloc_storage(state, dst, n_bytes(src), device, pc)


@handles(isa.AllocTensor)
@native
def alloc_tensor(state: int, dst: int, storage: int, offset: int, dtype: int, dims: int, n_dims: int) -> int:
    """Make a tensor in part of a storage, of ``n_dims`` sizes; a status."""
    block = storage_at(storage)
    if block.tag != TAG_STORAGE:
        return INTERNAL
    nbytes = checked_bytes(dims, n_dims, dtype)
    if nbytes < 0:
        return status_of_bytes(nbytes)
    if offset + nbytes > block.nbytes:
        return INTERNAL
    made = new_object(state, TAG_TENSOR, size_of_tensor(state, n_dims))
    if made == 0:
        return OUT_OF_MEMORY
    t = tensor(made)
    t.ndim = n_dims
    t.dtype = dtype
    t.device = block.device
    t.data = block.data + offset
    t.storage = retain(storage)
    if state_at(state).poison != 0:
        link_tensor(made, nbytes)
    for i in range(n_dims):
        t.shape[i] = load_i64(dims + 8 * i)
    set_register(state, dst, made)
    return OK


@handles(isa.AllocTensorReg)
@native
def alloc_tensor_reg(state: int, dst: int, storage: int, offset: int, shape: int, dtype: int) -> int:
    status = shape_vector(shape)
    if status != OK:
        return status
    t = tensor(shape)
    return alloc_tensor(state, dst, storage, offset, dtype, t.data, t.shape[0])


@handles(isa.LoadConst)
@native
def load_const(state: int, pc: int, dst: int, const: int, device: int) -> int:
    s = state_at(state)
    row = s.constants + 8 * N_DEVICES * const
    found = load_i64(row + 8 * device)
    if found == 0:
        found = host_to_device(state, load_i64(row), device, pc, -1, 1)
        if found == 0:
            return s.status
        store_i64(row + 8 * device, found)
    set_register(state, dst, retain(found))
    return OK


@handles(isa.ShapeOf)
@native
def shape_of(state: int, dst: int, src: int) -> int:
    t = tensor(src)
    if t.tag != TAG_TENSOR:
        return INTERNAL
    made = vector(state, t.ndim)
    if made == 0:
        return OUT_OF_MEMORY
    for i in range(t.ndim):
        tensor(made).payload[i] = t.shape[i]
    set_register(state, dst, made)
    return OK


@handles(isa.DeviceCopy)
@native
def device_copy(state: int, pc: int, dst: int, src: int, dst_device: int, reason: int) -> int:
    t = tensor(src)
    if t.tag != TAG_TENSOR:
        return INTERNAL
    if t.device == dst_device:
        made = retain(src)
    elif dst_device == 0:
        made = device_to_host(state, src, pc, reason)
    else:
        made = host_to_device(state, src, dst_device, pc, reason, False)
    if made == 0:
        return state_at(state).status
    set_register(state, dst, made)
    return OK


@handles(isa.CopyBegin)
@native
def copy_begin(state: int, pc: int, dst: int, src: int, reason: int) -> int:
    if tensor(src).tag != TAG_TENSOR or tensor(src).device == 0:
        return INTERNAL
    made = begin_copy_or_wait(state, src, pc, reason)
    if made == 0:
        return state_at(state).status
    set_register(state, dst, made)
    return OK


@handles(isa.CopyWait)
@native
def copy_wait(state: int, dst: int, src: int) -> int:
    s = state_at(state)
    pending = load_i64(src)
    if pending_at(pending).tag != TAG_PENDING:
        return INTERNAL
    store_i64(src, 0)
    made = end_copy(state, pending, load_i64(s.reason_kinds + 8 * pending_at(pending).reason), 0)
    if made == 0:
        return s.status
    set_register(state, dst, made)
    return OK


@handles(isa.InvokeShapeFunc)
@native
def invoke_shape_func(state: int, pc: int, regs: int, func: int, args: int, n_args: int, dsts: int, n_dsts: int) -> int:
    s = state_at(state)
    for i in range(n_args):
        source = load_i64(regs + 8 * load_i64(args + 8 * i))
        if tensor(source).tag != TAG_TENSOR:
            return INTERNAL
        store_i64(s.argv + 8 * i, source)
    outs = s.argv + 8 * n_args
    start = clock_ns() if s.tracing != TRACE_OFF else 0
    program = shape_program_at(s.shape_programs + SHAPE_PROGRAM_BYTES * func)
    status = evaluate(state, program.words, program.slots, s.argv, outs)
    s.shape_func_calls += 1
    if s.tracing != TRACE_OFF:
        record_shape_func(state, pc, func, start, s.argv, n_args)
    if status != OK:  # registers stay unchanged: an argument may be in one of them, and its value is in the error's text
        return status
    for i in range(n_dsts):
        set_register(state, regs + 8 * load_i64(dsts + 8 * i), load_i64(outs + 8 * i))
    return OK


@handles(isa.LoadConsti)
@native
def load_consti(state: int, dst: int, val: int) -> int:
    made = scalar(state, val)
    if made == 0:
        return OUT_OF_MEMORY
    set_register(state, dst, made)
    return OK


@handles(isa.GetTag)
@native
def get_tag(state: int, dst: int, object: int) -> int:
    if adt_at(object).tag != TAG_ADT:
        return INTERNAL
    made = scalar(state, adt_at(object).constructor)
    if made == 0:
        return OUT_OF_MEMORY
    set_register(state, dst, made)
    return OK


@native
def make_record(state: int, regs: int, dst: int, tag: int, number: int, values: int, n: int) -> int:
    """Make a tuple or closure of ``n`` registers' values; a status."""
    made = new_record(state, tag, number, n)
    if made == 0:
        return OUT_OF_MEMORY
    fields = adt_at(made).fields
    for i in range(n):
        store_i64(fields + 8 * i, retain(load_i64(regs + 8 * load_i64(values + 8 * i))))
    set_register(state, dst, made)
    return OK


@handles(isa.AllocADT)
@native
def alloc_adt(state: int, regs: int, dst: int, tag: int, values: int, n_values: int) -> int:
    return make_record(state, regs, dst, TAG_ADT, tag, values, n_values)


@handles(isa.AllocClosure)
@native
def alloc_closure(state: int, regs: int, dst: int, func: int, captured: int, n_captured: int) -> int:
    return make_record(state, regs, dst, TAG_CLOSURE, func, captured, n_captured)


@handles(isa.GetField)
@native
def get_field(state: int, dst: int, object: int, index: int) -> int:
    o = adt_at(object)
    if o.tag != TAG_ADT or index >= o.n_fields:
        return INTERNAL
    set_register(state, dst, retain(load_i64(o.fields + 8 * index)))
    return OK


@handles(isa.SetField)
@native
def set_field(state: int, object: int, index: int, src: int) -> int:
    o = adt_at(object)
    if o.tag != TAG_ADT or index >= o.n_fields:
        return INTERNAL
    set_register(state, o.fields + 8 * index, retain(src))
    s = state_at(state)
    if s.live_objects > s.search_at:
        collect_cycles(state)
    return OK
