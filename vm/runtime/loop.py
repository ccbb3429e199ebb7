"""The interpreter loop, as machine code: one call runs until there is a reason to return, and a later call resumes there.

Registers hold object addresses; a register owns its object.  The bytecode was verified, so register numbers, jumps and tables are
in range.  ``handlers`` checks the kinds of objects, because bytecode has no types.
"""

from __future__ import annotations

from ...ops.native.memory import clock_ns, load_i64, native, store_i64, tensor
from ...ops.native.object_layout import TAG_ADT, TAG_CLOSURE
from ...ops.native.status import INTERNAL, NO_MATCH, NOT_ON_HOST
from ..bytecode import isa
from .frames import call, call_tail, release_frame, set_register
from .handlers import (
    alloc_storage,
    alloc_storage_reg,
    alloc_tensor_reg,
    copy_begin,
    copy_wait,
    device_copy,
    get_field,
    get_tag,
    invoke_packed,
    invoke_shape_func,
    load_const,
    load_consti,
    make_record,
    make_tensor,
    shape_of,
    take_storage,
    truth_value,
)
from .heap import retain
from .state_layout import DONE, FAILED, FRAME_WORDS, HOST_CALL, OUT_OF_FUEL, state_at
from .view_handlers import reshape_tensor, slice_tensor, trim_tensor

MOVE, RET, INVOKE, INVOKE_CLOSURE = (i.opcode for i in (isa.Move, isa.Ret, isa.Invoke, isa.InvokeClosure))
INVOKE_PACKED, ALLOC_TENSOR, ALLOC_TENSOR_REG = (i.opcode for i in (isa.InvokePacked, isa.AllocTensor, isa.AllocTensorReg))
ALLOC_ADT, ALLOC_CLOSURE, GET_FIELD, IF = (i.opcode for i in (isa.AllocADT, isa.AllocClosure, isa.GetField, isa.If))
LOAD_CONST, GOTO, GET_TAG, LOAD_CONSTI = (i.opcode for i in (isa.LoadConst, isa.Goto, isa.GetTag, isa.LoadConsti))
FATAL, ALLOC_STORAGE, SHAPE_OF, RESHAPE_TENSOR = (i.opcode for i in (isa.Fatal, isa.AllocStorage, isa.ShapeOf, isa.ReshapeTensor))
DEVICE_COPY, KILL_REGISTER, INVOKE_SHAPE_FUNC = (i.opcode for i in (isa.DeviceCopy, isa.KillRegister, isa.InvokeShapeFunc))
ALLOC_STORAGE_REG, TRIM_TENSOR, INVOKE_TAIL, INVOKE_CLOSURE_TAIL = (
    i.opcode for i in (isa.AllocStorageReg, isa.TrimTensor, isa.InvokeTail, isa.InvokeClosureTail)
)
COPY_BEGIN, COPY_WAIT, TAKE_STORAGE, INVOKE_TAKING, SLICE_TENSOR = (
    i.opcode for i in (isa.CopyBegin, isa.CopyWait, isa.TakeStorage, isa.InvokeTaking, isa.SliceTensor)
)

#: Calls and launches between two reads of the clock, and the time slice after which Python may handle Ctrl-C.
_FUEL, _SLICE_NS = 16, 50_000_000


@native
def out_of_time(state):
    """Whether the time slice is over."""
    s = state_at(state)
    now = clock_ns()
    if s.deadline_ns == 0:
        s.deadline_ns = now + _SLICE_NS
        return False
    return now > s.deadline_ns


@native
def invoke(state, at, op, regs, pc):
    """Execute the five call instructions; a status.  The state then has the next frame and pc."""
    # dst comes first, except in a tail call, which has none
    tail = op == INVOKE_TAIL or op == INVOKE_CLOSURE_TAIL
    first = at + 8 if tail else at + 16
    function = load_i64(first)
    captured = 0
    if op == INVOKE_CLOSURE or op == INVOKE_CLOSURE_TAIL:
        captured = load_i64(regs + 8 * function)
        if tensor(captured).tag != TAG_CLOSURE:
            return INTERNAL
        function = tensor(captured).dtype
    n = load_i64(first + 8)
    if tail:
        return call_tail(state, function, captured, regs, first + 16, n)
    following, dead = pc + 4 + n, 0
    if op == INVOKE_TAKING:
        dead = first + 16 + 8 * n
        following += 1 + load_i64(dead)
    return call(state, function, captured, regs, first + 16, n, load_i64(at + 8), following, dead)


