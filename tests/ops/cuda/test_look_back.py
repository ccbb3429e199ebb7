"""Scans in one pass on the emulated GPU: the same bits for any grid and any timing, of any length, aligned or not."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.codegen.cuda import assembly
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import numpy_dtype

from ...emulator import emulator
from . import groups_on_gpu
from .on_gpu import run

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

#: Parts of 1024 to 16384 elements, by the dtype; 0 and 1, odd widths, and rows of several parts.
LENGTHS = [0, 1, 3, 31, 33, 1000, 1023, 8191, 8193]


def bits(op: str, data: np.ndarray, schedule: int, resident: int = 3, **attributes: object) -> list[bytes]:
    ran = run(op, [data], schedule=schedule, resident=resident, **attributes)
    assert ran.status == 0
    return [x[: ran.count].tobytes() if ran.count >= 0 else x.tobytes() for x in ran.outputs]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_sums_are_the_same_bits_for_any_grid_and_timing(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (100 * np.random.default_rng(1).normal(size=(2, 30000))).astype(dtype)
    wanted = bits("cumsum", data, 0, axis=1)
    for schedule in range(1, 6):
        assert bits("cumsum", data, schedule, axis=1) == wanted
    monkeypatch.setattr(assembly, "MAX_BLOCKS", 3)
    for schedule in range(4):
        assert bits("cumsum", data, schedule, axis=1) == wanted


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_that_look_far_back_fold_in_the_order_of_parts(dtype: str) -> None:
    data = (100 * np.random.default_rng(1).normal(size=70 * 4096)).astype(dtype)
    wanted = bits("cumsum", data, 0)
    for schedule, resident in ((2, 40), (3, 70), (4, 70)):
        assert bits("cumsum", data, schedule, resident=resident) == wanted


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.extensive(dtype=("float32", "float16"))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "float64"])
def test_sums_of_rows_of_any_length(dtype: str, aligned: bool) -> None:
    rng = np.random.default_rng(0)
    for length in LENGTHS:
        data = (rng.random((2, length)) < 4 / max(4, length)).astype(numpy_dtype(dtype))  # sums that every dtype holds
        result = groups_on_gpu.call("cumsum", [data], get("cumsum").attrs(axis=1), aligned=aligned)
        np.testing.assert_array_equal(result.astype(np.int64), np.cumsum(data.astype(np.int64), 1))
