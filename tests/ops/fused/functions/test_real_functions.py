"""Functions of float32: their errors in units in the last place over all exponents, and special values."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
from scipy import special

from relayvm.ops.codegen.loop_nest import vector_math
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.generated_source import define
from relayvm.ops.native.memory import array_float32, native
from relayvm.ops.native.static_values import at_compile_time


def vanishing(function):
    """The function with 0 for results that would be subnormal."""
    return lambda x: np.where(x < float(np.float32(vector_math.LEAST)), 0.0, function(x))


#: By name: what numpy says in float64.
FUNCTIONS = {
    "exp_float32": np.exp,
    "exp_float32_below": vanishing(np.exp),
    "sigmoid_float32": vanishing(special.expit),
    "silu_float32": lambda x: np.where(x < -88.375, x * 0.0, x * special.expit(x)),
    "log_float32": np.log,
    "log2_float32": np.log2,
    "tanh_float32": np.tanh,
    "erf_float32": special.erf,
    "gelu_float32": lambda x: x * special.ndtr(x),
    "round_float32": np.rint,
    "trunc_float32": np.trunc,
}
#: The largest errors that are not 2: a sum follows the exponential, and a division the sum.
LARGEST = {"sigmoid_float32": 2.5, "silu_float32": 2.5}
#: Units of error other than the last place: below 0, gelu subtracts numbers of the size of x from each other.
UNITS = {"gelu_float32": lambda x: np.where(x < 0, -x * 2.0**-24, 0.0)}
TEXT = """
def kernel(source, target, n):
    x, y = array_float32(source, n), array_float32(target, n)
    for i in range(n):
        y[i] = {name}(x[i])
    return 0
