"""A Draw whose arrays are values of the program so far, where one fits: recipes of single operators then make programs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from relayvm.ops.core.tensor_types import is_float, numpy_dtype

from ...ops.every_op.drawing import Draw
from .program import Value

#: Elements of one value at most.
MOST_ELEMENTS = 400
#: Numbers that halves and products of them hold exactly.
FLOATS = (-4.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
SPECIAL = (np.nan, np.inf, -np.inf, -0.0)


class PoolDraw(Draw):
    """Draws from ``pool`` with a chance of ``chance``.

    ``free``: the operator takes elements of any size, and ``special``: NaNs and infinities too.  ``inexact``: it may get values
    that are off by a rounding.
    """

    def __init__(
        self,
        r: random.Random,
        dtype: str,
        pool: dict[str, Value],
        *,
        free: bool,
        special: bool,
        inexact: bool,
        some: tuple[int, ...],
        choices: Iterator[int],
        chance: float = 0.85,
    ) -> None:
        super().__init__(dtype)
        self._choices, self.rng = choices, np.random.default_rng(r.getrandbits(32))
        self.r, self.pool, self.chance, self.some = r, pool, chance, some
        self.free, self.special, self.inexact = free, special, inexact
        #: By id of its array: the name of each value that was drawn.
        self.drawn: dict[int, str] = {}
        self.fresh: list[np.ndarray] = []

    def dims(self, rank: int, least: int = 0) -> tuple[int, ...]:
        """The sizes of a value, or any."""
        shapes = [v.array.shape for v in self.pool.values() if v.array.ndim == rank and min(v.array.shape, default=9) >= least]
        if shapes and self.r.random() < self.chance:
            # the newest more often
            return shapes[max(self.r.randrange(len(shapes)), self.r.randrange(len(shapes)))]
        return tuple(max(least, self.r.choice(self.some)) for _ in range(rank))

    def shape(self, low: int = 0, high: int = 4, least: int = 0) -> tuple[int, ...]:
        """The shape of a value, mostly one of the drawn dtype, or any of two axes or so."""
        fitting = [
            v.array.shape
            for v in self.pool.values()
            if low <= v.array.ndim <= high and v.array.dtype.name == self.dtype and min(v.array.shape, default=9) >= least
        ]
        if fitting and self.r.random() < self.chance:
            return fitting[max(self.r.randrange(len(fitting)), self.r.randrange(len(fitting)))]
        ranks = [k for k in (0, 1, 1, 2, 2, 2, 3, 3, 4) if low <= k <= high]
        return self.dims(self.r.choice(ranks or [low]), least)

    def array(self, shape: Sequence[int], dtype: str | None = None, low: int = -4, high: int = 4) -> np.ndarray:
        """A value that fits, or a new input of few different numbers, which floats of every width hold exactly."""
        dtype, shape = dtype or self.dtype, tuple(shape)
        if self.r.random() < self.chance:
            names = [n for n, v in self.pool.items() if v.kind == (dtype, len(shape)) and self._fits(v, shape, low, high)]
            if names:
                name = names[max(self.r.randrange(len(names)), self.r.randrange(len(names)))]
                array = self.pool[name].array
                self.drawn[id(array)] = name
                return array
        return self.made(shape, dtype, low, high)

    def _fits(self, v: Value, shape: tuple[int, ...], low: int, high: int) -> bool:
        if v.array.shape != shape or (v.error and not self.inexact):
            return False
        if not v.array.size or v.array.dtype == bool:
            return True
        x = v.array.astype("float64") if is_float(v.array.dtype.name) else v.array
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            return self.special
        return self.free or bool(low <= x.min() and x.max() <= high)

    def made(self, shape: tuple[int, ...], dtype: str, low: int, high: int) -> np.ndarray:
        """New elements between the limits."""
        if dtype != "bool" and self.r.random() < 0.2:
            same = self.r.choice([x for x in (0, 1, 2, -1) if max(low, 0 if dtype[0] == "u" else low) <= x <= high] or [low])
            return np.full(shape, same, numpy_dtype(dtype))
        if dtype == "bool":
            return self.rng.random(shape) < 0.5
        if not is_float(dtype):
            least = max(low, 0) if dtype.startswith("u") else low
            return np.asarray(self.rng.integers(least, max(high, least), shape, endpoint=True)).astype(dtype)
        numbers = [x for x in FLOATS if low <= x <= high] or [low]
        if self.special and self.r.random() < 0.15:
            numbers += SPECIAL
        return np.asarray(self.rng.choice(numbers, shape)).astype(numpy_dtype(dtype))

    def scalar(self, value: Any, dtype: str | None = None) -> np.ndarray:
        """A scalar; a value of the program if one is equal."""
        made = super().scalar(value, dtype)
        for name, v in self.pool.items():
            if v.kind == (made.dtype.name, 0) and not v.error and v.array == made:
                self.drawn[id(v.array)] = name
                return v.array
        return made

    def distinct(self, shape: Sequence[int], dtype: str | None = None) -> np.ndarray:
        """A value, equal elements or not: the first of them counts, in numpy too."""
        return self.array(shape, dtype)
