"""Maxima over taps: machine code for every number of results and the vectors of any machine; nothing outside is written."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.core.tensor_types import HALVES, is_float, numpy_dtype
from relayvm.ops.kernels.pool.largest_of_taps import MOST_STEP, take_largest

from .front_end.machine_code import compiled, python_function

CALL = """
def f(data, n, at, taps, tap_step, step, out, m, to, count, more):
    take_largest(array_{dtype}(data, n), at, taps, tap_step, step, array_{result}(out, m), to, count, more)
    return 0
"""


@pytest.mark.extensive(dtype=("float32", "uint8", "bfloat16"))
@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        *((dtype, dtype) for dtype in ("float32", "float64", "int8", "uint8", "int64", "uint64")),
        *(pair for half in HALVES for pair in ((half, "float32"), ("float32", half))),
    ],
)
@pytest.mark.parametrize("nbytes", [16, 64])
def test_maxima_over_taps(monkeypatch: pytest.MonkeyPatch, dtype: str, result: str, nbytes: int) -> None:
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: (32, nbytes))
    code = compiled(python_function(CALL.format(dtype=dtype, result=result), take_largest=take_largest))
    rng = np.random.default_rng(0)
    data = rng.integers(-100, 100, 900).astype(numpy_dtype(dtype))
    if is_float(dtype):
        data[rng.random(900) < 0.02] = np.nan
    for count in (0, 1, 2, 7, 16, 33, 70, 300):
        for step in range(1, MOST_STEP + 1):
            for taps, tap_step, more in [(1, 5, 0), (2, 1, 0), (3, 90, 1), (4, 2, 3), (1, 1, 1)]:
                found, plain, wanted = np.tile(rng.integers(0, 90, count + 9).astype(numpy_dtype(result)), (3, 1))
                given = 3, taps, tap_step, step
                code(data.ctypes.data, data.size, *given, found.ctypes.data, found.size, 4, count, more)
                take_largest(data, *given, plain, 4, count, more)
                windows = data[3 + np.arange(count)[:, None] * step + np.arange(taps) * tap_step]
                before = wanted[4 : 4 + count, None] if more else windows[:, :1]
                wanted[4 : 4 + count] = np.concatenate([windows, before], 1).max(1)
                for x in (found, plain):
                    np.testing.assert_array_equal(x.astype(np.float64), wanted.astype(np.float64))
