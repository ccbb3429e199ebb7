"""A user's kernel outside the subset of the front end is compiled by numba; a function of the package never is."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from relayvm.ops.native import memory
from relayvm.ops.native.front_end.values.scalars import Outside
from relayvm.ops.native.generated_source import define
from relayvm.ops.native.memory import generic
from relayvm.ops.native.user_function import UserFunctionError

from .machine_code import NAMES, compiled


@numba.njit
def _squared(x: Any) -> Any:
    return x**2


@generic
def _norms(rows: Any, keep: Any, scale: Any, steps: Any, out: Any) -> int:
    """Beyond the subset: ``enumerate``, rows of a matrix, a function of NumPy's, a function of numba's."""
    for i, row in enumerate(rows):
        total = 0.0
        for x in row:
            total += _squared(x)
        out[i] = np.sqrt(total) * scale if keep[i] else -steps[1]
    return 0


CALL = """
def f(rows, keep, out, n):
    return norms(array_float64_2d(rows, (n, 3)), array_bool(keep, n), 2.0, (5, 7), array_float64(out, n))
"""


def test_numba_compiles_a_users_function() -> None:
    rows, keep, out = np.arange(12.0).reshape(4, 3), np.array([True, False, True, True]), np.zeros(4)
    function = memory.native(define("test", CALL, {**NAMES, "norms": _norms})["f"])
    assert compiled(function)(rows.ctypes.data, keep.ctypes.data, out.ctypes.data, 4) == 0
    np.testing.assert_allclose(out, np.where(keep, 2 * np.linalg.norm(rows, axis=1), -7.0))


@generic
def _unknown(x: Any) -> Any:
    return x.no_such_attribute


def test_a_function_that_numba_cannot_compile_is_an_error() -> None:
    function = memory.native(
        define("test", "def f(p):\n    return unknown(array_int64(p, 1))\n", {**NAMES, "unknown": _unknown})["f"]
    )
    with pytest.raises(UserFunctionError, match="_unknown cannot be compiled: Unknown attribute 'no_such_attribute'"):
        compiled(function)


@generic
def _allocating(x: Any) -> Any:
    for i, value in enumerate(np.zeros(3)):
        x[i] = value
    return 0


def test_a_function_that_makes_arrays_is_an_error() -> None:
    function = memory.native(
        define("test", "def f(p):\n    return allocating(array_int64(p, 3))\n", {**NAMES, "allocating": _allocating})["f"]
    )
    with pytest.raises(UserFunctionError, match="_allocating cannot be compiled: it makes an array, by numba's runtime") as found:
        compiled(function)
    assert found.value.line == _allocating.__code__.co_firstlineno + 2  # the line of np.zeros


def test_a_function_of_the_package_is_never_left_to_numba() -> None:
    text = "def f(p):\n    for x in enumerate(array_int64(p, 3)):\n        return 0\n    return 1\n"
    with pytest.raises(Outside, match=r"a call of enumerate, in enumerate\(array_int64\(p, 3\)\) \(line 2\), in None.f"):
        compiled(memory.native(define("test", text, dict(NAMES))["f"]))
