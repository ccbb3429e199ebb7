"""The interpreter, as machine code: one call runs until there is a reason to return, and can be entered again there.

Registers hold object addresses; a register owns what it holds.  The bytecode was verified, so register numbers, jumps
and tables are in range; kinds of objects are checked here, because bytecode says nothing about them.
"""

from __future__ import annotations

from ..ops.native.layout import TAG_ADT, TAG_CLOSURE, TAG_STORAGE, TAG_TENSOR
from ..ops.native.memory import (
    alloc,
    clock_ns,
    copy_bytes,
    fill_bytes,
    free,
    load_i64,
    load_u8,
    native,
    store_i64,
    tensor,
)
from ..ops.native.status import (
    INTERNAL,
    NO_MATCH,
    NOT_ON_HOST,
    OK,
    OUT_OF_MEMORY,
    SHAPE_CHECK,
    STACK_OVERFLOW,
)
from ..ops.ty import DTYPES, MAX_RANK
from . import isa
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
    view,
)
from .layout import (
    DONE,
    EVENT_ALLOC,
    FAILED,
    FRAME_WORDS,
    FUNCTION_WORDS,
    HOST_CALL,
    N_DEVICES,
    OUT_OF_FUEL,
    PACKED_WORDS,
    TRACE_OFF,
    state_at,
)
from .shape_eval import evaluate
from .stream import arguments_fit, device_to_host, host_to_device, launch, record_event, record_shape_func

MOVE, RET, INVOKE, INVOKE_CLOSURE = (i.opcode for i in (isa.Move, isa.Ret, isa.Invoke, isa.InvokeClosure))
INVOKE_PACKED, ALLOC_TENSOR, ALLOC_TENSOR_REG = (i.opcode for i in (isa.InvokePacked, isa.AllocTensor, isa.AllocTensorReg))
ALLOC_ADT, ALLOC_CLOSURE, GET_FIELD, IF = (i.opcode for i in (isa.AllocADT, isa.AllocClosure, isa.GetField, isa.If))
LOAD_CONST, GOTO, GET_TAG, LOAD_CONSTI = (i.opcode for i in (isa.LoadConst, isa.Goto, isa.GetTag, isa.LoadConsti))
FATAL, ALLOC_STORAGE, SHAPE_OF, RESHAPE_TENSOR = (i.opcode for i in (isa.Fatal, isa.AllocStorage, isa.ShapeOf, isa.ReshapeTensor))
DEVICE_COPY, KILL_REGISTER, INVOKE_SHAPE_FUNC = (i.opcode for i in (isa.DeviceCopy, isa.KillRegister, isa.InvokeShapeFunc))
ALLOC_STORAGE_REG, TRIM_TENSOR, INVOKE_TAIL, INVOKE_CLOSURE_TAIL = (
    i.opcode for i in (isa.AllocStorageReg, isa.TrimTensor, isa.InvokeTail, isa.InvokeClosureTail)
)

_INT64 = DTYPES.index("int64")

#: Calls and launches between two looks at the clock, and how long the loop runs before it lets Python look for Ctrl-C.
_FUEL, _SLICE_NS = 16, 50_000_000


@native
def set_register(state, at, value):
    """Put an owned object into the register at an address, releasing what was there."""
    old = load_i64(at)
    store_i64(at, value)
    if old != 0:
        release(state, old)


@native
def out_of_time(state):
    """Is the time slice over?"""
    s = state_at(state)
    now = clock_ns()
    if s.deadline_ns == 0:
        s.deadline_ns = now + _SLICE_NS
        return False
    return now > s.deadline_ns


# ---- calls ------------------------------------------------------------------------------------------------------------


@native
def make_room(state, top):
    """Let the stack hold ``top`` words; False when that is more than allowed."""
    s = state_at(state)
    if top <= s.stack_words:
        return True
    if top > s.stack_limit:
        return False
    words = min(max(2 * s.stack_words, top), s.stack_limit)
    block = alloc(8 * words)
    if block == 0:
        return False
    copy_bytes(block, s.stack, 8 * s.stack_words)
    free(s.stack)
    s.stack = block
    s.stack_words = words
    return True


@native
def gather(regs, operands, n, captured, to):
    """Owned references to the captured values of a closure (0: none), then to ``n`` registers; how many in all."""
    count = 0
    if captured != 0:
        c = tensor(captured)
        for i in range(c.count):
            store_i64(to + 8 * i, retain(load_i64(c.data + 8 * i)))
        count = c.count
    for i in range(n):
        store_i64(to + 8 * (count + i), retain(load_i64(regs + 8 * load_i64(operands + 8 * i))))
    return count + n


@native
def release_frame(state, regs, n):
    for i in range(n):
        held = load_i64(regs + 8 * i)
        if held != 0:
            store_i64(regs + 8 * i, 0)
            release(state, held)


