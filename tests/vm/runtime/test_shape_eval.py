"""The native evaluator of shape programs, compared with the reference ``ShapeProgram.run``."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.tensor_types import DTYPES, is_float, numpy_dtype
from relayvm.ops.native.memory import tensor
from relayvm.ops.native.object_layout import TAG_TENSOR, TENSOR
from relayvm.ops.native.status import NOT_ON_HOST, OK, SHAPE_CHECK, SIZE_OVERFLOW
from relayvm.shape_funcs.symbolic.dim import const
from relayvm.shape_funcs.symbolic.dim_operations import division
from relayvm.shape_funcs.symbolic.int_operations import SCALAR
from relayvm.shape_funcs.symbolic.program import ARITY, OPERATIONS, ShapeProgram, as_word
from relayvm.shape_funcs.symbolic.registry import ShapeError
from relayvm.vm.runtime.shape_eval import element, evaluate
from relayvm.vm.state.state_layout import STATE

INTERESTING = [0, 1, -1, 2, 3, 7, 64, -5, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63)]
VALUES = st.sampled_from(INTERESTING) | st.integers(-100, 100)


@st.composite
def programs(draw: st.DrawFn) -> tuple[ShapeProgram, np.ndarray]:
    """A strategy for a program over the elements of an int64 vector, with the vector."""
    values = draw(st.lists(VALUES, min_size=1, max_size=4))
    loads = tuple((0, 1, i) for i in range(len(values)))
    rows: list[tuple[int, int, int, int]] = []
    for _ in range(draw(st.integers(0, 8))):
        op = draw(st.integers(0, len(OPERATIONS) - 1))
        if OPERATIONS[op] in ("arange_length", "scaled"):
            continue  # its operands are bit patterns of floats: see below
        slots = st.integers(0, len(loads) + len(rows) - 1)
        operands = [draw(VALUES)] if op == 0 else [draw(slots) for _ in range(ARITY[op])]
        a, b, c = (*operands, 0, 0, 0)[:3]
        rows.append((op, a, b, c))
    n = len(loads) + len(rows)
    outputs = (tuple(draw(st.lists(st.integers(0, n - 1), max_size=3))),)
    checks = tuple((draw(st.integers(0, n - 1)), "no", ()) for _ in range(draw(st.integers(0, 1))))
    return ShapeProgram(loads, tuple(rows), checks, outputs), np.array(values, np.int64)


def new_slots(program: ShapeProgram) -> np.ndarray:
    return np.zeros(1 + len(program.loads) + len(program.rows), np.int64)


def run_native(
    program: ShapeProgram, data: np.ndarray, device: int = 0, slots: np.ndarray | None = None
) -> tuple[int, list[int]]:
    """The status and the first output of the machine's evaluator, run as plain Python on the same memory."""
    state = np.zeros(1, STATE)
    slots = new_slots(program) if slots is None else slots
    words = np.array(program.words(), np.int64)
    source = np.zeros(1, TENSOR)
    source[0]["tag"], source[0]["data"], source[0]["ndim"] = TAG_TENSOR, data.ctypes.data, data.ndim
    source[0]["dtype"], source[0]["device"] = DTYPES.index(data.dtype.name), device
    source[0]["shape"][: data.ndim] = data.shape
    argv, outs = np.array([source.ctypes.data], np.int64), np.zeros(4, np.int64)
    status = evaluate(state.ctypes.data, words.ctypes.data, slots.ctypes.data + 8, argv.ctypes.data, outs.ctypes.data)
    if status != OK or not outs[0]:
        return status, []
    made = tensor(int(outs[0]))
    return status, [made.payload[i] for i in range(made.shape[0])]


@settings(max_examples=400, deadline=None)
@given(programs())
def test_native_and_reference_agree(case: tuple[ShapeProgram, np.ndarray]) -> None:
    program, data = case
    status, shape = run_native(program, data)
    try:
        (wanted,) = program.run([data])
    except ShapeError as error:
        # the native evaluator skips rows needed only by messages, so it may not report their overflows
        if error.message == "no":
            assert status == SHAPE_CHECK
        else:
            assert status in (SIZE_OVERFLOW, OK, SHAPE_CHECK)
            used = len(program.words()) >= 4 + 3 * len(program.loads) + 4 * len(program.rows)
            assert not (used and status == OK and program.outputs[0] and "negative" in error.message)
        return
    if status == SIZE_OVERFLOW:
        # the machine reports an overflow slightly below 2**63, since it checks in float64
        assert largest_product(program, data) > 9.19e18
        return
    assert (status, shape) == (OK, list(wanted))


