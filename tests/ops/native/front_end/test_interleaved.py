"""Loops over functions whose operations wait for each other: two vectors at a time, with the results of one at a time."""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from relayvm.ops.native.compiled.function_fingerprint import fingerprint
from relayvm.ops.native.front_end.compilation import Compilation
from relayvm.ops.native.front_end.vector_hints import filled_range, interleaved, interleaved_loop, multiply_add, short_range
from relayvm.ops.native.memory import generic, native

from .machine_code import compiled, python_function

CALL = """
def f(source, target, rows, n):
    x, y = array_float32(source, rows * n), array_float32(target, rows * n)
    for i in range(rows):
        for j in range(n):
            y[i * n + j] = power(x[i * n + j])
    return 0
"""


@generic
def alone(x):
    p = multiply_add(np.float32(0.25), x, np.float32(0.5))
    return multiply_add(p * p, x, p)


@interleaved
@generic
def together(x):
    p = multiply_add(np.float32(0.25), x, np.float32(0.5))
    return multiply_add(p * p, x, p)


def hints(function):
    """The number of loops with the hint, in the code before it is optimized."""
    made = Compilation(ir.Module())
    made.entry(function, "int64(int64, int64, int64, int64)", "entry")
    return str(made.module).count(interleaved_loop(())[0][0])


def test_the_innermost_loop_is_interleaved():
    assert [hints(python_function(CALL, power=f)) for f in (alone, together)] == [0, 1]


def test_a_loop_of_chosen_vectors_is_interleaved_unless_it_has_a_number_of_its_own():
    for ranges, alike in ((filled_range, [0, 1]), (short_range, [1, 1])):
        text = CALL.replace("in range(n)", f"in {ranges.__name__}(n)")
        assert [hints(python_function(text, power=f, **{ranges.__name__: ranges})) for f in (alone, together)] == alike


def test_results_are_those_of_one_vector_at_a_time():
    one, two = (compiled(python_function(CALL, power=f)) for f in (alone, together))
    for n in range(70):
        x = np.random.default_rng(n).standard_normal((3, n)).astype(np.float32)
        found, expected = np.full((2, 3, n), np.nan, np.float32)
        one(x.ctypes.data, expected.ctypes.data, 3, n)
        two(x.ctypes.data, found.ctypes.data, 3, n)
        np.testing.assert_array_equal(found, expected)


def test_the_mark_is_part_of_the_key_of_the_code():
    def caller(x):
        return alone(x)

    marked = fingerprint(native(caller))
    alone.__interleaved__ = True
    try:
        assert fingerprint(caller) != marked
    finally:
        del alone.__interleaved__