@native
def fill_frame(state, function, base, given):
    """Put ``given`` gathered arguments into a frame at ``base``, the other registers empty; False when the stack is full."""
    s = state_at(state)
    row = s.functions + 8 * FUNCTION_WORDS * function
    n_registers = load_i64(row + 8)
    if not make_room(state, base + n_registers + FRAME_WORDS):
        for i in range(given):
            release(state, load_i64(s.argv + 8 * i))
        return False
    regs = s.stack + 8 * base
    for i in range(given):
        store_i64(regs + 8 * i, load_i64(s.argv + 8 * i))
    for i in range(given, n_registers):
        store_i64(regs + 8 * i, 0)
    s.base = base
    s.n_registers = n_registers
    s.pc = load_i64(row)
    return True


@native
def call(state, function, captured, regs, operands, n, dst, return_pc):
    """Enter a function in a frame of its own; a status."""
    s = state_at(state)
    given = gather(regs, operands, n, captured, s.argv)
    if given != load_i64(s.functions + 8 * (FUNCTION_WORDS * function + 2)):
        for i in range(given):
            release(state, load_i64(s.argv + 8 * i))
        return INTERNAL
    base, n_registers = s.base, s.n_registers
    top = base + n_registers
    if not fill_frame(state, function, top + FRAME_WORDS, given):
        return STACK_OVERFLOW
    header = s.stack + 8 * top
    store_i64(header, return_pc)
    store_i64(header + 8, base)
    store_i64(header + 16, n_registers)
    store_i64(header + 24, dst)
    return OK


@native
def call_tail(state, function, captured, regs, operands, n):
    """Enter a function in this frame's place; a status."""
    s = state_at(state)
    given = gather(regs, operands, n, captured, s.argv)
    if given != load_i64(s.functions + 8 * (FUNCTION_WORDS * function + 2)):
        for i in range(given):
            release(state, load_i64(s.argv + 8 * i))
        return INTERNAL
    release_frame(state, regs, s.n_registers)
    s.n_registers = 0
    return OK if fill_frame(state, function, s.base, given) else STACK_OVERFLOW


@native
def unwind(state):
    """Release every register of every frame."""
    s = state_at(state)
    while s.base > 0:
        release_frame(state, s.stack + 8 * s.base, s.n_registers)
        header = s.stack + 8 * (s.base - FRAME_WORDS)
        s.n_registers = load_i64(header + 16)
        s.base = load_i64(header + 8)


@native
def open_frame(state, function, n):
    """The first frame of a run, with the ``n`` arguments at the state's ``argv``; what was given up meanwhile goes first."""
    s = state_at(state)
    for i in range(s.n_deferred):
        release(state, load_i64(s.deferred + 8 * i))
    s.n_deferred = 0
    row = s.functions + 8 * FUNCTION_WORDS * function
    for i in range(FRAME_WORDS):
        store_i64(s.stack + 8 * i, 0)
    registers = s.stack + 8 * FRAME_WORDS
    n_registers = load_i64(row + 8)
    for i in range(n):
        store_i64(registers + 8 * i, load_i64(s.argv + 8 * i))
    for i in range(n, n_registers):
        store_i64(registers + 8 * i, 0)
    s.base = FRAME_WORDS
    s.n_registers = n_registers
    s.pc = load_i64(row)
    s.status = 0
    s.error_pc = -1
    s.result = 0
    s.deadline_ns = 0


# ---- instructions that take more than a line ----------------------------------------------------------------------------


@native
def invoke_packed(state, at, regs, pc):
    """A kernel launch; a status, or HOST_CALL negated when the kernel lives in Python."""
    s = state_at(state)
    packed, n = load_i64(at + 8), load_i64(at + 24)
    row = s.packed + 8 * PACKED_WORDS * packed
    argv = s.argv
    for i in range(n):
        store_i64(argv + 8 * i, load_i64(regs + 8 * load_i64(at + 32 + 8 * i)))
    if not arguments_fit(load_i64(row + 16), argv, n, load_i64(row + 8)):
        return INTERNAL
    if load_i64(row) == 0:
        return -HOST_CALL
    return launch(state, packed, argv, n, pc)


@native
def alloc_storage(state, dst, nbytes, device, pc):
    """A status; the storage goes to ``dst``."""
    if nbytes < 0:
        return status_of_bytes(nbytes)
    storage = new_storage(state, nbytes, device)
    if storage == 0:
        return OUT_OF_MEMORY
    set_register(state, dst, storage)
    s = state_at(state)
    if s.tracing != TRACE_OFF:
        now = clock_ns()
        record_event(state, EVENT_ALLOC, pc, device, now, now, nbytes)
    return OK


