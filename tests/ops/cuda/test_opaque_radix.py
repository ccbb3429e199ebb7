"""The radix sort of long rows on the emulated GPU, against numpy."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ...emulator import emulator
from ..opaque.test_opaque_sort import order
from .on_gpu import run
from .test_opaque_order import numbers, wide


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "float16"])
def test_try(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for n in (2049, 8193, 20000):
        data = numbers(rng, (n,), dtype)
        for asc in (True, False):
            expected = order(wide(data), 0, asc)
            t = time.time()
            (positions,), status, _ = run("argsort", [data], axis=0, is_ascend=asc)
            print(dtype, n, time.time() - t)
            np.testing.assert_array_equal(positions, expected)
            (values,), _, _ = run("sort", [data], axis=0, is_ascend=asc)
            assert values.tobytes() == np.take_along_axis(data, expected, 0).tobytes()
