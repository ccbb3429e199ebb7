"""Sorts on the emulated GPU: data, numpy's stable order, the ways by which rows are sorted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.ops.kernels.sort import rank_cuda

from ...opaque.test_opaque_sort import order
from ..on_gpu import run


@contextmanager
def without_ranks() -> Iterator[None]:
    """No rows are sorted by ranks, which few and short rows otherwise are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_cuda, "MOST_COMPARISONS", 0)
        yield


@pytest.fixture(scope="module")
def no_ranks() -> Iterator[None]:
    """``without_ranks`` for the tests of a module."""
    with without_ranks():
        yield


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few different values, of both signs, with NaN, infinities and both zeros where there are such."""
    data = rng.integers(-20 if dtype[0] in "ifb" else 0, 21, shape).astype(np.float32)
    if "float" in dtype:
        for value in (np.nan, np.inf, -np.inf, -0.0):
            data[rng.random(shape) < 0.03] = value
    return data.astype(bool) if dtype == "bool" else data.astype(numpy_dtype(dtype))


def of_bits(rng: np.random.Generator, n: int, dtype: str) -> np.ndarray:
    """Random bits: all exponents, subnormal numbers, NaN of every kind, the least and the largest integers."""
    kind = numpy_dtype(dtype)
    bits = rng.integers(0, 256, (n, kind.itemsize)).astype(np.uint8)
    bits[:20], bits[20:40] = 0, 255
    return bits.reshape(-1).view(kind) if dtype != "bool" else bits[:, 0] > 127


def wide(data: np.ndarray) -> np.ndarray:
    """The same in a dtype that numpy sorts, and in which minus zero is zero."""
    return data + np.float32(0) if data.dtype.name.endswith("float16") else data + data.dtype.type(0)


def check(data: np.ndarray, axis: int, is_ascend: bool, schedule: int = 0) -> None:
    """argsort and sort are numpy's stable order; sorted elements keep their bits."""
    expected = order(wide(data), axis, is_ascend)
    (positions,), status, _ = run("argsort", [data], axis=axis, is_ascend=is_ascend, schedule=schedule)
    assert status == 0
    np.testing.assert_array_equal(positions, expected)
    (values,), _, _ = run("sort", [data], axis=axis, is_ascend=is_ascend, schedule=schedule)
    assert values.tobytes() == np.take_along_axis(data, expected, axis).tobytes()