@native
def shape_vector(at):
    """A status: is this an int64 vector on the host, with no more elements than a tensor has axes?"""
    t = tensor(at)
    if t.tag != TAG_TENSOR or t.dtype != _INT64:
        return INTERNAL
    if t.device != 0:
        return NOT_ON_HOST
    return OK if n_elements(at) <= MAX_RANK else INTERNAL


@native
def alloc_storage_reg(state, at, regs, pc):
    shape = load_i64(regs + 8 * load_i64(at + 16))
    status = shape_vector(shape)
    if status != OK:
        return status
    t = tensor(shape)
    nbytes = checked_bytes(t.data, n_elements(shape), load_i64(at + 24))
    return alloc_storage(state, regs + 8 * load_i64(at + 8), nbytes, load_i64(at + 32), pc)


@native
def tensor_in(state, dst, storage, offset, dtype, shape, ndim):
    """A tensor over part of a storage, with the sizes at address ``shape``; a status."""
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
    return tensor_in(state, dst, storage, load_i64(at + 24), load_i64(at + 40), t.data, n_elements(shape))


@native
def make_record(state, at, regs, tag):
    """AllocADT and AllocClosure; a status."""
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
def truth(at):
    """1 or 0 for a host scalar, -1 where it is none."""
    t = tensor(at)
    if t.tag != TAG_TENSOR or t.device != 0:
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
def reshape_tensor(state, at, regs):
    source = load_i64(regs + 8 * load_i64(at + 16))
    shape = load_i64(regs + 8 * load_i64(at + 24))
    t, to = tensor(source), tensor(shape)
    if t.tag != TAG_TENSOR:
        return INTERNAL
    status = shape_vector(shape)
    if status != OK:
        return status
    ndim = n_elements(shape)
    if checked_bytes(to.data, ndim, t.dtype) != n_bytes(source):
        return SHAPE_CHECK
    made = view(state, source, t.dtype)
    if made == 0:
        return OUT_OF_MEMORY
    tensor(made).ndim = ndim
    for i in range(ndim):
        tensor(made).shape[i] = load_i64(to.data + 8 * i)
    set_register(state, regs + 8 * load_i64(at + 8), made)
    return OK


@native
def trim_tensor(state, at, regs):
    source = load_i64(regs + 8 * load_i64(at + 16))
    counts = load_i64(regs + 8 * load_i64(at + 24))
    index = load_i64(at + 32)
    t, c = tensor(source), tensor(counts)
    if t.tag != TAG_TENSOR or t.ndim == 0 or index >= n_elements(counts):
        return INTERNAL
    status = shape_vector(counts)
    if status != OK:
        return status
    count = load_i64(c.data + 8 * index)
    if count < 0 or count > t.shape[0]:
        return INTERNAL
    made = view(state, source, t.dtype)
    if made == 0:
        return OUT_OF_MEMORY
    tensor(made).ndim = t.ndim
    for i in range(t.ndim):
        tensor(made).shape[i] = t.shape[i]
    tensor(made).shape[0] = count
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
        set_register(state, regs + 8 * load_i64(dsts + 8 * i), load_i64(outs + 8 * i))
    return status


# ---- the loop -------------------------------------------------------------------------------------------------------------


