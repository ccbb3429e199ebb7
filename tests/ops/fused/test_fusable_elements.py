"""Every elementwise and broadcasting operator against numpy, at sizes 0, 1, odd and about 1000."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from relayvm.ops.core import tensor_types
from relayvm.ops.core.dtype_rules import INTEGERS
from relayvm.ops.core.op import REGISTRY, OpPattern
from relayvm.ops.core.tensor_types import HALVES, int_range, is_float
from relayvm.ops.defs.arithmetic.broadcast import BiasAddAttrs, BroadcastToAttrs, PreluAttrs
from relayvm.ops.defs.arithmetic.elementwise import CastAttrs, ClipAttrs, LeakyReluAttrs
from relayvm.ops.native.status import DIVISION_BY_ZERO

from .run_group import call, compiled, evaluate, one_call

pytestmark = pytest.mark.many

#: Without the dtypes that only store: see test_halves.
DTYPES = tuple(d for d in tensor_types.DTYPES if d not in HALVES)
FLOATS = tuple(filter(is_float, DTYPES))
NUMBERS = FLOATS + INTEGERS
SHAPES = [(0,), (1,), (7,), (3, 5), (0, 4), (2, 1, 3), ()]
EDGES = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e30, -1e30, np.inf, -np.inf, np.nan, 0.49999997, 8388609.0]


def sample(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Values that reach the ends of the dtype."""
    rng = np.random.default_rng(seed)
    n = int(np.prod(shape))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if is_float(dtype):
        out = (rng.standard_normal(n) * 3).astype(dtype)
        return np.where(rng.random(n) < 0.3, rng.choice(EDGES, n).astype(dtype), out).reshape(shape)
    low, high = int_range(dtype)
    ends = np.array([low, high, 0, 1, low + 1, high - 1], dtype)
    out = rng.integers(0 if low == 0 else -9, 9, n).astype(dtype)
    return np.where(rng.random(n) < 0.3, rng.choice(ends, n), out).reshape(shape)


def same(ours: np.ndarray, theirs: np.ndarray, rtol: float = 0) -> None:
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, (ours.dtype, theirs.dtype, ours.shape, theirs.shape)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=0)


def sigmoid(x):
    """In float64 for float32: the exponential of 89 is infinite in float32."""
    wide = x if x.dtype == np.float64 else x.astype(np.float64)
    return (1 / (1 + np.exp(-wide))).astype(x.dtype)


def rounded(x: np.ndarray) -> np.ndarray:
    """The nearest whole number, halves away from 0; the sum is exact in 64 bits of mantissa."""
    return np.copysign(np.floor(np.abs(x.astype(np.longdouble)) + 0.5), x).astype(x.dtype)


