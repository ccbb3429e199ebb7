"""argwhere and unique: elements and reported sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from .opaque_kernels import run

SHAPES = [(), (0,), (1,), (9,), (3, 4), (0, 3), (2, 0), (2, 3, 4), (1, 1, 1), (2, 2, 2, 2), (1, 2, 3, 1, 2), (2,) * 6, (1,) * 8]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["bool", "float32", "int64", "uint8"])
def test_argwhere_finds_what_is_not_zero(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(len(shape))
    for share in (0.0, 0.4, 1.0):
        data = np.asarray(rng.random(shape) < share).astype(dtype)
        (result,), status, count = run("argwhere", [data])
        expected = np.argwhere(data)
        assert (status, count) == (0, len(expected)) and result.dtype == np.int32
        np.testing.assert_array_equal(result[:count], expected)
        assert (result[count:] == 77).all(), "nothing is written behind the last one"


def test_argwhere_counts_nan_and_not_minus_zero() -> None:
    assert run("argwhere", [np.array([np.nan, -0.0, 0.0, 1e-45], np.float32)]).count == 2


@pytest.mark.parametrize("shape", [(1000,), (0, 3), (7, 11, 13)])
def test_argwhere_as_machine_code(shape: tuple[int, ...]) -> None:
    data = np.random.default_rng(0).random(shape) < 0.3
    (result,), _, count = run("argwhere", [data], jit=True)
    np.testing.assert_array_equal(result[:count], np.argwhere(data))


def check_unique(data: np.ndarray, is_sorted: bool, return_counts: bool, jit: bool = False) -> None:
    outputs, status, count = run("unique", [data], is_sorted=is_sorted, return_counts=return_counts, jit=jit)
    values, first, inverse, counts = np.unique(data, return_index=True, return_inverse=True, return_counts=True)
    if not is_sorted:  # renumber by first occurrence
        new = np.argsort(first)
        values, first, counts = values[new], first[new], counts[new]
        inverse = np.argsort(new)[inverse]
    assert (status, count) == (0, len(values))
    np.testing.assert_array_equal(outputs[0][:count], values)
    np.testing.assert_array_equal(outputs[1][:count], first)
    np.testing.assert_array_equal(outputs[2], inverse)
    np.testing.assert_array_equal(outputs[3], [len(values)])
    assert len(outputs) == 4 + return_counts
    if return_counts:
        np.testing.assert_array_equal(outputs[4][:count], counts)


@settings(max_examples=100)
@given(st.data(), st.booleans(), st.booleans())
def test_unique(data: st.DataObject, is_sorted: bool, return_counts: bool) -> None:
    dtype = data.draw(st.sampled_from(["float32", "int64", "uint8"]))
    some = st.sampled_from([0.0, 1.0, -3.5, np.nan, np.inf]) if dtype == "float32" else st.integers(0, 6)
    check_unique(data.draw(arrays.arrays(dtype, st.integers(0, 50), elements=some)), is_sorted, return_counts)


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_unique_as_machine_code(n: int, is_sorted: bool) -> None:
    check_unique(np.random.default_rng(n).integers(0, 50, n), is_sorted, True, jit=True)
