"""Random inputs from a seed: values of the parameter's dtype, within a given range."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...ops.core.tensor_types import TensorType, computed_in, int_range, is_float, is_integer, numpy_dtype
from ...vm.diagnostics.source import InputError

#: The exclusive upper end of integers without a given range; the lower end is 0.
_DRAWN_BELOW = 10
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"\s*({_NUMBER})\s*\.\.\s*({_NUMBER})\s*")


class Range(NamedTuple):
    """From ``low`` to ``high``, both included; an int if it was written as an int."""

    low: int | float
    high: int | float

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


def parse_range(text: str) -> Range:
    """``LOW..HIGH``.  Raises ValueError."""
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a range such as 0..640 or -1.5..1.5")
    low, high = map(_number, found.groups())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"the range {text!r} is not finite")
    if low > high:
        raise ValueError(f"the range {text!r} is empty: its low end comes first")
    return Range(low, high)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:  # also for thousands of digits
        return float(text)


def draw(name: str, dtype: str, shape: tuple[int, ...], seed: int, within: Range | None = None) -> np.ndarray:
    """Random values, determined by the arguments.

    Without a range: floats standard normal, integers 0 to 9, bools.  In a range: uniform.  Raises InputError if memory
    does not suffice, and for a range that the dtype cannot represent.
    """
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if within is not None:
        _check_range(name, dtype, within)
    how = _normal if within is None else _uniform
    values: np.ndarray = allocated(name, lambda: how(random, dtype, shape, within), shape, dtype)
    return values


def _normal(random: np.random.Generator, dtype: str, shape: tuple[int, ...], _: Range | None) -> np.ndarray:
    if is_float(dtype):
        drawn = np.asarray(random.standard_normal(shape, np.float64 if computed_in(dtype) == "float64" else np.float32))
        return drawn.astype(numpy_dtype(dtype), copy=False)
    return np.asarray(random.integers(0, _DRAWN_BELOW if is_integer(dtype) else 2, shape)).astype(dtype)


def _uniform(random: np.random.Generator, dtype: str, shape: tuple[int, ...], within: Range | None) -> np.ndarray:
    assert within is not None
    low, high = within
    if is_integer(dtype):
        return np.asarray(random.integers(int(low), int(high), shape, numpy_dtype(dtype), endpoint=True))
    part = np.asarray(random.random(shape))
    return ((1 - part) * low + part * high).astype(numpy_dtype(dtype))  # high - low may overflow


def _check_range(name: str, dtype: str, within: Range) -> None:
    option = f"--range {name}={within}"
    if is_float(dtype):
        with np.errstate(over="ignore"):
            ends = np.array([float(within.low), float(within.high)]).astype(numpy_dtype(dtype)).astype("float64")
        if not np.isfinite(ends).all():
            raise InputError(f"{option}: {dtype} cannot hold it")
    elif not is_integer(dtype):
        raise InputError(f"{option}: %{name} is {dtype}, of which no range can be drawn")
    elif not (isinstance(within.low, int) and isinstance(within.high, int)):
        raise InputError(f"{option}: %{name} is {dtype}, the ends must be integers")
    elif not int_range(dtype)[0] <= within.low <= within.high <= int_range(dtype)[1]:
        least, most = int_range(dtype)
        raise InputError(f"{option}: {dtype} holds {least} to {most}")


def allocated(name: str, make: Callable[[], Any], shape: tuple[int, ...], dtype: str) -> Any:
    """The result of ``make``, a tensor of this shape.  Raises InputError if memory does not suffice."""
    try:
        return make()
    except (MemoryError, ValueError, OverflowError) as error:  # numpy's errors for a size beyond its own limit
        raise InputError(f"%{name}: there is no memory for {TensorType.of(shape, dtype)}") from error
