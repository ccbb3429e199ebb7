"""Do two results of a program agree?  Up to rounding, as another order of summation rounds otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...ops.ty import is_float
from ...vm.source import Diagnostic, RelayError

#: Floats agree within this part of their value, plus this part of the largest value in the tensor: another order of
#: summation moves a small sum of large terms by that much.
RTOL, SCALE_TOL = 1e-5, 1e-6
#: The same, both, for the dtypes that only store: a few roundings, which fusion leaves out.
HALF_TOL = {"float16": 2.0**-8, "bfloat16": 2.0**-5}


class ResultsDiffer(RelayError):
    """Two configurations of one program gave different results."""


class ResultsUnexpected(ResultsDiffer):
    """The results are not those that were expected."""


def check_agreement(a: Any, b: Any, names: tuple[str, str] = ("A", "B")) -> None:
    """Raises ResultsDiffer, naming every result that differs and how; ``names`` are those of the two sides."""
    problems = [
        Diagnostic(f"the results of {names[0]} and {names[1]} differ: {text}") for text in _differences("result", a, b, names)
    ]
    if problems:
        raise ResultsDiffer(problems)


def _differences(where: str, a: Any, b: Any, names: tuple[str, str]) -> Iterator[str]:
    if isinstance(a, tuple) or isinstance(b, tuple):
        if not (isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)):
            yield f"{where} is {_kind(a)} in {names[0]} and {_kind(b)} in {names[1]}"
            return
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _differences(f"{where}.{i}", x, y, names)
        return
    x, y = np.asarray(a), np.asarray(b)
    if x.shape != y.shape or x.dtype != y.dtype:
        yield f"{where} is {_kind(x)} in {names[0]} and {_kind(y)} in {names[1]}"
        return
    unequal = ~_agree(x, y)
    if unequal.any():
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(unequal)), unequal.shape)) if x.ndim else ()
        count = f"{int(unequal.sum())} of {x.size} elements"
        yield f"{where}, {_kind(x)}: {count}, the first at {list(at)}: {x[at]} in {names[0]}, {y[at]} in {names[1]}"


def _agree(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Element by element: do they agree?"""
    if not is_float(x.dtype.name):
        return np.asarray(x == y)
    half = HALF_TOL.get(x.dtype.name)
    if half is not None:
        x, y = x.astype("float32"), y.astype("float32")
    finite = np.abs(x[np.isfinite(x)])
    scale = float(finite.max()) if finite.size else 0.0
    return np.asarray(np.isclose(x, y, rtol=half or RTOL, atol=(half or SCALE_TOL) * scale, equal_nan=True))


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    array = np.asarray(value)
    return f"{array.dtype.name}{list(array.shape)}"
