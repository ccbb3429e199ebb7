"""The radix sort of long rows on the emulated GPU, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.tensor_types import DTYPES
from relayvm.ops.kernels.sort import merge_cuda, radix_cuda

from ...emulator import emulator
from ...emulator.session import Session
from ..opaque.test_opaque_sort import order
from .on_gpu import run, source_of
from .test_opaque_order import numbers, wide

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

PART = radix_cuda.part("float32")


def check(data: np.ndarray, axis: int, is_ascend: bool, schedule: int = 0) -> None:
    """argsort, sort and topk of all elements are numpy's stable order; sorted elements keep their bits."""
    expected = order(wide(data), axis, is_ascend)
    values = np.take_along_axis(data, expected, axis)
    attrs: dict[str, Any] = {"axis": axis, "is_ascend": is_ascend, "schedule": schedule}
    (positions,), status, _ = run("argsort", [data], **attrs)
    assert status == 0
    np.testing.assert_array_equal(positions, expected)
    assert run("sort", [data], **attrs).outputs[0].tobytes() == values.tobytes()
    both = run("topk", [data], k=0, **attrs).outputs
    assert both[0].tobytes() == values.tobytes()
    np.testing.assert_array_equal(both[1], expected)


@pytest.mark.extensive(dtype=("float32", "int8"))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_sorted_stably_both_ways(dtype: str) -> None:
    data = numbers(np.random.default_rng(0), (2, PART + 1000), dtype)
    for is_ascend in (True, False):
        check(data, 1, is_ascend)


@pytest.mark.extensive(dtype=("float64", "int16"))
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_every_bit_of_a_key_counts(dtype: str) -> None:
    """Random bits: all exponents, subnormal numbers and NaN of every kind, the least and the largest integers."""
    rng = np.random.default_rng(1)
    itemsize = 2 if dtype.endswith("float16") else np.dtype(dtype).itemsize
    bits = rng.integers(0, 256, (5000, itemsize), np.uint8)
    bits[:20], bits[20:40] = 0, 255
    from relayvm.ops.core.tensor_types import numpy_dtype

    data = bits.reshape(-1).view(numpy_dtype(dtype))
    for is_ascend in (True, False):
        check(data, 0, is_ascend)


@settings(max_examples=15)
@given(st.data())
def test_rows_of_any_length_between_other_axes(data: st.DataObject) -> None:
    edges = [merge_cuda.TILE + 1, PART - 1, PART, PART + 1, 8191, 8193, 3 * PART + 5]
    n, outer, inner = data.draw(st.sampled_from(edges)), data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    x = numbers(np.random.default_rng(n), (outer, n, inner), data.draw(st.sampled_from(["float32", "int64", "float16"])))
    check(x, 1, data.draw(st.booleans()), data.draw(st.integers(0, 5)))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16"])
def test_a_long_row(dtype: str) -> None:
    check(numbers(np.random.default_rng(2), (70_000,), dtype), 0, False)


def test_sorted_and_reversed_rows_and_rows_of_one_value() -> None:
    n = 4 * PART + 17
    for row in (np.arange(n), np.arange(n)[::-1], np.zeros(n, np.int64)):
        for is_ascend in (True, False):
            check(np.ascontiguousarray(row).astype(np.int32), 0, is_ascend)


def test_rows_that_begin_at_any_address() -> None:
    """Rows of an odd length begin at odd multiples of the element size."""
    for dtype in ("float32", "uint8", "int64"):
        check(numbers(np.random.default_rng(3), (3, PART + 1), dtype), 1, True)


def test_the_first_elements_of_a_long_row_and_no_more_are_stored() -> None:
    x, k = np.random.default_rng(4).normal(size=(2, 9000)).astype(np.float32), merge_cuda.SELECTED + 1
    (values, positions), _, _ = run("topk", [x], k=k)
    expected = order(x, 1, False)[:, :k]
    np.testing.assert_array_equal(positions, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_a_pass_for_each_byte_of_an_element(dtype: str) -> None:
    x = np.zeros(10_000, dtype)
    for name in ("sort", "argsort"):
        steps = [step.entry for step in source_of(name, [x], static=True).steps]
        assert steps == ["clear_digits"] * 2 + ["count_digits"] + ["move_by_digit"] * x.dtype.itemsize
    rooms = [int(n) for n in source_of("argsort", [np.zeros(10_000, np.int64)], static=True).scratch if isinstance(n, int)]
    assert rooms.count(10_000 * 8) in (0, 2), "keys"


@pytest.mark.parametrize("schedule", range(1, 7))
def test_any_grid_and_any_order_of_blocks_gives_the_same_result(schedule: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, launched, used = numbers(np.random.default_rng(5), (2, 3 * PART + 7), "float32"), Session.launch, list[int]()

    def launch(self: Session, image: bytes, entry: str, grid: Any, *args: Any, **kwargs: Any) -> None:
        used.append(int(np.prod(grid)))
        launched(self, image, entry, (min(schedule, grid[0]), *grid[1:]), *args, **kwargs)

    monkeypatch.setattr(Session, "launch", launch)
    check(x, 1, schedule % 2 == 0, schedule)
    assert max(used) > 4, "the kernel has several blocks"
