"""Arrays, records and conversions of machine code are those of the twins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.tensor_types import DTYPES, numpy_dtype
from relayvm.ops.native.generated_source import define
from relayvm.ops.native.memory import native, record

from .machine_code import NAMES, compiled, python_function

VALUES = (0, 1, 2, 3, 100, 127)
FUNCTIONS = """
def f_{source}(source, target, n):
    x, y = array_{source}(source, n), array_{target}(target, n)
    for i in range(n):
        y[i] = {convert}(x[-1 - i])
    y[n - 1] += x[0]
    return len(x) + y.size
"""


def elements(block: np.ndarray, place: int, dtype: str) -> np.ndarray:
    """Six elements in the 64 bytes of a block at a place."""
    return block[64 * place :][: 6 * numpy_dtype(dtype).itemsize].view(numpy_dtype(dtype))


@pytest.mark.parametrize("target", DTYPES)
def test_elements_of_every_dtype(target: str) -> None:
    convert = "" if target == "bool" else target
    text = "\n".join(FUNCTIONS.format(source=source, target=target, convert=convert) for source in DTYPES)
    calls = "\n".join(f"    t += f_{s}(x + {64 * k}, y + {64 * k}, 6)" for k, s in enumerate(DTYPES))
    made = define("test", f"{text}\ndef f(x, y):\n    t = 0\n{calls}\n    return t\n", dict(NAMES))
    for source in DTYPES:
        native(made[f"f_{source}"])
    given = np.zeros(64 * len(DTYPES), np.uint8)
    for k, source in enumerate(DTYPES):
        given[64 * k :][: 6 * numpy_dtype(source).itemsize].view(numpy_dtype(source))[:] = np.array(VALUES).astype(
            numpy_dtype(source)
        )
    out = np.zeros_like(given)
    code = compiled(native(made["f"]))
    assert code(given.ctypes.data, out.ctypes.data) == 12 * len(DTYPES)
    for k, source in enumerate(DTYPES):
        x = elements(given, k, source)
        wanted = x[::-1].astype(numpy_dtype(target))
        wanted[-1] = (wanted[-1].astype(np.float64) + np.float64(x[0])).astype(numpy_dtype(target))
        found = elements(out, k, target)
        np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64), source)


def test_axes_slices_and_views() -> None:
    function = python_function(
        "def f(address, n):\n"
        "    x = array_int32_3d(address, (2, 3, n))\n"
        "    flat = array_int32(address, 6 * n)\n"
        "    x[1, -1, n - 1] = 77\n"
        "    part = flat[n : -n]\n"
        "    part[0] = len(part) + len(flat[4:2]) + len(flat[-100:100])\n"
        "    words = flat.view(uint8)\n"
        "    return words.size + 1000 * x.shape[1] + 10000 * x.itemsize + 100000 * len(x) + int(words[4 * n])\n"
    )
    arrays = [np.arange(24, dtype=np.int32) for _ in range(2)]
    found, wanted = compiled(function)(arrays[0].ctypes.data, 4), function(arrays[1].ctypes.data, 4)
    assert found == wanted
    np.testing.assert_array_equal(*arrays)


def test_records() -> None:
    view = record(np.dtype([("a", np.int64), ("many", np.int64, (3,)), ("b", np.int64)]))
    text = """
def f(p, x):
    r = view(p)
    r.a, r.b = x, r.b + 1
    r.many[x % 3] = r.a
    r.b *= 2
    return r.many[0] + r.b
"""
    function = python_function(text, view=view)
    words = [np.arange(5) for _ in range(2)]
    assert compiled(function)(words[0].ctypes.data, 7) == function(words[1].ctypes.data, 7)
    np.testing.assert_array_equal(*words)


REALS = (0.0, -0.0, 1.0, -2.5, 3.75, 1e300, -1e-300, math.inf, -math.inf, math.nan)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_operators_on_floats(dtype: str) -> None:
    """Bit for bit: sums, products, quotients, remainders, comparisons, extremes, conversions."""
    expressions = {
        "a + b": np.add, "a - b": np.subtract, "a * b": np.multiply, "a / b": np.divide, "a // b": np.floor_divide,
        "a % b": np.mod, "-a": lambda a, b: -a, "abs(a)": lambda a, b: abs(a), "float(a < b)": np.less,
        "float(a != b)": np.not_equal, "max(a, b)": lambda a, b: max(a, b), "min(a, b)": lambda a, b: min(a, b),
        "math.copysign(a, b)": np.copysign, "math.sqrt(abs(a))": lambda a, b: np.sqrt(abs(a)),
        "float(math.isinf(a))": lambda a, b: np.isinf(a), "float(math.isfinite(a))": lambda a, b: np.isfinite(a),
    }  # fmt: skip
    lines = "".join(f"            z[i, j, {k}] = {text}\n" for k, text in enumerate(expressions))
    n, m = len(REALS), len(expressions)
    function = python_function(
        f"def f(p, q):\n    x, z = array_{dtype}(p, {n}), array_{dtype}_3d(q, ({n}, {n}, {m}))\n"
        f"    for i in range({n}):\n        for j in range({n}):\n            a, b = x[i], x[j]\n{lines}    return 0\n",
        math=math,
    )
    with np.errstate(all="ignore"):
        x = np.array(REALS).astype(dtype)
        z = np.zeros((n, n, m), dtype)
        assert compiled(function)(x.ctypes.data, z.ctypes.data) == 0
        for k, (text, oracle) in enumerate(expressions.items()):
            wanted: Any = np.array([[oracle(a, b) for b in x] for a in x]).astype(dtype)
            np.testing.assert_array_equal(z[:, :, k], wanted, text)
            if text not in ("a // b", "a % b"):  # numpy gives NaN another sign there
                np.testing.assert_array_equal(
                    np.signbit(z[:, :, k][~np.isnan(wanted)]), np.signbit(wanted[~np.isnan(wanted)]), text
                )


def test_division_of_integers_traps_nowhere() -> None:
    function = python_function("def f(a, b):\n    return a // b * 7 + a % b")
    code = compiled(function)
    least = -(1 << 63)
    assert [code(a, 0) for a in (0, 5, least)] == [0, 0, 0]
    assert code(least, -1) == 0
    assert all(code(a, b) == function(a, b) for a in (-9, -1, 0, 8) for b in (-4, -1, 1, 3))
