"""Powers of float32: their errors over all exponents, and the special numbers of C's ``pow``."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.ops.codegen.loop_nest.vector_power import pow_float32

from ..run_group import call, compiled

SPECIAL = [0.0, 1.0, 2.0, 0.5, 3.0, 0.99999994, 1.0000001, 2.5, 8388609.0, 16777216.0, 1e30, 1e-30, 1e-45, 3.4e38, np.inf]


def check(x, y, ours, most=0.6):
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        nearest = exact.astype("float32")
    finite = np.isfinite(nearest)
    np.testing.assert_array_equal(ours[~finite], nearest[~finite])
    zero = nearest == 0
    np.testing.assert_array_equal(np.signbit(ours[zero]), np.signbit(nearest[zero]))
    unit = np.abs(np.spacing(nearest[finite])).astype(np.longdouble)
    assert (np.abs(ours[finite] - exact[finite]) / unit).max(initial=0) <= most


def pairs():
    numbers = [*SPECIAL, *(-s for s in SPECIAL), np.nan]
    return np.array(list(itertools.product(numbers, numbers)), "float32").T.copy()


@pytest.mark.parametrize("function", [lambda x, y: call("power", [x, y], run=compiled), np.vectorize(pow_float32, otypes=["f4"])])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_numbers(function):
    x, y = pairs()
    check(x, y, function(x, y))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_machine_code_is_within_the_bound():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 0x7F800000, 300_000).astype("uint32").view("float32")
    # exponents with which the results are of every size
    with np.errstate(all="ignore"):
        y = (rng.uniform(-152, 130, len(x)) / np.log2(x.astype("float64"))).astype("float32")
    check(x, y, call("power", [x, y], run=compiled))
    near = (1 + rng.normal(size=100_000) * 1e-4).astype("float32")
    y = rng.uniform(-1e6, 1e6, len(near)).astype("float32")
    check(near, y, call("power", [near, y], run=compiled))


@given(st.floats(width=32), st.floats(width=32))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_two_numbers(x, y):
    x, y = np.array([x], "float32"), np.array([y], "float32")
    check(x, y, call("power", [x, y], run=compiled))
