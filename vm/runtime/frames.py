"""The stack of the machine, as machine code: frames, calls, returns and unwinding.

A frame is a header (return address, caller's frame, destination register) and the registers of a function.  Frames are addressed
by their offset in the stack, so the stack may move when it grows.
"""

from __future__ import annotations

from ...ops.native.memory import load_i64, native, store_i64
from ...ops.native.objects import closure_at
from ...ops.native.status import INTERNAL, OK, STACK_OVERFLOW
from ..state.growable import grow
from ..state.state_layout import FRAME_WORDS, FUNCTION_BYTES, function_at, header_at, state_at
from .objects.heap import release, retain


@native
def set_register(state: int, at: int, value: int) -> None:
    """Store an owned object in the register at an address, and release the previous object."""
    old = load_i64(at)
    store_i64(at, value)
    if old != 0:
        release(state, old)


@native
def reserve_stack(state: int, top: int) -> bool:
    """Grow the stack to ``top`` words; False if the limit is exceeded or there is no memory."""
    s = state_at(state)
    if top <= s.stack_words:
        return True
    if top > s.stack_limit:
        return False
    words = min(max(2 * s.stack_words, top), s.stack_limit)
    block = grow(s.stack, s.stack_words, words)
    if block == 0:
        return False
    s.stack = block
    s.stack_words = words
    return True


@native
def gather(regs: int, operands: int, n: int, captured: int, to: int) -> int:
    """Store owned references to the captured values of a closure (0: none), then to ``n`` registers; their number."""
    count = 0
    if captured != 0:
        c = closure_at(captured)
        for i in range(c.n_fields):
            store_i64(to + 8 * i, retain(load_i64(c.fields + 8 * i)))
        count = c.n_fields
    for i in range(n):
        store_i64(to + 8 * (count + i), retain(load_i64(regs + 8 * load_i64(operands + 8 * i))))
    return count + n


@native
def release_frame(state: int, regs: int, n: int) -> None:
    for i in range(n):
        held = load_i64(regs + 8 * i)
        if held != 0:
            store_i64(regs + 8 * i, 0)
            release(state, held)


@native
def fill_frame(state: int, function: int, base: int, given: int) -> bool:
    """Move ``given`` gathered arguments to a frame at ``base`` and clear its other registers; False on stack overflow."""
    s = state_at(state)
    row = function_at(s.functions + FUNCTION_BYTES * function)
    n_registers = row.n_registers
    if not reserve_stack(state, base + n_registers + FRAME_WORDS):
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
    s.pc = row.start
    return True


@native
def call(
    state: int, function: int, captured: int, regs: int, operands: int, n: int, dst: int, return_pc: int, dead: int, n_dead: int
) -> int:
    """Enter a function in a new frame; a status.

    ``dst``: the distance in bytes of the result's register from the first one, because the stack may move.  ``dead``: the address
    of a list of ``n_dead`` registers to clear.
    """
    s = state_at(state)
    given = gather(regs, operands, n, captured, s.argv)
    if given != function_at(s.functions + FUNCTION_BYTES * function).n_parameters:
        for i in range(given):
            release(state, load_i64(s.argv + 8 * i))
        return INTERNAL
    base, n_registers = s.base, s.n_registers
    top = base + n_registers
    if not fill_frame(state, function, top + FRAME_WORDS, given):
        return STACK_OVERFLOW
    for i in range(n_dead):
        set_register(state, s.stack + 8 * (base + load_i64(dead + 8 * i)), 0)
    header = header_at(s.stack + 8 * top)
    header.return_pc = return_pc
    header.base = base
    header.n_registers = n_registers
    header.dst = dst
    return OK


@native
def call_tail(state: int, function: int, captured: int, regs: int, operands: int, n: int) -> int:
    """Enter a function in place of the current frame; a status."""
    s = state_at(state)
    given = gather(regs, operands, n, captured, s.argv)
    if given != function_at(s.functions + FUNCTION_BYTES * function).n_parameters:
        for i in range(given):
            release(state, load_i64(s.argv + 8 * i))
        return INTERNAL
    release_frame(state, regs, s.n_registers)
    s.n_registers = 0
    return OK if fill_frame(state, function, s.base, given) else STACK_OVERFLOW


@native
def leave_frame(state: int, regs: int, value: int) -> None:
    """Return an owned value to the caller; out of the first frame, whose caller's frame is 0, it is the result of the run."""
    s = state_at(state)
    release_frame(state, regs, s.n_registers)
    header = header_at(regs - 8 * FRAME_WORDS)
    s.n_registers = header.n_registers
    s.base = header.base
    if s.base == 0:
        s.result = value
        return
    s.pc = header.return_pc
    set_register(state, s.stack + 8 * s.base + header.dst, value)


@native
def unwind(state: int) -> None:
    """Release every register of every frame."""
    s = state_at(state)
    while s.base > 0:
        release_frame(state, s.stack + 8 * s.base, s.n_registers)
        header = header_at(s.stack + 8 * (s.base - FRAME_WORDS))
        s.n_registers = header.n_registers
        s.base = header.base


@native
def open_frame(state: int, function: int, n: int) -> None:
    """Open the first frame of a run, with the ``n`` arguments at the state's ``argv``."""
    s = state_at(state)
    row = function_at(s.functions + FUNCTION_BYTES * function)
    for i in range(FRAME_WORDS):
        store_i64(s.stack + 8 * i, 0)
    registers = s.stack + 8 * FRAME_WORDS
    n_registers = row.n_registers
    for i in range(n):
        store_i64(registers + 8 * i, load_i64(s.argv + 8 * i))
    for i in range(n, n_registers):
        store_i64(registers + 8 * i, 0)
    s.base = FRAME_WORDS
    s.n_registers = n_registers
    s.pc = row.start
    s.status = 0
    s.error_pc = -1
    s.result = 0
    s.deadline_ns = 0
