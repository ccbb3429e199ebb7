"""Samples for recipes: sizes, attributes and elements, by a size class and a row of choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from relayvm.ops.core.tensor_types import is_float, numpy_dtype

#: The sizes that every operator runs at.  Per rank, the sizes of the axes; "large" has about 10^4 elements.
SIZES: dict[str, Sequence[int]] = {"odd": (3, 5, 7, 5, 3), "empty": (0, 5, 7, 5, 3), "one": (1,) * 5}
LARGE = {0: (), 1: (10007,), 2: (97, 103), 3: (19, 23, 23), 4: (9, 10, 11, 10), 5: (6, 7, 6, 5, 8)}
CLASSES = (*SIZES, "large")
#: Sizes of a property's examples; the first is the simplest.
SOME = (2, 3, 1, 0, 5, 4, 1, 2)


class Draw:
    """One drawing of arguments.

    ``dtype`` is the dtype of the operator's main input.  With a ``size`` class the sizes are those of the class, without one they
    are drawn as well.  ``choices``: each pick takes the next one; where they end, every pick is the first option.
    """

    def __init__(self, dtype: str, size: str | None = None, choices: Sequence[int] = ()) -> None:
        self.dtype, self.size = dtype, size
        self._choices = iter(choices)
        self.rng = np.random.default_rng(7)

    def pick(self, *options: Any) -> Any:
        """One of the options; the first is the plain one."""
        return options[next(self._choices, 0) % len(options)]

    def number(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + next(self._choices, 0) % (high - low + 1)

    def axis(self, rank: int) -> int:
        """An axis of ``rank``: the last one, or any, counted from either end."""
        return self.pick(-1, *range(rank), *range(-rank, -1))

    def dims(self, rank: int, least: int = 0) -> tuple[int, ...]:
        """Sizes of ``rank`` axes, each at least ``least``."""
        if self.size is None:
            return tuple(max(least, self.pick(*SOME)) for _ in range(rank))
        sizes = LARGE[rank] if self.size == "large" else SIZES[self.size][:rank]
        return tuple(max(least, d) for d in sizes)

    def shape(self, low: int = 0, high: int = 4, least: int = 0) -> tuple[int, ...]:
        """Sizes of a rank from ``low`` to ``high``; of two, three or so axes where the choices end."""
        ranks = sorted(range(low, high + 1), key=lambda r: abs(r - 2))
        return self.dims(self.pick(*ranks), least)

    def array(self, shape: Sequence[int], dtype: str | None = None, low: int = -4, high: int = 4) -> np.ndarray:
        """Elements between ``low`` and ``high``: reals for floats, whole numbers (none negative if unsigned), truth values."""
        dtype = dtype or self.dtype
        shape = tuple(shape)
        if dtype == "bool":
            return self.rng.random(shape) < 0.5
        if is_float(dtype):
            return self.rng.uniform(low, high, shape).astype(numpy_dtype(dtype))
        least = max(low, 0) if dtype.startswith("u") else low
        return np.asarray(self.rng.integers(least, max(high, least), shape, endpoint=True)).astype(dtype)

    def distinct(self, shape: Sequence[int], dtype: str | None = None) -> np.ndarray:
        """Elements of which no two along an axis are equal, as far as the dtype has so many."""
        dtype = dtype or self.dtype
        order = self.rng.permutation(math.prod(shape)).reshape(tuple(shape))
        return np.asarray(order).astype(numpy_dtype(dtype))

    def scalar(self, value: Any, dtype: str | None = None) -> np.ndarray:
        """A tensor of rank 0."""
        return np.array(value).astype(numpy_dtype(dtype or self.dtype))


def ints(*values: int, dtype: str = "int64") -> np.ndarray:
    """A vector."""
    return np.array(values, dtype)


def wide(x: Any) -> np.ndarray:
    """Floats as float64; what is no float as it is."""
    x = np.asarray(x)
    return x.astype(np.float64) if is_float(x.dtype.name) else x
