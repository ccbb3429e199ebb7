"""Functions of float32: their errors in units in the last place over all exponents, and special values."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
from scipy import special

from relayvm.ops.codegen.loop_nest import vector_math
from relayvm.ops.native.cache import kernel_store
from relayvm.ops.native.generated_source import define
from relayvm.ops.native.memory import array_float32, native

#: By name: what numpy says in float64.
FUNCTIONS = {
    "exp_float32": np.exp,
    "exp_float32_below": np.exp,
    "sigmoid_float32": special.expit,
    "log_float32": np.log,
    "tanh_float32": np.tanh,
    "erf_float32": special.erf,
}
#: The largest errors that are not 2: a sum follows the exponential, and a division the sum.
LARGEST = {"sigmoid_float32": 2.5}
TEXT = """
def kernel(source, target, n):
    x, y = array_float32(source, n), array_float32(target, n)
    for i in range(n):
        y[i] = {name}(x[i])
    return 0
"""


def machine_code(name):
    """The function over arrays."""
    namespace = {"array_float32": array_float32, name: getattr(vector_math, name)}
    define("test", TEXT.format(name=name), namespace)
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
    return {"exp_float32_below": -x, "log_float32": x}.get(name, np.concatenate([x, -x]))


def ulps(ours, exact):
    """The error of each number in units in the last place of the float32 nearest to the exact value."""
    with np.errstate(over="ignore", under="ignore"):
        nearest = exact.astype("float32")
        same = (ours == nearest) | (np.isnan(ours) & np.isnan(nearest))
        unit = np.spacing(np.where(np.isfinite(nearest), nearest, 1)).astype("float64")
        return np.where(same, 0, np.abs((ours.astype("float64") - exact) / unit))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_machine_code_is_within_the_bound(name):
    x = sample(name, 8192)
    with np.errstate(all="ignore"):
        assert ulps(machine_code(name)(x), FUNCTIONS[name](x.astype("float64"))).max() <= LARGEST.get(name, 2)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_plain_python_is_as_good(name):
    # here a product is rounded before something is added to it
    x = sample(name, 16)
    with np.errstate(all="ignore"):
        assert ulps(plain(name)(x), FUNCTIONS[name](x.astype("float64"))).max() <= 3


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("made", [machine_code, plain])
def test_special_numbers(name, made):
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-45, -1e-45], "float32")
    if name == "exp_float32_below":
        x = x[~(x > 0)]
    x = np.concatenate([x, np.array([0x7F800001, 0xFFFFFFFF, 0x7FC00001], "uint32").view("float32")])
    with np.errstate(all="ignore"):
        ours, expected = made(name)(x), FUNCTIONS[name](x.astype("float64")).astype("float32")
    np.testing.assert_array_max_ulp(ours[np.isfinite(expected)], expected[np.isfinite(expected)], 2)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(expected))
    np.testing.assert_array_equal(ours[np.isinf(expected)], expected[np.isinf(expected)])
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(ours[zero]), np.signbit(expected[zero]))


def test_every_function_is_here():
    declared = {n for n, f in vars(vector_math).items() if getattr(f, "__module__", "") == vector_math.__name__}
    # what ``exp_float32_below`` scales, and is tested with
    assert set(FUNCTIONS) | {"large_exp_float32_below"} == declared