@native
def run_loop(state):
    """Run from the state's frame and pc until there is a reason to return; the reason.

    Each instruction sets ``step``, the words to the next one, or a status that ends the run.
    """
    s = state_at(state)
    code = s.code
    pc, regs = s.pc, s.stack + 8 * s.base
    n_instructions, fuel = 0, _FUEL
    status, reason, step = 0, DONE, 0
    while True:
        at = code + 8 * pc
        op = load_i64(at)
        n_instructions += 1
        if (
            op == INVOKE_PACKED
            or op == GOTO
            or (op >= INVOKE and op <= INVOKE_CLOSURE)
            or op == INVOKE_TAIL
            or op == INVOKE_CLOSURE_TAIL
            or op == INVOKE_TAKING
        ):
            # instructions that can take long or loop
            fuel -= 1
            if fuel < 0:
                fuel = _FUEL
                if out_of_time(state):
                    reason = OUT_OF_FUEL
                    break
        if op == INVOKE_PACKED:
            status = invoke_packed(state, at, regs, pc)
            step = 4 + load_i64(at + 24)
        elif op == ALLOC_STORAGE:
            status = alloc_storage(state, regs + 8 * load_i64(at + 8), load_i64(at + 16), load_i64(at + 24), pc)
            step = 4
        elif op == ALLOC_TENSOR:
            storage = load_i64(regs + 8 * load_i64(at + 16))
            dst = regs + 8 * load_i64(at + 8)
            n = load_i64(at + 40)
            status = make_tensor(state, dst, storage, load_i64(at + 24), load_i64(at + 32), at + 48, n)
            step = 6 + n
        elif op == ALLOC_STORAGE_REG:
            status = alloc_storage_reg(state, at, regs, pc)
            step = 5
        elif op == TAKE_STORAGE:
            status = take_storage(state, at, regs, pc)
            step = 4
        elif op == ALLOC_TENSOR_REG:
            status = alloc_tensor_reg(state, at, regs)
            step = 6
        elif op == KILL_REGISTER:
            n = load_i64(at + 8)
            for i in range(n):
                set_register(state, regs + 8 * load_i64(at + 16 + 8 * i), 0)
            step = 2 + n
        elif op == MOVE:
            set_register(state, regs + 8 * load_i64(at + 8), retain(load_i64(regs + 8 * load_i64(at + 16))))
            step = 3
        elif op == IF:
            taken = truth_value(load_i64(regs + 8 * load_i64(at + 8)))
            if taken < 0:
                status = NOT_ON_HOST if taken == -1 else INTERNAL
            step = load_i64(at + 16) if taken == 1 else load_i64(at + 24)
        elif op == GOTO:
            step = load_i64(at + 8)
        elif op == LOAD_CONST:
            status = load_const(state, at, regs, pc)
            step = 4
        elif op == LOAD_CONSTI:
            status = load_consti(state, at, regs)
            step = 3
        elif op == SHAPE_OF:
            status = shape_of(state, at, regs)
            step = 3
        elif op == INVOKE_SHAPE_FUNC:
            status = invoke_shape_func(state, at, regs, pc)
            n = load_i64(at + 16)
            step = 4 + n + load_i64(at + 24 + 8 * n)
        elif op == INVOKE or op == INVOKE_CLOSURE or op == INVOKE_TAIL or op == INVOKE_CLOSURE_TAIL or op == INVOKE_TAKING:
            status = invoke(state, at, op, regs, pc)
            if status != 0:
                break
            pc, regs, step = s.pc, s.stack + 8 * s.base, 0
        elif op == RET:
            held = regs + 8 * load_i64(at + 8)
            value = load_i64(held)
            store_i64(held, 0)
            release_frame(state, regs, s.n_registers)
            header = regs - 8 * FRAME_WORDS
            s.n_registers = load_i64(header + 16)
            s.base = load_i64(header + 8)
            if s.base == 0:
                s.result = value
                break
            pc, regs, step = load_i64(header), s.stack + 8 * s.base, 0
            set_register(state, regs + 8 * load_i64(header + 24), value)
        elif op == ALLOC_ADT:
            status = make_record(state, at, regs, TAG_ADT)
            step = 4 + load_i64(at + 24)
        elif op == ALLOC_CLOSURE:
            status = make_record(state, at, regs, TAG_CLOSURE)
            step = 4 + load_i64(at + 24)
        elif op == GET_FIELD:
            status = get_field(state, at, regs)
            step = 4
        elif op == DEVICE_COPY:
            status = device_copy(state, at, regs, pc)
            step = 6
        elif op == COPY_BEGIN:
            status = copy_begin(state, at, regs, pc)
            step = 5
        elif op == COPY_WAIT:
            status = copy_wait(state, at, regs)
            step = 3
        elif op == RESHAPE_TENSOR:
            status = reshape_tensor(state, at, regs)
            step = 4
        elif op == SLICE_TENSOR:
            status = slice_tensor(state, at, regs)
            step = 5
        elif op == TRIM_TENSOR:
            status = trim_tensor(state, at, regs, pc)
            step = 6
        elif op == GET_TAG:
            status = get_tag(state, at, regs)
            step = 3
        elif op == FATAL:
            status = NO_MATCH
        else:
            status = INTERNAL
        if status != 0:
            break
        pc += step
    s.pc = pc
    s.instructions += n_instructions
    if status == -HOST_CALL:
        reason = HOST_CALL
    elif status != 0:
        if s.error_pc < 0:
            s.error_pc = pc
        s.status = status
        reason = FAILED
    s.reason = reason
    return reason
