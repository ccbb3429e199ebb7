"""Arrays of tests, and their comparison."""

from __future__ import annotations

from typing import Any

import numpy as np


def ints(*values: int) -> np.ndarray:
    """An int64 vector of these values."""
    return np.array(values, np.int64)


def floats(*shape: int) -> np.ndarray:
    """The float32 numbers from 0 in this shape."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def counted(*shape: int, dtype: str = "float32") -> np.ndarray:
    """The numbers from 1 in this shape."""
    return (np.arange(int(np.prod(shape))).reshape(shape) + 1).astype(dtype)


def wide(array: Any) -> np.ndarray:
    """An array of halves as float32."""
    return np.asarray(array).astype(np.float32)


def same(ours: Any, expected: Any) -> None:
    """Check that arrays are equal in shape, dtype and elements."""
    np.testing.assert_array_equal(ours, expected, strict=True)


def leaves(result: Any) -> list[np.ndarray]:
    """Copies of a run's results, without the nesting of tuples."""
    return [a for r in result for a in leaves(r)] if isinstance(result, tuple) else [result.numpy().copy()]
