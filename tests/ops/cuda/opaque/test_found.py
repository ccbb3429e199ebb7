"""argwhere, unique and searchsorted on the emulated GPU, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.dtype_rules import NUMBERS
from relayvm.ops.core.tensor_types import DTYPES, numpy_dtype

from ....emulator import emulator
from ..on_gpu import run
from .sorting import numbers, wide

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

SHAPES = [(), (0,), (1,), (9,), (3, 4), (0, 3), (2, 0), (2, 3, 4), (2049,), (70, 61), (2,) * 8]


@pytest.mark.split(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_argwhere_finds_what_is_not_zero_in_order(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    for share, dtype, schedule in ((0.0, "bool", 0), (0.4, "float32", 1), (1.0, "int64", 5)):
        data = np.asarray(rng.random(shape) < share).astype(dtype)
        (result,), status, count = run("argwhere", [data], schedule=schedule)
        expected = np.argwhere(data)
        assert (status, count) == (0, len(expected))
        np.testing.assert_array_equal(result[:count], expected)


@pytest.mark.extensive(dtype=("float32", "uint8"))
@pytest.mark.parametrize("dtype", DTYPES)
def test_argwhere_of_every_dtype(dtype: str) -> None:
    data = numbers(np.random.default_rng(2), (5, 50), dtype)
    (result,), _, count = run("argwhere", [data])
    np.testing.assert_array_equal(result[:count], np.argwhere(wide(data)))


def test_argwhere_of_a_constant() -> None:
    assert run("argwhere", [np.float32(3)], literals=(0,)).count == 1
    assert run("argwhere", [np.float32(-0.0)], literals=(0,)).count == 0


def check_unique(data: np.ndarray, is_sorted: bool, return_counts: bool, schedule: int = 0) -> None:
    attrs = {"is_sorted": is_sorted, "return_counts": return_counts}
    outputs, status, count = run("unique", [data], schedule=schedule, **attrs)
    values, first, inverse, counts = np.unique(wide(data), return_index=True, return_inverse=True, return_counts=True)
    if not is_sorted:  # renumber by first occurrence
        new = np.argsort(first)
        values, first, counts = values[new], first[new], counts[new]
        inverse = np.argsort(new)[inverse]
    assert (status, count) == (0, len(values))
    np.testing.assert_array_equal(wide(outputs[0][:count]), values)
    for result, wanted in ((outputs[1][:count], first), (outputs[2], inverse), (outputs[3], [len(values)])):
        np.testing.assert_array_equal(result, wanted)
    assert len(outputs) == 4 + return_counts
    if return_counts:
        np.testing.assert_array_equal(outputs[4][:count], counts)


@settings(max_examples=25)
@given(
    st.sampled_from([0, 1, 2, 31, 33, 300, 2048, 2049, 5000]),
    st.sampled_from(["float32", "int64"]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
)
def test_unique_of_any_length(n: int, dtype: str, is_sorted: bool, return_counts: bool, schedule: int) -> None:
    check_unique(numbers(np.random.default_rng(n), (n,), dtype), is_sorted, return_counts, schedule)


@pytest.mark.extensive(dtype=("float32", "int64"))
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.extensive(dtype=["float32", "int64"])
def test_unique_of_every_dtype(dtype: str) -> None:
    check_unique(numbers(np.random.default_rng(3), (400,), dtype), is_sorted=False, return_counts=True)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.extensive(dtype=("float32", "int64"))
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.extensive(dtype=["float32", "int64"])
def test_searchsorted(dtype: str, right: bool) -> None:
    rng, side = np.random.default_rng(0), "right" if right else "left"
    for n in (0, 1, 2, 300):
        sequence, values = numbers(rng, (3, n), dtype), numbers(rng, (3, 7), dtype)
        sequence = np.sort(wide(sequence), 1).astype(numpy_dtype(dtype))
        expected = [np.searchsorted(wide(s), wide(v), side) for s, v in zip(sequence, values, strict=True)]
        np.testing.assert_array_equal(run("searchsorted", [sequence, values], right=right).outputs[0], expected)
        one = run("searchsorted", [sequence[0], values], right=right, dtype="int64").outputs[0]
        np.testing.assert_array_equal(one, np.searchsorted(wide(sequence[0]), wide(values), side))


def test_searchsorted_of_a_constant() -> None:
    (place,), _, _ = run("searchsorted", [np.array([1.0, 3.0, 5.0]), np.float64(3)], literals=(1,), right=True)
    assert place == 2
