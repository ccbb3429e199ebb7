"""Scans in one pass on the emulated GPU: the same bits for any grid and any timing, of any length, aligned or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.codegen.cuda import assembly
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import numpy_dtype

from ...emulator import emulator
from . import groups_on_gpu
from .on_gpu import run

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

#: Parts of 1024 to 16384 elements, by the dtype; 0 and 1, odd widths, and rows of several parts.
LENGTHS = [0, 1, 3, 31, 33, 1000, 1023, 8191, 8193, 16385]


def bits(data: np.ndarray, schedule: int, resident: int = 3, **attributes: object) -> bytes:
    """The sums of the data."""
    ran = run("cumsum", [data], schedule=schedule, resident=resident, **attributes)
    assert ran.status == 0
    return bytes(ran.outputs[0].tobytes())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_sums_are_the_same_bits_for_any_grid_and_timing(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (100 * np.random.default_rng(1).normal(size=(2, 30000))).astype(dtype)
    wanted = bits(data, 0, axis=1)
    for schedule in range(1, 6):
        assert bits(data, schedule, axis=1) == wanted
    monkeypatch.setattr(assembly, "MAX_BLOCKS", 3)
    for schedule in range(4):
        assert bits(data, schedule, axis=1) == wanted


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_that_look_far_back_fold_in_the_order_of_parts(dtype: str) -> None:
    data = (100 * np.random.default_rng(1).normal(size=70 * 4096)).astype(dtype)
    wanted = bits(data, 0)
    for schedule, resident in ((2, 40), (3, 70), (4, 70)):
        assert bits(data, schedule, resident=resident) == wanted


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.extensive(dtype=("float32", "float16"))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "float64"])
def test_sums_of_rows_of_any_length(dtype: str, aligned: bool) -> None:
    rng = np.random.default_rng(0)
    for length in LENGTHS:
        data = (rng.random((2, length)) < 4 / max(4, length)).astype(numpy_dtype(dtype))  # sums that every dtype holds
        result = groups_on_gpu.call("cumsum", [data], get("cumsum").attrs(axis=1), aligned=aligned)
        np.testing.assert_array_equal(result.astype(np.int64), np.cumsum(data.astype(np.int64), 1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(("length", "inner"), [(700, 8), (300, 129), (9000, 1)])
def test_sums_of_columns_are_the_same_bits_for_any_grid_and_timing(
    dtype: str, length: int, inner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = (100 * np.random.default_rng(1).normal(size=(2, length, inner))).astype(dtype)
    wanted = bits(data, 0, axis=1)
    for schedule, resident in ((1, 3), (2, 40), (3, 1)):
        assert bits(data, schedule, resident=resident, axis=1) == wanted
    monkeypatch.setattr(assembly, "MAX_BLOCKS", 3)
    assert bits(data, 4, axis=1) == wanted


def test_tiles_that_look_far_back_fold_in_the_order_of_sections() -> None:
    data = (100 * np.random.default_rng(1).normal(size=(40 * 64, 128))).astype(np.float32)
    wanted = bits(data, 0, axis=0)
    for schedule, resident in ((2, 20), (3, 40)):
        assert bits(data, schedule, resident=resident, axis=0) == wanted


@pytest.mark.split(2)
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.extensive(dtype=("float32", "float16"))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "float64"])
def test_sums_of_columns_of_any_shape(dtype: str, aligned: bool) -> None:
    rng = np.random.default_rng(0)
    shapes = [(length, inner) for length in (0, 1, 3, 8, 9, 31, 65, 300) for inner in (0, 2, 3, 4, 16, 33, 128)]
    for length, inner in [*shapes, (5, 1200), (40, 1031), (2100, 4)]:
        data = (rng.random((2, length, inner)) < 4 / max(4, length)).astype(numpy_dtype(dtype))
        result = groups_on_gpu.call("cumsum", [data], get("cumsum").attrs(axis=1), aligned=aligned)
        np.testing.assert_array_equal(result.astype(np.int64), np.cumsum(data.astype(np.int64), 1))


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.extensive(dtype=("float32", "bool"))
@pytest.mark.parametrize("dtype", ["float32", "bool", "float16", "bfloat16", "int64"])
def test_places_in_vectors_of_any_length(dtype: str, aligned: bool) -> None:
    rng = np.random.default_rng(0)
    for length in LENGTHS:
        data = (rng.random(length) < 0.4).astype(numpy_dtype(dtype))
        result = groups_on_gpu.call("argwhere", [data], aligned=aligned)
        wanted = np.flatnonzero(data.astype(bool))
        np.testing.assert_array_equal(result[: len(wanted), 0], wanted)


@settings(max_examples=12)
@given(st.integers(0, 20_000), st.integers(0, 9), st.sampled_from([1, 3, 40]), st.floats(0, 1))
def test_places_for_any_timing(length: int, schedule: int, resident: int, share: float) -> None:
    data = np.random.default_rng(length).random(length) < share
    for given_data in (data.astype(np.int64), data.reshape(1, -1)):  # parts of 2048 and of 8192
        (result,), status, count = run("argwhere", [given_data], schedule=schedule, resident=resident)
        assert (status, count) == (0, data.sum())
        np.testing.assert_array_equal(result[:count], np.argwhere(given_data))


@pytest.mark.split(2)
@pytest.mark.parametrize(("schedule", "resident"), [(0, 1), (1, 3), (2, 3), (7, 30)])
def test_rows_and_groups_for_any_timing(schedule: int, resident: int) -> None:
    rng = np.random.default_rng(schedule)
    data = rng.integers(0, 3000, 9000).astype(np.float32)
    outputs, _, count = run("unique", [data], schedule=schedule, resident=resident, is_sorted=True)
    values, first, inverse = np.unique(data, return_index=True, return_inverse=True)
    for result, wanted in zip(outputs, (values, first, inverse), strict=False):
        np.testing.assert_array_equal(result[: len(wanted)], wanted)
    assert count == len(values)
    boxes = rng.random((3, 5000, 6)).astype(np.float32)
    outputs = run("vision.get_valid_counts", [boxes, np.float32(0.3)], schedule=schedule, resident=resident).outputs
    for row, found, n in zip(boxes, outputs[1], outputs[0], strict=True):
        wanted = row[(row[:, 1] > np.float32(0.3)) & (row[:, 0] >= 0)]
        assert n == len(wanted)
        np.testing.assert_array_equal(found[:n], wanted)
        assert (found[n:] == -1).all()
