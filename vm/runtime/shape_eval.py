"""Evaluate a shape program, as machine code: the native twin of ``ShapeProgram.run``.

The encoding is ``ShapeProgram.words``.  A typical program takes 10 to 50 ns.  The word before the slots says whether they have
the results for the sizes and elements in them: a program is not run again for the same ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ops.core.tensor_types import DTYPES
from ...ops.native.inlining import keep_out_of_line
from ...ops.native.memory import (
    ARRAYS,
    array_float32,
    array_float64,
    bits_float,
    float_bits,
    load_i32,
    load_i64,
    load_u8,
    native,
    record,
    store_i64,
    tensor,
)
from ...ops.native.object_layout import Record
from ...ops.native.status import INTERNAL, NOT_ON_HOST, OK, OUT_OF_MEMORY, SHAPE_CHECK, SIZE_OVERFLOW
from ...shape_funcs.symbolic.int_operations import NARROW, WIDE
from ...shape_funcs.symbolic.program import OPCODES
from ..state.state_layout import state_at
from .objects.heap import n_elements, release, vector

array_float16, array_bfloat16 = ARRAYS["array_float16"], ARRAYS["array_bfloat16"]

_FLOAT16, _BFLOAT16, _FLOAT32, _FLOAT64 = (DTYPES.index(name) for name in ("float16", "bfloat16", "float32", "float64"))
_INT8, _INT16, _INT32, _INT64 = (DTYPES.index(f"int{n}") for n in (8, 16, 32, 64))
_UINT8, _UINT16, _UINT32, _UINT64, _BOOL = (DTYPES.index(n) for n in ("uint8", "uint16", "uint32", "uint64", "bool"))

_CONST, _ADD, _MUL, _FLOORDIV, _MOD, _MIN, _MAX, _EQ, _LT, _WHERE, _ARANGE, _SCALED, _DIVISION = (
    OPCODES[name]
    for name in (
        *("const", "add", "mul", "floordiv", "mod", "min", "max", "eq", "lt", "where", "arange_length", "scaled"),
        "division",
    )
)
_WORD = np.int64
#: The begin of a program's words (see ``ShapeProgram.words``), a load, a row of arithmetic.
PROGRAM = np.dtype([("n_loads", _WORD), ("n_rows", _WORD), ("n_checks", _WORD), ("n_outputs", _WORD)])
LOAD = np.dtype([("input", _WORD), ("kind", _WORD), ("index", _WORD)])
ROW = np.dtype([("op", _WORD), ("a", _WORD), ("b", _WORD), ("c", _WORD)])
#: The word before the slots: whether they have the results for the sizes and elements in them.
MARK = np.dtype([("is_filled", _WORD)])
PROGRAM_BYTES, LOAD_BYTES, ROW_BYTES, MARK_BYTES = PROGRAM.itemsize, LOAD.itemsize, ROW.itemsize, MARK.itemsize
program_at: Callable[[int], Record] = record(PROGRAM)
load_at: Callable[[int], Record] = record(LOAD)
row_at: Callable[[int], Record] = record(ROW)
mark_at: Callable[[int], Record] = record(MARK)
_HALF = 1 << 31
_LARGEST = (1 << 63) - 1


@native
def element(at: int, index: int) -> int:
    """Element ``index`` of a host tensor as int64; a float as the bit pattern of its float64 value, a true bool as 1."""
    t = tensor(at)
    d = t.dtype
    if d == _INT64 or d == _UINT64:
        return load_i64(t.data + 8 * index)
    if d == _INT32:
        return load_i32(t.data + 4 * index) + 0
    if d == _UINT8:
        return load_u8(t.data + index) + 0
    if d == _BOOL:
        return 1 if load_u8(t.data + index) != 0 else 0
    if d == _FLOAT32:
        return float_bits(array_float32(t.data, index + 1)[index] * 1.0)
    if d == _FLOAT64:
        return float_bits(array_float64(t.data, index + 1)[index] * 1.0)
    if d == _FLOAT16:
        return float_bits(array_float16(t.data, index + 1)[index] * 1.0)
    if d == _BFLOAT16:
        return float_bits(array_bfloat16(t.data, index + 1)[index] * 1.0)
    if d == _UINT32:
        return load_i32(t.data + 4 * index) & 0xFFFFFFFF
    if d == _INT8:
        byte = load_u8(t.data + index) + 0
        return byte - 256 if byte > 127 else byte
    low = load_u8(t.data + 2 * index) + 0
    both = low + 256 * (load_u8(t.data + 2 * index + 1) + 0)
    return both - 65536 if d == _INT16 and both > 32767 else both


@native
def arange_length(start: int, stop: int, step: int) -> int:
    """Compute ``max(0, ceil((stop - start) / step))`` of float64 bit patterns; -1 if it is no int."""
    a, b, s = bits_float(start), bits_float(stop), bits_float(step)
    if s == 0.0 or not (a - a == 0.0 and b - b == 0.0 and s - s == 0.0):
        return 0
    ratio = (b - a) / s
    if ratio <= 0.0:
        return 0
    if ratio >= 4.0e18:
        return -1
    whole = int(ratio)
    return whole + 1 if whole < ratio else whole


@native
def scaled_overflows(size: int, factor: int) -> bool:
    """Whether the product with a float64 bit pattern is too large for a size, or NaN."""
    product = size * 1.0 * bits_float(factor)
    return bits_float(factor) > 0.0 and not -4.0e18 < product < 4.0e18


@native
def scaled(size: int, factor: int) -> int:
    """The product with a float64 bit pattern, rounded down; 0 if it is not positive."""
    number = bits_float(factor)
    if not number > 0.0:
        return 0
    product = size * 1.0 * number
    whole = int(product)
    return whole - 1 if whole > product else whole


@native
def division(by: int, total: int) -> int:
    """The word of ``dim.division``; ``total`` is at most 2**WIDE."""
    keep_out_of_line()
    by = max(min(by, total), 1)
    shift = 0
    while 1 << shift < by:
        shift += 1
    rest = (1 << shift) - by
    if total < _HALF:
        return ((rest << NARROW) // by + 1) << 8 | shift
    factor = 0
    for _ in range(WIDE):  # a long division: the dividend has more than 64 bits
        rest *= 2
        factor *= 2
        if rest >= by:
            rest -= by
            factor += 1
    return (factor + 1) << 8 | 128 | shift


@native
def mul_overflows(a: int, b: int) -> bool:
    """Whether the product overflows int64.  True from 9.2e18 on, a little before 2**63: no size is that large."""
    if -_HALF < a < _HALF and -_HALF < b < _HALF:
        return False
    if a == 0 or b == 0:
        return False
    high = a * 1.0 * b
    return high > 9.2e18 or high < -9.2e18


@native
def load_slots(program: int, argv: int, slots: int) -> int:
    """Load the sizes and data elements that the program reads; a status.  The word before the slots becomes 0 if any differs."""
    at = program + PROGRAM_BYTES
    changes = 0
    for i in range(program_at(program).n_loads):
        row = load_at(at)
        t = load_i64(argv + 8 * row.input)
        index = row.index
        if row.kind == 0:
            if index >= tensor(t).ndim:
                return INTERNAL
            value = tensor(t).shape[index]
        else:
            if tensor(t).device != 0:
                return NOT_ON_HOST
            if index >= n_elements(t):
                return INTERNAL
            value = element(t, index)
        changes |= value ^ load_i64(slots + 8 * i)
        store_i64(slots + 8 * i, value)
        at += LOAD_BYTES
    if changes != 0:
        mark_at(slots - MARK_BYTES).is_filled = 0
    return OK


@native
def sizes_differ(program: int, argv: int, slots: int) -> bool:
    """Whether a size that the program reads differs from its slot.

    The program reads only sizes, of axes that the tensors have.
    """
    at = program + PROGRAM_BYTES
    for i in range(program_at(program).n_loads):
        row = load_at(at)
        if tensor(load_i64(argv + 8 * row.input)).shape[row.index] != load_i64(slots + 8 * i):
            return True
        at += LOAD_BYTES
    return False


@native
def run_rows(program: int, slots: int) -> int:
    """Run the program's arithmetic; a status."""
    n_loads = program_at(program).n_loads
    at = program + PROGRAM_BYTES + LOAD_BYTES * n_loads
    to = slots + 8 * n_loads
    for _ in range(program_at(program).n_rows):
        row = row_at(at)
        op = row.op
        first = row.a
        if op == _CONST:
            store_i64(to, first)
            at += ROW_BYTES
            to += 8
            continue
        a = load_i64(slots + 8 * first)
        b = load_i64(slots + 8 * row.b)
        r = 0
        if op == _ADD:
            r = a + b
            if (a >= 0) == (b >= 0) and (r >= 0) != (a >= 0):
                return SIZE_OVERFLOW
        elif op == _MUL:
            if mul_overflows(a, b):
                return SIZE_OVERFLOW
            r = a * b
        elif op == _FLOORDIV:
            if b == -1 and a == -_LARGEST - 1:
                return SIZE_OVERFLOW  # the CPU would trap
            r = a // b if b != 0 else 0
        elif op == _MOD:
            r = a % b if b != 0 and b != -1 else 0
        elif op == _MIN:
            r = min(a, b)
        elif op == _MAX:
            r = max(a, b)
        elif op == _EQ:
            r = 1 if a == b else 0
        elif op == _LT:
            r = 1 if a < b else 0
        elif op == _WHERE:
            r = b if a != 0 else load_i64(slots + 8 * row.c)
        elif op == _ARANGE:
            r = arange_length(a, b, load_i64(slots + 8 * row.c))
        elif op == _SCALED:
            if scaled_overflows(a, b):
                return SIZE_OVERFLOW
            r = scaled(a, b)
        elif op == _DIVISION:
            if b > 1 << WIDE:
                return SIZE_OVERFLOW
            r = division(a, b)
        store_i64(to, r)
        at += ROW_BYTES
        to += 8
    return OK


