"""Softmax of a row in whole vectors: machine code against numpy in float64, for rows that fill vectors and rows that do not."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.native.jit.row_powers import LEAST, largest, powers_of_two

from .front_end.machine_code import compiled, python_function

CALL = """
def f(row, size, at, n, numbers):
    x, y = array_float32(row, size), array_float32(numbers, 3)
    y[1] = largest(x, at, n)
    y[2] = powers_of_two(x, at, n, y[0] if y[0] == y[0] else y[1])
    return 0
"""
AT, LANES = 5, 16


@pytest.fixture(scope="module")
def code():
    return compiled(python_function(CALL, largest=largest, powers_of_two=powers_of_two))


def run(code, row, top=np.nan):
    """The largest element, the sum of the powers and the powers; a top of NaN: the largest element.  Also by plain Python."""
    n, whole = len(row), -(-len(row) // LANES) * LANES
    memory = np.full(AT + whole + 3, 7, np.float32)
    memory[AT : AT + n] = row
    plain, numbers = memory.copy(), np.array([top, 0, 0], np.float32)
    code(memory.ctypes.data, memory.size, AT, n, numbers.ctypes.data)
    after = memory[AT + n : AT + whole]
    assert (memory[:AT] == 7).all() and (memory[AT + whole :] == 7).all()
    assert (np.sort(after) == after).all() and np.isin(after, [0, 7]).all()  # zeros up to the end of a vector
    with np.errstate(all="ignore"):
        most = largest(plain, AT, n)
        total = powers_of_two(plain, AT, n, most if np.isnan(top) else top)
    np.testing.assert_array_equal(most, numbers[1])
    np.testing.assert_allclose(plain[: AT + n], memory[: AT + n], rtol=3e-7, atol=2.0**-140)
    np.testing.assert_allclose(total, numbers[2], rtol=1e-5)
    return numbers[1], numbers[2], memory[AT : AT + n]


def test_rows_of_every_length(code):
    rng = np.random.default_rng(0)
    for n in [*range(5 * LANES + 2), 100, 512]:
        for spread in (0.0, 2.0, 30.0):
            row = (spread * rng.standard_normal(n)).astype(np.float32)
            most, total, powers = run(code, row)
            assert most == row.max(initial=-np.inf)
            exact = np.exp2((row - most).astype(np.float64))
            np.testing.assert_allclose(powers, exact, rtol=2e-7, atol=2.0**LEAST)  # 2 units in the last place
            np.testing.assert_allclose(total, exact.sum(), rtol=2e-6)


def test_powers_of_every_exponent(code):
    x = -np.geomspace(1e-30, 400, 4096).astype(np.float32)
    x = np.concatenate([x, np.float32([LEAST, *np.nextafter(np.float32(LEAST), np.float32([-np.inf, 0])), -1e30, -3.4e38])])
    _, _, powers = run(code, x, 0.0)
    np.testing.assert_allclose(powers[x > LEAST], np.exp2(x[x > LEAST].astype(np.float64)), rtol=2e-7, atol=2.0**-140)
    assert (powers[x <= LEAST] == 0).all()


def test_infinities_and_nan(code):
    inf, nan = np.inf, np.nan
    for n in (1, 5, LANES, LANES + 1, 3 * LANES, 5 * LANES + 2):
        row = np.linspace(-1, 0, n, dtype=np.float32)
        for at in {0, n // 2, n - 1}:
            for value in (inf, -inf, nan, np.array(0x7FC00001, np.uint32).view(np.float32)):
                changed = row.copy()
                changed[at] = value
                most, total, powers = run(code, changed, 0.0 if value != inf else nan)
                np.testing.assert_array_equal(most, np.fmax.reduce(changed, initial=-inf))
                assert powers[at] == 0 if value == -inf else np.isnan(powers[at]) and np.isnan(total)