"""


def machine_code(name, text=TEXT):
    """The function over arrays."""
    namespace = {"array_float32": array_float32, "trunc": vector_math.trunc_float32, name: getattr(vector_math, name)}
    define("test", text.format(name=name), namespace)
    address = kernel_store.address_of(native(namespace["kernel"]), "int32(int64, int64, int64)", f"test_{name}")
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 3)(address)

    def run(x):
        y = np.zeros_like(x)
        assert function(x.ctypes.data, y.ctypes.data, len(x)) == 0
        return y

    return run


def plain(name):
    function = getattr(vector_math, name)
    return lambda x: np.array([function(v) for v in x], "float32")


def sample(name, each):
    """``each`` positive numbers of every exponent, evenly, and their negatives where the function takes them."""
    bits = np.linspace(0, 0x7F7FFFFF, 255 * each).astype("uint32")
    x = bits.view("float32")
    return {"exp_float32_below": -x, "log_float32": x, "log2_float32": x}.get(name, np.concatenate([x, -x]))


def ulps(ours, exact, least=0.0):
    """The error of each number in units in the last place of the float32 nearest to the exact value, or in larger units."""
    with np.errstate(over="ignore", under="ignore"):
        nearest = exact.astype("float32")
        same = (ours == nearest) | (np.isnan(ours) & np.isnan(nearest))
        unit = np.abs(np.spacing(np.where(np.isfinite(nearest), nearest, 1))).astype("float64")
        return np.where(same, 0, np.abs(ours.astype("float64") - exact) / np.maximum(unit, least))


def errors(name, run, x):
    """The errors of a function, in its units."""
    with np.errstate(all="ignore"):
        wide = x.astype("float64")
        return ulps(run(x), FUNCTIONS[name](wide), UNITS[name](wide) if name in UNITS else 0.0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_machine_code_is_within_the_bound(name):
    assert errors(name, machine_code(name), sample(name, 8192)).max() <= LARGEST.get(name, 2)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_plain_python_is_as_good(name):
    # here a product is rounded before something is added to it
    assert errors(name, plain(name), sample(name, 16)).max() <= 3


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("made", [machine_code, plain])
def test_special_numbers(name, made):
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-45, -1e-45], "float32")
    if name == "exp_float32_below":
        x = x[~(x > 0)]
    x = np.concatenate([x, np.array([0x7F800001, 0xFFFFFFFF, 0x7FC00001], "uint32").view("float32")])
    with np.errstate(all="ignore"):
        ours, expected = made(name)(x), FUNCTIONS[name](x.astype("float64")).astype("float32")
    assert errors(name, made(name), x)[np.isfinite(expected)].max() <= (2 if made is machine_code else 3)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(expected))
    np.testing.assert_array_equal(ours[np.isinf(expected)], expected[np.isinf(expected)])
    zero = (expected == 0) & (name != "gelu_float32")  # a sum of two numbers: each of its zeros is positive
    np.testing.assert_array_equal(np.signbit(ours[zero]), np.signbit(expected[zero]))


#: By name: what numpy says of numbers whose whole part is known.
OF_WHOLE_PARTS = {"floor_float32": np.floor, "ceil_float32": np.ceil}


@pytest.mark.parametrize(("name", "wanted"), OF_WHOLE_PARTS.items())
@pytest.mark.parametrize("has_instruction", [True, False])
def test_whole_numbers_below_and_above(monkeypatch, name, wanted, has_instruction):
    """By an instruction and without: the same bits, apart from those of NaN."""
    if not has_instruction:
        monkeypatch.setattr(vector_math, "has_rounding", at_compile_time(lambda: False))
    halves = np.arange(2**16, dtype="uint16").view("float16").astype("float32")
    x = np.concatenate([sample(name, 1024), halves, np.array([1e-45, -1e-45, 8388607.5, -8388607.5], "float32")])
    ours, nan = machine_code(name, TEXT.replace("(x[i])", "(x[i], trunc(x[i]))"))(x), np.isnan(x)
    np.testing.assert_array_equal(np.isnan(ours), nan)
    differs = ours[~nan].view("uint32") != wanted(x[~nan]).view("uint32")
    assert not differs.any(), x[~nan][differs][:5]


#: The functions that never fall, the largest number at which they change, and the numbers around 0 where they stay the same.
RISING = {"exp_float32": (0x42D20000, 0x32000000), "sigmoid_float32": (0x42D20000, 0x32800000)}


def falls(function, first, last):
    """The first number above whose successor the result is smaller, of those with the bits from ``first`` to ``last``."""
    for at in range(first, last, 1 << 16):
        x = np.arange(at, min(at + (1 << 16), last) + 1, dtype="uint32").view("float32")
        y = function(x)
        wrong = y[1:] < y[:-1] if at < 1 << 31 else y[1:] > y[:-1]
        if wrong.any():
            return x[wrong.argmax()]
    return None


@pytest.mark.parametrize("name", RISING)
@pytest.mark.parametrize("sign", [0, 1 << 31])
@pytest.mark.extensive
def test_rising_functions_never_fall(name, sign):
    # every number: 600 million at which the result changes, and a sample where the result is always the same
    run, (most, least) = machine_code(name), RISING[name]
    with np.errstate(all="ignore"):
        assert falls(run, sign + least, sign + most) is None
    ends = np.array([sign + least, sign + most], "uint32").view("float32")
    for low, high, end in ((0, least, ends[0]), (most, 0x7F800000, ends[1])):
        x = (np.linspace(low, high, 10**6).astype("uint32") + np.uint32(sign)).view("float32")
        assert (run(x) == run(np.array([end]))).all()


@pytest.mark.parametrize("name", RISING)
@pytest.mark.parametrize("made", [machine_code, plain])
def test_rising_functions_do_not_fall_between_neighbours(name, made):
    # windows at numbers of all exponents, and where the exponential takes another power of 2
    run, each = made(name), 4096 if made is machine_code else 16
    steps = np.array([(k + 0.5) * math.log(2) for k in range(-150, 150)], "float32")
    random = np.random.default_rng(0).uniform(-0.4, 0.4, 50).astype("float32")
    for middle in np.concatenate([steps, random]).view("uint32"):
        with np.errstate(over="ignore"):
            assert falls(run, int(middle) - each // 2, int(middle) + each // 2) is None, middle


def test_every_function_is_here():
    own = {n for n, f in vars(vector_math).items() if getattr(f, "__module__", "") == vector_math.__name__}
    declared = {n for n in own if not n.startswith("_")}
    # what ``exp_float32_below`` scales, and is tested with; and the question for instructions that round
    assert set(FUNCTIONS) | set(OF_WHOLE_PARTS) | {"large_exp_float32_below", "has_rounding"} == declared