UNARY = {
    "abs": (np.abs, NUMBERS), "sign": (np.sign, NUMBERS), "negative": (np.negative, NUMBERS),
    "exp": (np.exp, FLOATS), "log": (np.log, FLOATS), "log2": (np.log2, FLOATS), "log10": (np.log10, FLOATS),
    "rint": (np.rint, NUMBERS), "sqrt": (np.sqrt, FLOATS), "rsqrt": (lambda x: (1 / np.sqrt(x)).astype(x.dtype), FLOATS),
    "sin": (np.sin, FLOATS), "cos": (np.cos, FLOATS), "tan": (np.tan, FLOATS),
    "sinh": (np.sinh, FLOATS), "cosh": (np.cosh, FLOATS), "tanh": (np.tanh, FLOATS),
    "asin": (np.arcsin, FLOATS), "acos": (np.arccos, FLOATS), "atan": (np.arctan, FLOATS),
    "asinh": (np.arcsinh, FLOATS), "acosh": (np.arccosh, FLOATS), "atanh": (np.arctanh, FLOATS),
    "fast_exp": (np.exp, FLOATS), "fast_tanh": (np.tanh, FLOATS), "fast_erf": (special.erf, FLOATS),
    "erf": (special.erf, FLOATS), "sigmoid": (sigmoid, FLOATS),
    "floor": (np.floor, NUMBERS), "ceil": (np.ceil, NUMBERS), "trunc": (np.trunc, NUMBERS), "round": (rounded, NUMBERS),
    "logical_not": (np.logical_not, ("bool",)), "bitwise_not": (np.bitwise_not, (*INTEGERS, "bool")),
    "isnan": (np.isnan, FLOATS), "isinf": (np.isinf, FLOATS), "isfinite": (np.isfinite, FLOATS),
    "nn.relu": (lambda x: np.maximum(x, x.dtype.type(0)), NUMBERS),
    "copy": (lambda x: x, DTYPES), "zeros_like": (np.zeros_like, DTYPES), "ones_like": (np.ones_like, DTYPES),
}  # fmt: skip
TRANSCENDENTAL = {"exp", "log", "log2", "log10", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan",
                  "asinh", "acosh", "atanh", "fast_exp", "fast_tanh", "fast_erf", "erf", "sigmoid"}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    reference, dtypes = UNARY[name]
    for dtype in dtypes:
        for shape in (*SHAPES, (1001,)) if dtype == "float32" else SHAPES[:4]:
            x = sample(shape, dtype)
            if not is_float(dtype) and name in ("floor", "ceil", "trunc", "round", "rint"):
                reference = lambda x: x  # noqa: E731  # numpy gives float64
            rtol = 0 if name not in TRANSCENDENTAL else 2e-6 if dtype == "float32" else 1e-13
            same(call(name, [x]), np.asarray(reference(x)), rtol)


def test_rounding_keeps_the_sign_of_zero():
    x = np.array([-0.0, 0.0, -0.3, 0.3], "float32")
    for name, numpy_name in [("floor", "floor"), ("ceil", "ceil"), ("trunc", "trunc"), ("round", "trunc")]:
        np.testing.assert_array_equal(np.signbit(call(name, [x])), np.signbit(getattr(np, numpy_name)(x)))


def _exactly(x, y, pick):
    """Division of integers rounding towards 0, in Python's integers; what is out of range wraps."""
    out = []
    for a, b in zip(map(int, x), map(int, y), strict=True):
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        out.append(pick(quotient, a - b * quotient) % 2**64)
    return np.array(out, "uint64").astype(x.dtype)


def truncated(x, y):
    return _exactly(x, y, lambda quotient, remainder: quotient)


def trunc_mod(x, y):
    return _exactly(x, y, lambda quotient, remainder: remainder)


BINARY = {
    "add": (np.add, NUMBERS), "subtract": (np.subtract, NUMBERS), "multiply": (np.multiply, NUMBERS),
    "divide": (np.divide, FLOATS), "floor_divide": (lambda x, y: np.floor(x / y), FLOATS),
    "trunc_divide": (lambda x, y: np.trunc(x / y), FLOATS), "trunc_mod": (np.fmod, FLOATS),
    "mod": (np.fmod, FLOATS), "floor_mod": (np.mod, FLOATS), "power": (np.power, FLOATS),
    "maximum": (np.maximum, NUMBERS), "minimum": (np.minimum, NUMBERS),
    "equal": (np.equal, DTYPES), "not_equal": (np.not_equal, DTYPES), "less": (np.less, DTYPES),
    "less_equal": (np.less_equal, DTYPES), "greater": (np.greater, DTYPES), "greater_equal": (np.greater_equal, DTYPES),
    "logical_and": (np.logical_and, ("bool",)), "logical_or": (np.logical_or, ("bool",)),
    "logical_xor": (np.logical_xor, ("bool",)),
    "bitwise_and": (np.bitwise_and, (*INTEGERS, "bool")), "bitwise_or": (np.bitwise_or, (*INTEGERS, "bool")),
    "bitwise_xor": (np.bitwise_xor, (*INTEGERS, "bool")),
    "left_shift": (np.left_shift, INTEGERS), "right_shift": (np.right_shift, INTEGERS),
}  # fmt: skip
PAIRS = [((0,), (0,)), ((1,), (7,)), ((7,), (1,)), ((3, 1), (1, 5)), ((2, 3), (3,)), ((), (4,)), ((0, 3), (1, 3)), ((), ())]


