"""Maxima of windows in tiles: machine code for rows of any length and the vectors of any machine; nothing outside is written."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.core.tensor_types import is_float, numpy_dtype
from relayvm.ops.kernels.pool.tiles_of_rows import Lines, largest_in_tiles
from relayvm.ops.native.static_values import static
from relayvm.ops.native.vectors import splat

from ..native.front_end.machine_code import compiled, python_function

CALL = """
def f(data, n, at, planes, lines, columns, first, out, m, to, count, end):
    given = Lines(array_{dtype}(data, n), at, 300, 90, planes, lines, columns)
    nothing = splat({nothing}, static({lanes}))
    largest_in_tiles(given, first, nothing, array_{dtype}(out, m), to, count, end, static({taps}), static({step}))
    return 0
"""
NAMES = {"Lines": Lines, "largest_in_tiles": largest_in_tiles, "static": static, "splat": splat, "np": np}


@pytest.mark.parametrize(
    ("dtype", "lanes", "nothing"),
    [
        *(("float32", lanes, "np.float32(-1e9)") for lanes in (4, 8, 16)),
        ("float16", 8, "np.float32(-6e4)"),
        ("bfloat16", 8, "np.float32(-1e9)"),
        ("int8", 64, "np.int8(-128)"),
    ],
)
@pytest.mark.parametrize(("taps", "step"), [(1, 1), (2, 2), (3, 1), (3, 2), (5, 2)])
def test_windows(dtype: str, lanes: int, nothing: str, taps: int, step: int) -> None:
    text = CALL.format(dtype=dtype, lanes=lanes, nothing=nothing, taps=taps, step=step)
    code = compiled(python_function(text, **NAMES))
    rng = np.random.default_rng(0)
    data = rng.integers(-100, 100, 900).astype(numpy_dtype(dtype))
    lowest = eval(nothing)
    for has_nan in (False, True)[: 1 + is_float(dtype)]:
        data[40] = np.nan if has_nan else 1
        for columns, first, count in [(88, 0, 40), (7, -1, 4), (1, -2, 3), (33, -1, 17), (88, 70, 20), (0, 0, 5), (16, 0, 1)]:
            for planes, lines, more in [(1, 1, 0), (1, 3, 0), (2, 2, 0), (1, 3, 70), (2, 2, 70)]:
                found = rng.integers(0, 90, count + 80).astype(data.dtype)
                wanted, end = found.copy(), 4 + count + more
                code(data.ctypes.data, 900, 3, planes, lines, columns, first, found.ctypes.data, count + 80, 4, count, end)
                at = 3 + 300 * np.arange(planes)[:, None, None] + 90 * np.arange(lines)[:, None] + np.arange(columns)
                row = np.full(columns + 400, lowest, np.float64)
                row[200 : 200 + columns] = data[at].astype(np.float64).max((0, 1), initial=lowest)
                starts = 200 + first + step * np.arange(count)
                wanted[4 : 4 + count] = row[starts[:, None] + np.arange(taps)].max(1)
                wanted[4 + count : end] = found[4 + count : end]  # may be overwritten
                np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