@native
def checks_of(program: int) -> int:
    """The address of the slots of the checks."""
    head = program_at(program)
    return program + PROGRAM_BYTES + LOAD_BYTES * head.n_loads + ROW_BYTES * head.n_rows


@native
def checks_hold(state: int, program: int, slots: int) -> bool:
    """Whether every check holds.  The state's ``detail`` gets the number of a failed check."""
    at = checks_of(program)
    for i in range(program_at(program).n_checks):
        if load_i64(slots + 8 * load_i64(at + 8 * i)) == 0:
            state_at(state).detail = i
            return False
    return True


@native
def fill_slots(state: int, program: int, slots: int, argv: int) -> int:
    """Load the slots, and compute them if any load differs from the last time; a status."""
    status = load_slots(program, argv, slots) + 0
    if status != OK:
        mark_at(slots - MARK_BYTES).is_filled = 0
        return status
    if mark_at(slots - MARK_BYTES).is_filled != 0:
        return OK
    status = run_rows(program, slots) + 0
    if status != OK:
        return status
    if not checks_hold(state, program, slots):
        return SHAPE_CHECK
    mark_at(slots - MARK_BYTES).is_filled = 1
    return OK


@native
def evaluate(state: int, program: int, slots: int, argv: int, outs: int) -> int:
    """Run the program on the tensors at ``argv``; its vectors, owned by the caller, go to ``outs``.  A status.

    If it is not OK, there are no vectors.  The number of a failed check goes to the state's ``detail``.
    """
    status = fill_slots(state, program, slots, argv) + 0
    if status != OK:
        return status
    at = checks_of(program) + 8 * program_at(program).n_checks
    n_outputs = program_at(program).n_outputs
    for k in range(n_outputs):
        ndim = load_i64(at)
        v = vector(state, ndim)
        store_i64(outs + 8 * k, v)
        if v == 0:
            return without_vectors(state, outs, k, OUT_OF_MEMORY)
        for i in range(ndim):
            size = load_i64(slots + 8 * load_i64(at + 8 + 8 * i))
            if size < 0:
                return without_vectors(state, outs, k + 1, SIZE_OVERFLOW)
            tensor(v).payload[i] = size
        at += 8 + 8 * ndim
    return OK


@native
def without_vectors(state: int, outs: int, n: int, status: int) -> int:
    """Release the first ``n`` vectors at ``outs``; the status."""
    keep_out_of_line()
    for k in range(n):
        release(state, load_i64(outs + 8 * k))
    return status