@settings(max_examples=200, deadline=None)
@given(programs(), st.lists(st.tuples(st.integers(0, 9), VALUES), max_size=4))
def test_slots_that_are_kept_give_the_results_of_new_slots(
    case: tuple[ShapeProgram, np.ndarray], changes: list[tuple[int, int]]
) -> None:
    program, data = case
    kept = new_slots(program)
    for place, value in [(0, int(data[0])) if len(data) else (0, 0), *changes, *changes[:1]]:
        for _ in range(2):  # the second time nothing has changed
            assert run_native(program, data, slots=kept) == run_native(program, data)
        if len(data):
            data[place % len(data)] = value


def largest_product(program: ShapeProgram, data: np.ndarray) -> int:
    slots = [int(data[i]) for _, _, i in program.loads]
    products = [0]
    for op, a, b, c in program.rows:
        name = OPERATIONS[op]
        slots.append(SCALAR[name](*(slots[x] for x in (a, b, c)[: ARITY[op]])) if op else a)
        products += [abs(slots[-1])] * (name == "mul")
    return max(products)


TOTALS = st.sampled_from([0, 1, 2, 2**31 - 1, 2**31, 2**55]) | st.integers(0, 2**56)


@settings(max_examples=400, deadline=None)
@given(TOTALS, st.integers(0, 2**56) | st.integers(-3, 9), st.data())
def test_a_word_for_divisions(total: int, by: int, data: st.DataObject) -> None:
    program = ShapeProgram(((0, 1, 0), (0, 1, 1)), ((OPERATIONS.index("division"), 0, 1, 0),), (), ((2,),))
    status, shape = run_native(program, np.array([by, total], np.int64))
    if total > 2**55:
        assert status == SIZE_OVERFLOW
        return
    ((word,),) = program.run([np.array([by, total], np.int64)])
    assert (status, shape) == (OK, [word])
    assert const(division(by, total)) == word
    bits, factor, shift = 55 if word & 128 else 32, word >> 8, word & 63
    near = [k * by + j for k in (0, 1, 2, (total - 1) // max(by, 1)) for j in (-1, 0, 1)]
    for n in [*near, total - 1, data.draw(st.integers(0, max(total - 1, 0)))]:
        if 0 <= n < total:
            assert (n * factor // 2**bits + n) >> shift == n // max(by, 1), (n, by)
            assert n * factor // 2**bits + n < 2 ** (64 if bits == 55 else 32)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6) | st.sampled_from([0.0, float("inf"), float("nan"), 1e30]), min_size=3, max_size=3))
def test_length_of_a_range(values: list[float]) -> None:
    data = np.array(values, np.float64)
    program = ShapeProgram(((0, 1, 0), (0, 1, 1), (0, 1, 2)), ((OPERATIONS.index("arange_length"), 0, 1, 2),), (), ((3,),))
    status, shape = run_native(program, data)
    try:
        (wanted,) = program.run([data])
    except (ShapeError, OverflowError):
        assert status == SIZE_OVERFLOW
        return
    assert (status, shape) == (OK, list(wanted))


@settings(max_examples=200, deadline=None)
@given(
    st.integers(-9, 10**6) | st.just(2**40), st.floats(-2, 1e6) | st.sampled_from([0.1, 0.6, 1e-300, 1e30, math.inf, math.nan])
)
def test_a_scaled_size(size: int, factor: float) -> None:
    bits = as_word(factor)
    data = np.array([size, bits], np.int64)
    program = ShapeProgram(((0, 1, 0), (0, 1, 1)), ((OPERATIONS.index("scaled"), 0, 1, 0),), (), ((2,),))
    status, shape = run_native(program, data)
    wanted = math.floor(float(size) * factor) if factor > 0 and abs(size * factor) < 4e18 else 0
    if (factor > 0 and not abs(size * factor) < 4e18) or wanted < 0:
        assert status == SIZE_OVERFLOW
        return
    assert (status, shape) == (OK, [wanted]) and program.run([data]) == [(wanted,)]


def test_every_dtype_is_read() -> None:
    for dtype in DTYPES:
        data = np.array([0 if dtype == "bool" else 3, 1, 100], numpy_dtype(dtype))
        if dtype.startswith("int"):
            data[0] = -2
        at = np.zeros(1, TENSOR)
        at[0]["data"], at[0]["dtype"] = data.ctypes.data, DTYPES.index(dtype)
        got = [element(at.ctypes.data, i) for i in range(3)]
        if is_float(dtype):
            assert np.array(got, np.int64).view(np.float64).tolist() == data.tolist()
        else:
            assert got == [int(v) for v in data]


def test_data_on_a_device_is_refused() -> None:
    program = ShapeProgram(((0, 1, 0),), (), (), ((0,),))
    assert run_native(program, np.array([3], np.int64), device=1)[0] == NOT_ON_HOST
