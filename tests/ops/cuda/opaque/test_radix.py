"""The radix sort of long rows on the emulated GPU, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.ops.kernels.sort import merge_cuda, radix_cuda
from relayvm.shape_funcs.symbolic.dim import const

from ....emulator import emulator
from ....emulator.session import Session
from ...opaque.test_opaque_sort import order
from ..on_gpu import run, source_of
from .sorting import check, no_ranks, numbers, wide  # noqa: F401  the fixture is used by every test

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

PART = radix_cuda.part("float32")
#: The rows here are few and short enough to be sorted by ranks (see ``sorting``).
pytestmark = pytest.mark.usefixtures("no_ranks")


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
    sizes = source_of("argsort", [x], static=True).scratch
    assert all(const(nbytes) < 10_000 * 16 for nbytes in sizes), "keys and positions are apart"


@pytest.mark.parametrize("schedule", range(1, 5))
def test_any_grid_and_any_order_of_blocks_gives_the_same_result(schedule: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, launched, used = numbers(np.random.default_rng(5), (2, 3 * PART + 7, 1), "float32"), Session.launch, list[int]()

    def launch(self: Session, image: bytes, entry: str, grid: Any, *args: Any, **kwargs: Any) -> None:
        used.append(int(np.prod(grid)))
        launched(self, image, entry, (min(schedule, grid[0]), *grid[1:]), *args, **kwargs)

    monkeypatch.setattr(Session, "launch", launch)
    check(x, 1, False, schedule)
    assert max(used) > 4, "the kernel has several blocks"
