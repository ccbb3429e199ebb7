"""Monotonic operators: their results are in order for sorted arguments, NaN for NaN alone, and the others are not called so."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.analysis.monotonic import Order, order_of
from relayvm.ops.core.dtype_rules import FLOATS, INTEGERS, NUMBERS
from relayvm.ops.core.implementation import GPU, HOST
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import HALVES, TensorType, int_range, is_float, numpy_dtype
from relayvm.ops.defs.arithmetic.elementwise import CastAttrs, ClipAttrs, LeakyReluAttrs
from relayvm.shape_funcs.symbolic.dim import sym

from ..run_group import call

KEPT, REVERSED = Order.KEPT, Order.REVERSED
SINGLE = ("float32", *HALVES)
#: Name, attributes, dtypes and order of the operators of one input.
UNARY = [
    *((name, None, FLOATS, KEPT) for name in ("floor", "ceil", "trunc", "rint", "round")),
    ("nn.relu", None, NUMBERS, KEPT),
    ("clip", ClipAttrs(-2, 3), NUMBERS, KEPT),
    ("negative", None, FLOATS, REVERSED),
    ("copy", None, NUMBERS, KEPT),
    *((name, None, SINGLE, KEPT) for name in ("sigmoid", "exp", "fast_exp")),
    *(("cast", CastAttrs(d), NUMBERS, KEPT) for d in FLOATS),
    ("cast", CastAttrs("int64"), tuple(d for d in INTEGERS if d != "uint64"), KEPT),
    ("cast", CastAttrs("uint16"), ("uint8", "uint16"), KEPT),
]
#: Operators of a number, its position, and the order of floats.
WITH_NUMBER = [
    ("add", 1.5, 1, KEPT), ("add", -1.5, 0, KEPT), ("subtract", 2.0, 1, KEPT), ("subtract", 2.0, 0, REVERSED),
    ("multiply", 0.1, 1, KEPT), ("multiply", -3.0, 0, REVERSED), ("divide", 3.0, 1, KEPT), ("divide", -0.1, 1, REVERSED),
    ("maximum", 0.0, 1, KEPT), ("maximum", -1.0, 0, KEPT), ("minimum", 2.0, 1, KEPT), ("minimum", np.inf, 0, KEPT),
]  # fmt: skip
OTHERS = [
    *((name, None, FLOATS) for name in ("abs", "tanh", "erf", "log", "sqrt", "sin", "sign", "isnan", "zeros_like")),
    ("sigmoid", None, ("float64",)),
    ("exp", None, ("float64",)),
    ("negative", None, INTEGERS),  # the smallest stays as it is
    ("nn.leaky_relu", LeakyReluAttrs(-0.5), FLOATS),
    ("cast", CastAttrs("int32"), (*FLOATS, "int64", "uint32")),
    ("cast", CastAttrs("float32"), ("bool",)),
    ("cast", CastAttrs("bool"), NUMBERS),
]
NUMBERS_OF_NO_ORDER = [
    ("add", np.inf, 1), ("multiply", 0.0, 1), ("multiply", np.inf, 1), ("divide", 2.0, 0), ("divide", 0.0, 1),
    ("multiply", 1e-60, 1), ("maximum", np.nan, 1), ("power", 3.0, 1), ("add", np.nan, 0), ("less", 0.0, 1),
]  # fmt: skip


def order(name, inputs, attrs=None, machine=HOST):
    """The order for inputs of which one is a dtype, the others numbers."""
    op, shape = get(name), (sym("n"), sym("m"))
    (dtype,) = (x for x in inputs if isinstance(x, str))
    attrs = op.attrs() if attrs is None else attrs
    result = op.dtype(tuple(dtype for _ in inputs), attrs)
    given = [TensorType(shape, x) if isinstance(x, str) else x for x in inputs]
    return order_of(op, given, attrs, TensorType(shape, result), machine)


def rising(dtype):
    """Sorted numbers from end to end."""
    if not is_float(dtype):
        low, high = int_range(dtype)
        near = np.clip(np.arange(-9, 10), low, min(high, 2**62)).astype(dtype)
        return np.sort(np.concatenate([near, np.array([low, low + 1, high // 3, high - 1, high], dtype)]))
    random = np.random.default_rng(0)
    parts = [
        random.standard_normal(200),
        np.exp(random.uniform(-90, 90, 99)),
        np.arange(-9, 9.5, 0.5),
        0.5 + np.arange(9) * 2.0**-24,
    ]
    x = np.concatenate([*parts, -parts[1], [np.inf, -np.inf, 0.0, -0.0]])
    with np.errstate(over="ignore"):
        return np.sort(x).astype(numpy_dtype(dtype))


def check_order(found, x, y):
    x, y = x.astype("float64"), y.astype("float64")
    assert not np.isnan(y).any()
    assert (np.diff(np.where(np.isinf(y), np.sign(y) * 1e308, y)) * found >= 0).all()


@pytest.mark.parametrize(("name", "attrs", "dtypes", "expected"), UNARY, ids=lambda v: str(v)[:24])
def test_results_are_in_the_order_of_the_arguments(name, attrs, dtypes, expected):
    for dtype in dtypes:
        assert order(name, [dtype], attrs) is expected, dtype
        x = rising(dtype)
        check_order(expected, x, call(name, [x], attrs))
        if is_float(dtype) and is_float(str(attrs.dtype) if name == "cast" else dtype):
            assert np.isnan(call(name, [np.array([np.nan], x.dtype)], attrs).astype("float64")).all()


@pytest.mark.parametrize(("name", "number", "place", "expected"), WITH_NUMBER)
def test_arithmetic_with_a_number(name, number, place, expected):
    for dtype in FLOATS:
        inputs = [dtype, number] if place else [number, dtype]
        assert order(name, inputs) is expected, dtype
        x = rising(dtype)
        arrays = [x, np.full_like(x, number)]
        check_order(expected, x, call(name, arrays if place else arrays[::-1]))
    whole = order(name, ["int32", int(min(number, 9))] if place else [int(min(number, 9)), "int32"])
    assert whole is (KEPT if name in ("maximum", "minimum") else None)  # integers wrap


@pytest.mark.parametrize(("name", "attrs", "dtypes"), OTHERS, ids=lambda v: str(v)[:24])
def test_other_operators_have_no_order(name, attrs, dtypes):
    for dtype in dtypes:
        assert order(name, [dtype], attrs) is None, dtype


@pytest.mark.parametrize(("name", "number", "place"), NUMBERS_OF_NO_ORDER)
def test_numbers_that_leave_no_order(name, number, place):
    assert order(name, ["float32", number] if place else [number, "float32"]) is None


def test_functions_of_a_library_have_no_order_on_a_gpu():
    assert order("sigmoid", ["float32"], machine=GPU) is order("exp", ["float32"], machine=GPU) is None
    assert order("floor", ["float32"], machine=GPU) is order("clip", ["int8"], ClipAttrs(0, 3), GPU) is KEPT
