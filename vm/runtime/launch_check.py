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
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...ops.native.compiled import kernel_store
from ...ops.native.memory import load_i64, native, record, store_i64, tensor
from ...ops.native.object_layout import TAG_TENSOR, Record
from ...ops.native.status import MISFIT, NOT_ON_HOST, OK, OUT_OF_MEMORY
from ...shape_funcs.symbolic.program import DATA
from ..device_table import CPU
from ..state.state_layout import DEMANDS, TRACE_OFF, demands_at, state_at
from .objects.heap import n_bytes, n_elements, release
from .shape_eval import LOAD_BYTES, PROGRAM_BYTES, checks_hold, element, load_at, load_slots, program_at, run_rows
from .stream import fetch, wait_for_all

if TYPE_CHECKING:
    from ...ops.analysis.preconditions import Demands

#: A demand that a size equals the size of another tensor, or a number.  ``other``: -1: none.  ``size``: its axis, or the size.
EQUALITY = np.dtype([("tensor", np.int64), ("axis", np.int64), ("other", np.int64), ("size", np.int64)])
_EQUALITY_BYTES = EQUALITY.itemsize
equality_at: Callable[[int], Record] = record(EQUALITY)
_HEAD_BYTES = DEMANDS.itemsize
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
    head = demands_at(demands)
    n, n_outputs = head.n_tensors, head.n_outputs
    for i in range(n):
        if tensor(load_i64(argv + 8 * i)).tag != TAG_TENSOR:
            return MISFIT
    reads = demands + _HEAD_BYTES
    over = reads + 8 * n
    if not sizes_match(argv, over + 8 * n_outputs, head.n_equal):
        return MISFIT
    for k in range(n_outputs):
        if not is_unaliased(argv, reads, n - n_outputs + k, load_i64(over + 8 * k)):
            return MISFIT
    return check_program(state, head.program, regs, operands, n) if head.program != 0 else OK


@native
def sizes_match(argv: int, rows: int, n_rows: int) -> bool:
    """Whether the equalities at ``rows`` hold."""
    for i in range(n_rows):
        row = equality_at(rows + _EQUALITY_BYTES * i)
        wanted = row.size
        if row.other >= 0:
            wanted = tensor(load_i64(argv + 8 * row.other)).shape[wanted]
        if tensor(load_i64(argv + 8 * row.tensor)).shape[row.axis] != wanted:
            return False
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
    at = program + PROGRAM_BYTES
    for i in range(program_at(program).n_loads):
        row = load_at(at)
        t, index = load_i64(s.argv + 8 * row.input), row.index
        value = 0
        if row.kind != DATA:
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
        at += LOAD_BYTES
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
