"""Handlers of moves, jumps, calls and returns, as machine code: see ``bytecode.dispatch``."""

from __future__ import annotations

from ...ops.native.memory import load_i64, load_u8, native, tensor
from ...ops.native.object_layout import TAG_ADT, TAG_CLOSURE, TAG_TENSOR
from ...ops.native.objects import adt_at, closure_at
from ...ops.native.status import INTERNAL, NO_MATCH, NOT_ON_HOST, OK
from ..bytecode import isa
from ..bytecode.dispatch import handles
from .frames import call, call_tail, leave_frame, set_register
from .objects.heap import itemsize, n_elements, retain


@handles(isa.KillRegister)
@native
def kill_register(state: int, regs: int, dead: int, n_dead: int) -> int:
    for i in range(n_dead):
        set_register(state, regs + 8 * load_i64(dead + 8 * i), 0)
    return OK


@handles(isa.Move)
@native
def move(state: int, dst: int, src: int) -> int:
    set_register(state, dst, retain(src))
    return OK


@handles(isa.If)
@native
def branch(test: int) -> int:
    """Choose the first target if a host tensor of one element is not zero, else the second one."""
    t = tensor(test)
    if t.tag != TAG_TENSOR or n_elements(test) != 1:
        return -INTERNAL
    if t.device != 0:
        return -NOT_ON_HOST
    for i in range(itemsize(t.dtype)):
        if load_u8(t.data + i) != 0:
            return 0
    return 1


@handles(isa.IfTag)
@native
def branch_on_tag(object: int, tag: int) -> int:
    """Choose the first target if the constructor with this number made the object, else the second one."""
    o = adt_at(object)
    if o.tag != TAG_ADT:
        return -INTERNAL
    return 0 if o.constructor == tag else 1


@handles(isa.Invoke, isa.InvokeTaking, isa.InvokeClosure)
@native
def invoke(
    state: int, regs: int, following: int, dst: int, func: int, closure: int, args: int, n_args: int, dead: int, n_dead: int
) -> int:
    if closure != 0:
        if closure_at(closure).tag != TAG_CLOSURE:
            return INTERNAL
        func = closure_at(closure).function
    return call(state, func, closure, regs, args, n_args, dst - regs, following, dead, n_dead)


@handles(isa.InvokeTail, isa.InvokeClosureTail)
@native
def invoke_tail(state: int, regs: int, func: int, closure: int, args: int, n_args: int) -> int:
    if closure != 0:
        if closure_at(closure).tag != TAG_CLOSURE:
            return INTERNAL
        func = closure_at(closure).function
    return call_tail(state, func, closure, regs, args, n_args)


@handles(isa.Ret)
@native
def ret(state: int, regs: int, src: int) -> int:
    leave_frame(state, regs, retain(src))
    return OK


@handles(isa.Fatal)
@native
def fatal() -> int:
    return NO_MATCH
