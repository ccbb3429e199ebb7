"""Wrong calls made of right ones: of other ranks, sizes, dtypes, attributes and values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from relayvm.ops.core.op import Op
from relayvm.ops.core.tensor_types import DTYPES

from .every_op.recipe import Call, attrs_of, flags_of, regroup

#: Numbers that no size, axis or count of a small tensor is.
ODD_NUMBERS = (-1, 0, -(2**62), 2**62, -(2**63), 2**63 - 1)


def with_inputs(made: Call, flat: list[np.ndarray]) -> Call:
    """The call with other arrays."""
    out = replace(made, inputs=tuple(regroup(made, flat)))
    return out


def _each(made: Call, change: Any) -> Iterator[tuple[str, Call]]:
    for k, x in enumerate(made.flat):
        for what, changed in change(k, x):
            yield what, with_inputs(made, [changed if i == k else other for i, other in enumerate(made.flat)])


def other_ranks(made: Call) -> Iterator[tuple[str, Call]]:
    """An axis more, an axis less, far too many."""

    def change(k: int, x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        yield f"input {k} has an axis more", x[None]
        if x.ndim:
            yield f"input {k} has an axis less", x[0] if len(x) else x.reshape(x.shape[1:] if x.ndim > 1 else (0,))
        yield f"input {k} has eight axes", x.reshape((1,) * (8 - x.ndim) + x.shape)

    return _each(made, change)


def other_sizes(made: Call) -> Iterator[tuple[str, Call]]:
    """Along each axis one element more, and none."""

    def change(k: int, x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        for axis in range(x.ndim):
            yield f"input {k} is longer along axis {axis}", np.concatenate([x, x[(slice(None),) * axis + (slice(0, 1),)]], axis)
            yield f"input {k} is empty along axis {axis}", x[(slice(None),) * axis + (slice(0, 0),)]

    return _each(made, change)


def other_dtypes(made: Call) -> Iterator[tuple[str, Call]]:
    """Each input in every dtype, the others as they are."""
    from relayvm.ops.core.tensor_types import numpy_dtype

    def change(k: int, x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        for dtype in DTYPES:
            if dtype != x.dtype.name:
                yield f"input {k} is {dtype}", np.zeros(x.shape, numpy_dtype(dtype))

    return _each(made, change)


def other_attributes(op: Op, made: Call) -> Iterator[tuple[str, Call]]:
    """Each attribute with other numbers, fewer and more of them, and with a word that it does not know."""
    attrs = attrs_of(op, made)
    for field in dataclasses.fields(op.attrs):
        value = getattr(attrs, field.name)
        for other in _others(value):
            given = {f.name: getattr(attrs, f.name) for f in dataclasses.fields(op.attrs)} | {field.name: other}
            yield f"{field.name}={other!r}", replace(made, attrs=given)


def _others(value: Any) -> Iterator[Any]:
    if isinstance(value, bool) or value is None:
        yield from ("no", 1.5, (1, 2, 3, 4, 5, 6, 7, 8, 9))
    elif isinstance(value, int):
        yield from (*ODD_NUMBERS, "word", None)
    elif isinstance(value, float):
        yield from (float("nan"), float("inf"), -1e308, "word")
    elif isinstance(value, str):
        yield from ("", "no such word", 3)
    elif isinstance(value, tuple):
        yield from ((), (*value, *value[-1:]), value[:-1], "word", 2**62)
        for k, element in enumerate(value):
            for other in _others(element):
                yield (*value[:k], other, *value[k + 1 :])


def other_values(op: Op, made: Call) -> Iterator[tuple[str, Call]]:
    """Integer inputs, flagged ones and indices, with numbers out of every range; floats that are none."""

    def change(k: int, x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        if not x.size or x.size > 64:
            return
        if x.dtype.name in ("int32", "int64"):
            limits = np.iinfo(x.dtype)
            for number in sorted({min(max(n, limits.min), limits.max) for n in (*ODD_NUMBERS, 10**5)}):
                changed = x.copy()
                changed.reshape(-1)[-1] = number
                yield f"input {k} ends with {number}", changed
        elif flags_of(op, made)[k] and x.dtype.kind == "f":
            for number in (np.nan, np.inf, -1.0, 0.0):
                yield f"input {k} is {number}", np.full_like(x, number)

    return _each(made, change)
