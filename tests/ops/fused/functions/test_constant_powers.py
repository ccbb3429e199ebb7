"""Powers with a constant exponent: products, quotients and roots, as exact as the function and equal to it at special numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import relayvm as relay
from relayvm.ops.codegen import kernel_source
from relayvm.ops.codegen.cuda import cuda_source
from relayvm.ops.core.group import Literal, Node
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import Tensor, numpy_dtype
from relayvm.shape_funcs.symbolic.dim import sym

from ..run_group import compiled, evaluate, group_of, plain

DTYPES = ("float16", "bfloat16", "float32", "float64")
#: The exponents whose powers need no function.
EXPONENTS = (2.0, 3.0, 4.0, -1.0, -2.0, 0.5, 1.5, -0.5, 1.0, 0.0, -0.0)
#: By dtype, the units in the last place of numpy's result in a wider format: the halves are rounded once more.
ULPS = {"float16": 0.51, "bfloat16": 0.51, "float32": 2, "float64": 2}
WORDS = {"float16": "uint16", "bfloat16": "uint16", "float32": "uint32", "float64": "uint64"}


def powers(dtype, exponents=EXPONENTS):
    """The group of the powers of one vector."""
    nodes = [Node("power", get("power").attrs(), (0, 1 + k), ()) for k in range(len(exponents))]
    literals = [Literal(dtype, e) for e in exponents]
    first = 1 + len(exponents)
    return group_of([Tensor(dtype, (sym("n"),))], nodes, literals, range(first, first + len(exponents)))


def special(dtype):
    info = np.finfo(np.float32 if dtype == "bfloat16" else dtype)
    sizes = [0.0, 1.0, 2.0, 0.75, 1e-3, 3.0, 300.0, float(info.max), float(info.tiny), float(info.smallest_subnormal), np.inf]
    return np.array([*sizes, *(-s for s in sizes), np.nan, -np.nan]).astype(numpy_dtype(dtype))


def sample(dtype, count=20_000):
    """Numbers of every exponent, of both signs."""
    bits = 8 * numpy_dtype(dtype).itemsize
    words = np.random.default_rng(0).integers(0, 2**bits, count, dtype=WORDS[dtype], endpoint=False)
    found = np.concatenate([special(dtype), words.view(numpy_dtype(dtype))])
    found[np.isnan(found)] = np.nan  # no signaling ones
    return found


def check(x, exponent, ours, ulps):
    """Compare with numpy's power in a wider format, within units in the last place of the result."""
    wide = np.longdouble if x.dtype == np.float64 else np.float64
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(wide), np.full(x.shape, exponent, wide))  # a scalar 0.5 would be a root
        nearest = exact.astype(x.dtype)
    finite = np.isfinite(nearest)
    np.testing.assert_array_equal(ours[~finite].astype(wide), nearest[~finite].astype(wide))
    zero = (nearest == 0) & (ours == 0)
    np.testing.assert_array_equal(np.signbit(ours[zero]), np.signbit(nearest[zero]))
    unit = np.abs(np.spacing(nearest[finite])).astype(wide)
    error = np.abs(ours[finite].astype(wide) - exact[finite]) / unit
    assert error.max(initial=0) <= ulps, (exponent, x[finite][error.argmax()], error.max())


@pytest.mark.split(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("run", [compiled, plain])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_powers_are_as_exact_as_the_function(dtype, run):
    x = sample(dtype) if run is compiled else sample(dtype, 500)
    status, found = evaluate(powers(dtype), [x], run)
    assert status == 0
    for exponent, ours in zip(EXPONENTS, found, strict=True):
        check(x, exponent, ours, ULPS[dtype])


@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_powers_of_any_numbers(numbers):
    x = np.array(numbers, "float32")
    status, found = evaluate(powers("float32"), [x], compiled)
    assert status == 0
    for exponent, ours in zip(EXPONENTS, found, strict=True):
        check(x, exponent, ours, ULPS["float32"])


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_call_no_function(dtype):
    group = powers(dtype)
    assert "pow" not in kernel_source(group).text
    assert "pow" not in cuda_source(group).text.rpartition("__global__")[2]


@pytest.mark.parametrize("exponent", [7.3, float("inf"), float("nan"), 1e30])
def test_other_exponents_call_the_function(exponent):
    assert "pow" in kernel_source(powers("float32", (exponent,))).text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_first_power_of_halves_is_the_number(dtype: str) -> None:
    """Nothing but a move, of which the other operand is a half."""
    x = np.array([0.5, -2.0, np.inf, 0.0], "float32").astype(numpy_dtype(dtype))
    var = relay.var("x", (4,), dtype)
    exe = relay.compile(relay.Function([var], relay.power(var, relay.const(np.ones((), x.dtype)))), opt_level=0)
    np.testing.assert_array_equal(relay.VirtualMachine(exe).run(x).numpy().view("uint16"), x.view("uint16"))
