"""The check before each launch of an executable that this process did not compile, as machine code.

The loop calls the check by its address, the first word of a kernel's preconditions (see ``ops.analysis.preconditions``): programs
without the check run as fast as before.  ::

    address of the check, outputs, equalities, address of the shape program (0: none), tensors
    per tensor: whether its memory is accessed
    per output: the tensor that it may alias, or -1
    per equality: tensor, axis, other tensor (-1: none), its axis or the size
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from ...ops.native.compiled import kernel_store
from ...ops.native.memory import load_i64, native, store_i64, tensor
from ...ops.native.object_layout import TAG_TENSOR
from ...ops.native.status import MISFIT, NOT_ON_HOST, OK, OUT_OF_MEMORY
from ...shape_funcs.symbolic.program import DATA
from ..device_table import CPU
from ..state.state_layout import TRACE_OFF, state_at
from .objects.heap import n_bytes, n_elements, release
from .shape_eval import checks_hold, element, load_slots, run_rows
from .stream import fetch, wait_for_all

if TYPE_CHECKING:
    from ...ops.analysis.preconditions import Demands

_HEAD = 5
#: No sync reason: the wait is not counted.
_UNCOUNTED = -1


def words(demands: Demands, program: int) -> np.ndarray:
    """Encode the preconditions for the loop; ``program`` is the address of the shape program's words, 0 without one."""
    head = [_address(), demands.outputs, len(demands.equal), program, demands.tensors]
    return np.array([*head, *demands.reads, *demands.over, *(n for row in demands.equal for n in row)], np.int64)


@functools.cache
def _address() -> int:
    return kernel_store.address_of(check_launch, "int64(int64, int64, int64, int64)", "the check of launches")


@native
def gather_operands(argv: int, regs: int, at: int, n: int) -> None:
    """Load the objects of the ``n`` registers listed at ``at``."""
    for i in range(n):
        store_i64(argv + 8 * i, load_i64(regs + 8 * load_i64(at + 8 * i)))


@native
def check_launch(state: int, demands: int, regs: int, operands: int) -> int:
    """Check the tensors at the state's ``argv``, from the registers at ``operands``, against the preconditions; a status."""
    argv = state_at(state).argv
    n, n_outputs = load_i64(demands + 32), load_i64(demands + 8)
    for i in range(n):
        if tensor(load_i64(argv + 8 * i)).tag != TAG_TENSOR:
            return MISFIT
    over = demands + 8 * (_HEAD + n)
    if not sizes_match(argv, over + 8 * n_outputs, load_i64(demands + 16)):
        return MISFIT
    for k in range(n_outputs):
        if not is_unaliased(argv, demands + 8 * _HEAD, n - n_outputs + k, load_i64(over + 8 * k)):
            return MISFIT
    program = load_i64(demands + 24)
    return check_program(state, program, regs, operands, n) if program != 0 else OK


@native
def sizes_match(argv: int, row: int, n_rows: int) -> bool:
    """Whether the equalities at ``row`` hold."""
    for _ in range(n_rows):
        other, wanted = load_i64(row + 16), load_i64(row + 24)
        if other >= 0:
            wanted = tensor(load_i64(argv + 8 * other)).shape[wanted]
        if tensor(load_i64(argv + 8 * load_i64(row))).shape[load_i64(row + 8)] != wanted:
            return False
        row += 32
    return True


@native
def is_unaliased(argv: int, touched: int, number: int, over: int) -> bool:
    """Whether output ``number`` is in storage of the machine and aliases no earlier tensor, except ``over`` as a whole.

    Tensors without a storage belong to others: arguments, constants, small vectors.
    """
    out = load_i64(argv + 8 * number)
    storage = tensor(out).storage
    if storage == 0:
        return False
    for i in range(number):
        at = load_i64(argv + 8 * i)
        lawful = i == over and tensor(at).data == tensor(out).data
        if tensor(at).storage == storage and load_i64(touched + 8 * i) != 0 and not lawful and overlaps(at, out):
            return False
    return True


@native
def overlaps(a: int, b: int) -> bool:
    """Whether two tensors overlap in memory."""
    first, second = tensor(a).data, tensor(b).data
    return first < second + n_bytes(b) and second < first + n_bytes(a) and n_bytes(a) != 0 and n_bytes(b) != 0


@native
def check_program(state: int, program: int, regs: int, operands: int, n: int) -> int:
    """Check the tensors by the shape program; a status."""
    s = state_at(state)
    status = load_slots(program, s.argv, s.slots) + 0
    if status == NOT_ON_HOST:
        status = load_from_devices(state, program, regs, operands, n) + 0
        if status != OK:
            return status
    if status != OK or run_rows(program, s.slots) != OK:
        return MISFIT
    return OK if checks_hold(state, program, s.slots) else MISFIT


@native
def load_from_devices(state: int, program: int, regs: int, operands: int, n: int) -> int:
    """As ``load_slots``, for values that may be on a device, after the work enqueued so far; a status."""
    s = state_at(state)
    status = wait_for_all(state, _UNCOUNTED) + 0
    if status != OK:
        return status
    gather_operands(s.argv, regs, operands, n)  # queued work overwrote them
    at = program + 32
    for i in range(load_i64(program)):
        t, index = load_i64(s.argv + 8 * load_i64(at)), load_i64(at + 16)
        value = 0
        if load_i64(at + 8) != DATA:
            value = tensor(t).shape[index]
        elif index >= n_elements(t):
            return MISFIT
        elif tensor(t).device == CPU or s.is_host_memory != 0:
            value = element(t, index)
        else:
            copy = read_back(state, t)
            if copy == 0:
                return s.status if s.status != OK else OUT_OF_MEMORY
            value = element(copy, index)
            release(state, copy)
        store_i64(s.slots + 8 * i, value)
        at += 24
    return OK


@native
def read_back(state: int, at: int) -> int:
    """Copy a device's tensor to the host; 0 on failure.  The copy is no part of the program: profiles do not show it."""
    s = state_at(state)
    copies, nbytes, tracing = s.dtoh_copies, s.dtoh_bytes, s.tracing
    s.tracing = TRACE_OFF
    copy = fetch(state, at, _UNCOUNTED)
    s.dtoh_copies, s.dtoh_bytes, s.tracing = copies, nbytes, tracing
    return copy