@native
def run_loop(state):
    """Run from the state's frame and pc until there is a reason to return; the reason."""
    s = state_at(state)
    code = s.code
    pc, regs = s.pc, s.stack + 8 * s.base
    n_instructions, fuel = 0, _FUEL
    status, reason = 0, DONE
    while True:
        at = code + 8 * pc
        op = load_i64(at)
        n_instructions += 1
        if op == INVOKE_PACKED:
            fuel -= 1
            if fuel < 0:
                fuel = _FUEL
                if out_of_time(state):
                    reason = OUT_OF_FUEL
                    break
            status = invoke_packed(state, at, regs, pc)
            if status != 0:
                if status == -HOST_CALL:
                    reason, status = HOST_CALL, 0
                break
            pc += 4 + load_i64(at + 24)
        elif op == ALLOC_STORAGE:
            status = alloc_storage(state, regs + 8 * load_i64(at + 8), load_i64(at + 16), load_i64(at + 24), pc)
            if status != 0:
                break
            pc += 4
        elif op == ALLOC_TENSOR:
            storage = load_i64(regs + 8 * load_i64(at + 16))
            dst = regs + 8 * load_i64(at + 8)
            n = load_i64(at + 40)
            status = tensor_in(state, dst, storage, load_i64(at + 24), load_i64(at + 32), at + 48, n)
            if status != 0:
                break
            pc += 6 + n
        elif op == ALLOC_STORAGE_REG:
            status = alloc_storage_reg(state, at, regs, pc)
            if status != 0:
                break
            pc += 5
        elif op == ALLOC_TENSOR_REG:
            status = alloc_tensor_reg(state, at, regs)
            if status != 0:
                break
            pc += 6
        elif op == KILL_REGISTER:
            n = load_i64(at + 8)
            for i in range(n):
                set_register(state, regs + 8 * load_i64(at + 16 + 8 * i), 0)
            pc += 2 + n
        elif op == MOVE:
            set_register(state, regs + 8 * load_i64(at + 8), retain(load_i64(regs + 8 * load_i64(at + 16))))
            pc += 3
        elif op == IF:
            taken = truth(load_i64(regs + 8 * load_i64(at + 8)))
            if taken < 0:
                status = NOT_ON_HOST
                break
            pc += load_i64(at + 16) if taken == 1 else load_i64(at + 24)
        elif op == GOTO:
            fuel -= 1
            if fuel < 0:
                fuel = _FUEL
                if out_of_time(state):
                    reason = OUT_OF_FUEL
                    break
            pc += load_i64(at + 8)
        elif op == LOAD_CONST:
            status = load_const(state, at, regs, pc)
            if status != 0:
                break
            pc += 4
        elif op == LOAD_CONSTI:
            made = scalar(state, load_i64(at + 16))
            if made == 0:
                status = OUT_OF_MEMORY
                break
            set_register(state, regs + 8 * load_i64(at + 8), made)
            pc += 3
        elif op == SHAPE_OF:
            status = shape_of(state, at, regs)
            if status != 0:
                break
            pc += 3
        elif op == INVOKE_SHAPE_FUNC:
            status = invoke_shape_func(state, at, regs, pc)
            if status != 0:
                break
            n = load_i64(at + 16)
            pc += 4 + n + load_i64(at + 24 + 8 * n)
        elif op == INVOKE or op == INVOKE_CLOSURE or op == INVOKE_TAIL or op == INVOKE_CLOSURE_TAIL:
            fuel -= 1
            if fuel < 0:
                fuel = _FUEL
                if out_of_time(state):
                    reason = OUT_OF_FUEL
                    break
            # dst comes first, except in a tail call, which has none
            tail = op == INVOKE_TAIL or op == INVOKE_CLOSURE_TAIL
            first = at + 8 if tail else at + 16
            function = load_i64(first)
            captured = 0
            if op == INVOKE_CLOSURE or op == INVOKE_CLOSURE_TAIL:
                captured = load_i64(regs + 8 * function)
                if tensor(captured).tag != TAG_CLOSURE:
                    status = INTERNAL
                    break
                function = tensor(captured).dtype
            n = load_i64(first + 8)
            s.pc = pc
            if tail:
                status = call_tail(state, function, captured, regs, first + 16, n)
            else:
                status = call(state, function, captured, regs, first + 16, n, load_i64(at + 8), pc + 4 + n)
            if status != 0:
                break
            pc, regs = s.pc, s.stack + 8 * s.base
        elif op == RET:
            held = regs + 8 * load_i64(at + 8)
            value = load_i64(held)
            store_i64(held, 0)
            release_frame(state, regs, s.n_registers)
            header = regs - 8 * FRAME_WORDS
            base = load_i64(header + 8)
            s.n_registers = load_i64(header + 16)
            s.base = base
            if base == 0:
                s.result = value
                break
            pc = load_i64(header)
            regs = s.stack + 8 * base
            set_register(state, regs + 8 * load_i64(header + 24), value)
        elif op == ALLOC_ADT or op == ALLOC_CLOSURE:
            status = make_record(state, at, regs, TAG_ADT if op == ALLOC_ADT else TAG_CLOSURE)
            if status != 0:
                break
            pc += 4 + load_i64(at + 24)
        elif op == GET_FIELD:
            status = get_field(state, at, regs)
            if status != 0:
                break
            pc += 4
        elif op == DEVICE_COPY:
            status = device_copy(state, at, regs, pc)
            if status != 0:
                break
            pc += 6
        elif op == RESHAPE_TENSOR:
            status = reshape_tensor(state, at, regs)
            if status != 0:
                break
            pc += 4
        elif op == TRIM_TENSOR:
            status = trim_tensor(state, at, regs)
            if status != 0:
                break
            pc += 5
        elif op == GET_TAG:
            source = load_i64(regs + 8 * load_i64(at + 16))
            if tensor(source).tag != TAG_ADT:
                status = INTERNAL
                break
            made = scalar(state, tensor(source).dtype)
            if made == 0:
                status = OUT_OF_MEMORY
                break
            set_register(state, regs + 8 * load_i64(at + 8), made)
            pc += 3
        elif op == FATAL:
            status = NO_MATCH
            break
        else:
            status = INTERNAL
            break
    s.pc = pc
    s.instructions += n_instructions
    if status != 0:
        if s.error_pc < 0:
            s.error_pc = pc
        s.status = status
        reason = FAILED
    s.reason = reason
    return reason
