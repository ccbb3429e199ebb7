"""The radix sort of long rows on the emulated GPU, against numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.tensor_types import DTYPES, numpy_dtype
from relayvm.ops.kernels.sort import merge_cuda, radix_cuda, rank_cuda
from relayvm.shape_funcs.symbolic.dim import const

from ....emulator import emulator
from ....emulator.session import Session
from ...opaque.test_opaque_sort import order
from ..on_gpu import run, source_of
from .test_order import numbers, wide

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

PART = radix_cuda.part("float32")


@pytest.fixture(scope="module", autouse=True)
def no_ranks() -> Iterator[None]:
    """The rows here are few and short enough to be sorted by ranks (see ``test_ranks``)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_cuda, "MOST_COMPARISONS", 0)
        yield


def check(data: np.ndarray, axis: int, is_ascend: bool, schedule: int = 0) -> None:
    """argsort and sort are numpy's stable order; sorted elements keep their bits."""
    expected = order(wide(data), axis, is_ascend)
    (positions,), status, _ = run("argsort", [data], axis=axis, is_ascend=is_ascend, schedule=schedule)
    assert status == 0
    np.testing.assert_array_equal(positions, expected)
    (values,), _, _ = run("sort", [data], axis=axis, is_ascend=is_ascend, schedule=schedule)
    assert values.tobytes() == np.take_along_axis(data, expected, axis).tobytes()


def of_bits(rng: np.random.Generator, n: int, dtype: str) -> np.ndarray:
    """Random bits: all exponents, subnormal numbers, NaN of every kind, the least and the largest integers."""
    kind = numpy_dtype(dtype)
    bits = rng.integers(0, 256, (n, kind.itemsize)).astype(np.uint8)
    bits[:20], bits[20:40] = 0, 255
    return bits.reshape(-1).view(kind) if dtype != "bool" else bits[:, 0] > 127


@pytest.mark.extensive(dtype=("float32", "int64"))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_sorted_stably_both_ways(dtype: str) -> None:
    rng = np.random.default_rng(0)
    rows = (numbers(rng, (PART + 1000,), dtype), of_bits(rng, PART + 1000, dtype))
    for is_ascend in (True, False):
        check(np.stack(rows), 1, is_ascend)


@settings(max_examples=15)
@given(st.data())
def test_rows_of_any_length_between_other_axes(data: st.DataObject) -> None:
    edges = [merge_cuda.TILE + 1, PART - 1, PART, PART + 1, 8191, 8193, 3 * PART + 5]
    n, outer, inner = data.draw(st.sampled_from(edges)), data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    x = numbers(np.random.default_rng(n), (outer, n, inner), data.draw(st.sampled_from(["float32", "int64"])))
    check(x, 1, x.dtype == np.int64, data.draw(st.integers(0, 5)))


def test_a_long_row() -> None:
    for dtype in ("float32", "int64"):
        check(numbers(np.random.default_rng(2), (1, 70_000, 1), dtype), 1, dtype == "int64")


def test_sorted_and_reversed_rows_and_rows_of_one_value() -> None:
    n = 2 * PART + 17
    rows = np.stack([np.arange(n), np.arange(n)[::-1], np.zeros(n, np.int64)]).astype(np.float32)
    check(rows[:, :, None], 1, False)


def test_rows_that_begin_at_any_address() -> None:
    """Rows of an odd length begin at odd multiples of the element size."""
    x = numbers(np.random.default_rng(3), (3, PART + 1, 1), "float32")
    check(x, 1, False)


def test_values_and_positions_of_all_elements() -> None:
    x = numbers(np.random.default_rng(6), (2, 9000, 2), "float32")
    expected = order(wide(x), 1, False)
    (values, positions), _, _ = run("topk", [x], k=0, axis=1)
    np.testing.assert_array_equal(positions, expected)
    assert values.tobytes() == np.take_along_axis(x, expected, 1).tobytes()


def test_the_first_elements_of_a_long_row_and_no_more_are_stored() -> None:
    x, k = np.random.default_rng(4).normal(size=(2, 9000, 1)).astype(np.float32), merge_cuda.SELECTED + 1
    (values, positions), _, _ = run("topk", [x], k=k, axis=1)
    expected = order(x, 1, False)[:, :k]
    np.testing.assert_array_equal(positions, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_a_pass_for_each_byte_of_an_element(dtype: str) -> None:
    x = np.zeros(10_000, dtype)
    for name in ("sort", "argsort"):
        steps = [step.entry for step in source_of(name, [x], static=True).steps]
        assert steps == ["clear_digits"] * 2 + ["count_digits"] + ["move_by_digit"] * x.dtype.itemsize
    rooms = source_of("argsort", [x], static=True).scratch
    assert all(const(room) < 10_000 * 16 for room in rooms), "keys and positions are apart"


@pytest.mark.parametrize("schedule", range(1, 5))
def test_any_grid_and_any_order_of_blocks_gives_the_same_result(schedule: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, launched, used = numbers(np.random.default_rng(5), (2, 3 * PART + 7, 1), "float32"), Session.launch, list[int]()

    def launch(self: Session, image: bytes, entry: str, grid: Any, *args: Any, **kwargs: Any) -> None:
        used.append(int(np.prod(grid)))
        launched(self, image, entry, (min(schedule, grid[0]), *grid[1:]), *args, **kwargs)

    monkeypatch.setattr(Session, "launch", launch)
    check(x, 1, False, schedule)
    assert max(used) > 4, "the kernel has several blocks"
