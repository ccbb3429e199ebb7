"""Softmax of a row in whole vectors: machine code against numpy in float64, for rows that fill vectors and rows that do not."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.native.jit.row_powers import largest_product, powers_of_two

from .front_end.machine_code import compiled, python_function

CALL = """
def f(row, size, at, n, numbers):
    x, y = array_float32(row, size), array_float32(numbers, 4)
    y[2] = largest_product(x, at, n, y[0])
    y[3] = powers_of_two(x, at, n, y[0], y[1] if y[1] == y[1] else y[2])
    return 0
"""
AT, LANES = 5, 16


@pytest.fixture(scope="module")
def code():
    return compiled(python_function(CALL, largest_product=largest_product, powers_of_two=powers_of_two))


def run(code, row, factor, top=np.nan):
    """The largest product, the sum of the powers and the powers; a top of NaN: the largest product.  Also by plain Python."""
    n, whole = len(row), -(-len(row) // LANES) * LANES
    memory = np.full(AT + whole + 3, 7, np.float32)
    memory[AT : AT + n] = row
    plain, numbers = memory.copy(), np.array([factor, top, 0, 0], np.float32)
    code(memory.ctypes.data, memory.size, AT, n, numbers.ctypes.data)
    assert (memory[:AT] == 7).all() and (memory[AT + whole :] == 7).all() and (memory[AT + n : AT + whole] == 0).all()
    with np.errstate(all="ignore"):
        largest = largest_product(plain, AT, n, factor)
        total = powers_of_two(plain, AT, n, factor, largest if np.isnan(top) else top)
    np.testing.assert_array_equal(largest, numbers[2])
    np.testing.assert_allclose(plain, memory, rtol=3e-7, atol=1e-38)
    np.testing.assert_allclose(total, numbers[3], rtol=1e-5)
    return numbers[2], numbers[3], memory[AT : AT + n]


@pytest.mark.parametrize("factor", [0.18, -3.0, 0.0])
def test_rows_of_every_length(code, factor):
    rng = np.random.default_rng(0)
    for n in [*range(2 * LANES + 2), 100, 512]:
        row = (10 * rng.standard_normal(n)).astype(np.float32)
        largest, total, powers = run(code, row, factor)
        products = row * np.float32(factor)
        assert largest == products.max(initial=-np.inf)
        exact = np.exp2((products - largest).astype(np.float64))
        np.testing.assert_allclose(powers, exact, rtol=2e-7, atol=2.0**-149)  # 2 units in the last place
        np.testing.assert_allclose(total, exact.sum(), rtol=2e-6)


def test_powers_of_every_exponent(code):
    x = -np.geomspace(1e-30, 400, 4096).astype(np.float32)
    _, _, powers = run(code, x, 1.0, 0.0)
    np.testing.assert_allclose(powers, np.exp2(x.astype(np.float64)), rtol=2e-7, atol=2.0**-149)  # and subnormal ones
    assert (powers[x < -150] == 0).all()


def test_infinities_and_nan(code):
    inf, nan = np.inf, np.nan
    for n in (1, 5, LANES, LANES + 1, 3 * LANES):
        row = np.linspace(-1, 0, n, dtype=np.float32)
        for at in {0, n // 2, n - 1}:
            for value in (inf, -inf, nan):
                changed = row.copy()
                changed[at] = value
                largest, _, powers = run(code, changed, 1.0, 0.0 if value != inf else nan)
                np.testing.assert_array_equal(largest, changed.max())
                assert powers[at] == 0