@pytest.mark.split(2)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    reference, dtypes = BINARY[name]
    for dtype in dtypes:
        for a, b in PAIRS:
            x, y = sample(a, dtype, 1), sample(b, dtype, 2)
            rtol = 0 if name != "power" else 2e-6 if dtype == "float32" else 1e-13
            for static in (False, True):
                same(call(name, [x, y], static=static), np.asarray(reference(x, y)), rtol)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_division(dtype):
    x, y = sample((501,), dtype, 3), sample((501,), dtype, 4)
    y[y == 0] = 3
    same(call("divide", [x, y]), truncated(x, y))
    same(call("mod", [x, y]), trunc_mod(x, y))
    same(call("trunc_divide", [x, y]), truncated(x, y))
    same(call("trunc_mod", [x, y]), trunc_mod(x, y))
    same(call("floor_divide", [x, y]), x // y)
    same(call("floor_mod", [x, y]), x % y)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_remainder_of_zero_has_the_sign_of_the_divisor(dtype):
    x = np.array([-3, 3, -0.0, 0.0, -4.5, 4.5, -1, 1], dtype)
    for y in (np.array(1.5, dtype), np.array(-1.5, dtype), np.array(np.inf, dtype)):
        found, expected = call("floor_mod", [x, y]), np.mod(x, y)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("name", ["divide", "mod", "floor_divide", "floor_mod", "trunc_divide", "trunc_mod"])
def test_division_by_zero_is_a_status(name):
    x, y = np.array([1, 2, 3]), np.array([1, 0, 3])
    assert evaluate(one_call(name, [x, y]), [x, y])[0] == DIVISION_BY_ZERO
    # nobody divides when there is no element, though the divisor is read ahead of the loop
    assert evaluate(one_call(name, [x[:0], y[1]]), [x[:0], y[1]])[0] == 0


@pytest.mark.parametrize("source", DTYPES)
def test_cast(source):
    for wanted in DTYPES:
        x = sample((21,), source, 5)
        if is_float(source):
            x = np.nan_to_num(x, posinf=9, neginf=-9).clip(-100, 100).astype(source)
        if is_float(source) and wanted.startswith("u"):
            x = np.abs(x)
        same(call("cast", [x], CastAttrs(wanted)), x.astype(wanted))


def test_attributes_of_elementwise_operators():
    x = sample((33,), "float32", 6)
    same(call("nn.leaky_relu", [x], LeakyReluAttrs(0.25)), np.where(x < 0, x * np.float32(0.25), x))
    same(call("clip", [x], ClipAttrs(-1.5, 2)), np.clip(x, np.float32(-1.5), np.float32(2)))
    n = sample((33,), "int8", 7)
    same(call("clip", [n], ClipAttrs(-1.5, 1e9)), np.clip(n, -1, 127).astype("int8"))
    same(call("clip", [n], ClipAttrs(float("-inf"), 2.5)), np.clip(n, -128, 2).astype("int8"))


@pytest.mark.parametrize("shapes", [((4,), (4,), (4,)), ((3, 1), (1, 4), ()), ((1,), (0,), (1,)), ((2, 1), (2, 5), (5,))])
def test_where(shapes):
    c, x, y = sample(shapes[0], "bool", 1), sample(shapes[1], "float32", 2), sample(shapes[2], "float32", 3)
    same(call("where", [c, x, y]), np.where(c, x, y))


def test_spreading_one_input():
    x = sample((3, 1), "float32")
    same(call("broadcast_to", [x], BroadcastToAttrs((2, 3, 4))), np.broadcast_to(x, (2, 3, 4)))
    same(call("broadcast_to_like", [x, np.zeros((2, 3, 4), "int8")]), np.broadcast_to(x, (2, 3, 4)))
    data, bias = sample((2, 3, 5), "float32"), sample((3,), "float32", 9)
    same(call("nn.bias_add", [data, bias], BiasAddAttrs(1)), data + bias[:, None])
    last = sample((5,), "float32", 9)
    same(call("nn.bias_add", [data, last], BiasAddAttrs(-1)), data + last)
    same(call("nn.prelu", [data, bias], PreluAttrs(1)), np.where(data < 0, data * bias[:, None], data))
    same(call("nn.prelu", [data, last], PreluAttrs(-1)), np.where(data < 0, data * last, data))
    same(call("full_like", [x, np.float32(2.5)]), np.full_like(x, 2.5))


def test_every_operator_of_these_patterns_is_tested():
    others = {
        "cast",
        "nn.leaky_relu",
        "clip",
        "where",
        "broadcast_to",
        "broadcast_to_like",
        "nn.bias_add",
        "full_like",
        "nn.prelu",
    }
    declared = {n for n, op in REGISTRY.items() if op.pattern in (OpPattern.ELEMWISE, OpPattern.BROADCAST)}
    assert declared == set(UNARY) | set(BINARY) | others


@pytest.mark.optimized
@pytest.mark.parametrize(
    "name", ["floor", "round", "ceil", "trunc", "log2", "erf", "sign", "sigmoid", "isfinite", "asinh", "atanh"]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_machine_code_of_unary(name):
    x = np.array([*EDGES[:-1], *np.linspace(-4, 4, 200)], "float32")
    same(call(name, [x], run=compiled), np.asarray(UNARY[name][0](x)), 2e-6 if name in TRANSCENDENTAL else 0)


@pytest.mark.optimized
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("add", "int8"), ("multiply", "uint64"), ("floor_divide", "int64"), ("divide", "int32"), ("floor_mod", "float32"),
     ("power", "float32"), ("minimum", "float64"), ("left_shift", "int32"), ("right_shift", "uint8"), ("less", "uint64")],
)  # fmt: skip
def test_machine_code_of_binary(name, dtype):
    x, y = sample((301,), dtype, 3), sample((301,), dtype, 4)
    if not is_float(dtype) and "div" in name:
        y[y == 0] = -1
    reference = (
        truncated if (name, dtype) == ("divide", "int32") else np.floor_divide if name == "floor_divide" else BINARY[name][0]
    )
    same(call(name, [x, y], run=compiled), reference(x, y), 2e-6 if name == "power" else 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_halves_are_rounded_away_from_zero(dtype: str) -> None:
    """Relay's rule, not numpy's; the largest number below 0.5 is rounded down."""
    below = np.nextafter(np.array(0.5, dtype), np.array(0, dtype))
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, below, -below, 2.0**52 + 1, np.inf], dtype)
    wanted = np.array([1, 2, 3, -1, -2, -3, 0, -0.0, 2.0**52 + 1, np.inf], dtype)
    np.testing.assert_array_equal(call("round", [x]), wanted)
    assert np.isnan(call("round", [np.array([np.nan], dtype)])[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_beside_halves(dtype: str) -> None:
    """The rounding adds the number below 0.5, and the sum is rounded, too."""
    last = 23 if dtype == "float32" else 52
    ties = np.concatenate([np.arange(100), *(2.0**k + np.arange(-3, 4) for k in range(7, last))]).astype(dtype) + np.array(
        0.5, dtype
    )
    far = 2.0 ** np.arange(last, last + 3) + np.arange(5)[:, None]
    x = np.concatenate([*(np.nextafter(ties, np.array(to, dtype)) for to in (0, np.inf)), ties, far.ravel().astype(dtype)])
    for values in (x, -x):
        np.testing.assert_array_equal(call("round", [values], run=compiled), rounded(values))
