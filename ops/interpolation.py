"""Elements between elements: what resizing and grid sampling say of one element of their results.

Where it lies is computed in float64, from anything: the indices that come out are always in range.  Elements are added up in
float32, in float64 where their dtype does not fit into that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .compute import Cast, Literal, Scalar, Value, apply
from .elementwise import floor
from .ty import ITEMSIZE, is_integer

#: The dtype in which places are computed.
PLACE = "float64"


@dataclass(frozen=True)
class Tap:
    """One of the elements along an axis: its index, and its weight; None where it is the only one."""

    index: Scalar
    weight: Scalar | None = None


def place(value: Scalar | float) -> Scalar:
    """A number, or an index expression, as a place."""
    if not isinstance(value, Scalar):
        return Literal(float(value), PLACE)
    return value if value.dtype == PLACE else Cast(value, PLACE)


def divide(a: Scalar, b: Scalar) -> Scalar:
    """The quotient of two places."""
    return apply("divide", a, b)


def choose(condition: Scalar, then: Scalar, otherwise: Scalar) -> Scalar:
    """One of two numbers; both are computed."""
    return apply("where", condition, then, otherwise, dtype=then.dtype)


def limited(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """``x`` from ``low`` to ``high``; ``low`` where it is NaN."""
    raised = choose(apply("greater", x, low, dtype="bool"), x, low)
    return choose(apply("less", raised, high, dtype="bool"), raised, high)


def is_inside(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """Is ``x`` from ``low`` to ``high``?"""
    return apply("and", x >= low, apply("less_equal", x, high, dtype="bool"))


def ceil(x: Scalar) -> Scalar:
    """The smallest whole number that is not below ``x``."""
    return apply("negative", floor(apply("negative", x)))


def rounded(x: Scalar, method: str) -> Scalar:
    """A whole number near ``x``: ``round`` to the nearest, halves to the even one; ``round_prefer_floor``, ``round_prefer_ceil``:
    halves down, up; ``floor``; ``ceil``."""
    if method == "round":
        return apply("round", x)
    if method == "round_prefer_floor":
        return ceil(x - place(0.5))
    if method == "round_prefer_ceil":
        return floor(x + place(0.5))
    return floor(x) if method == "floor" else ceil(x)


def as_index(x: Scalar, size: Scalar) -> Scalar:
    """A whole number as an index of an axis: the first or the last one where it is outside."""
    return Cast(limited(x, place(0), place(size) - place(1)), "int64")


def linear_taps(x: Scalar, size: Scalar) -> tuple[Tap, ...]:
    """The two elements around ``x``; the first or the last element where it is outside."""
    last = place(size) - place(1)
    inside = limited(x, place(0), last)
    below = floor(inside)
    part = inside - below
    return Tap(Cast(below, "int64"), place(1) - part), Tap(as_index(below + place(1), size), part)


def cubic_weights(part: Scalar, alpha: float) -> list[Scalar]:
    """The weights of the four elements around a place that is ``part`` behind the second of them (Keys 1981)."""
    a = place(alpha)

    def near(d: Scalar) -> Scalar:  # |d| <= 1
        return ((a + place(2)) * d - (a + place(3))) * d * d + place(1)

    def far(d: Scalar) -> Scalar:  # 1 <= |d| <= 2
        return ((a * d - place(5) * a) * d + place(8) * a) * d - place(4) * a

    rest = place(1) - part
    return [far(part + place(1)), near(part), near(rest), far(rest + place(1))]


def cubic_taps(x: Scalar, size: Scalar, alpha: float, exclude_outside: bool = False) -> tuple[Tap, ...]:
    """The four elements around ``x``; an index outside stands for the first or the last element, or (``exclude_outside``) counts
    for nothing, the other weights making up for it."""
    # farther away nothing changes, and a whole number there is exact
    below = floor(limited(x, place(-4), place(size) + place(4)))
    weights = cubic_weights(choose(apply("equal", x, x, dtype="bool"), x, below) - below, alpha)
    at = [below + place(k - 1) for k in range(4)]
    if exclude_outside:
        last = place(size) - place(1)
        weights = [choose(is_inside(i, place(0), last), w, place(0)) for i, w in zip(at, weights, strict=True)]
        total = weights[0] + weights[1] + weights[2] + weights[3]
        weights = [divide(w, total) for w in weights]
    return tuple(Tap(as_index(i, size), w) for i, w in zip(at, weights, strict=True))


def summed_in(*dtypes: str) -> str:
    """The dtype in which elements of these dtypes are added up."""
    wide = (d == "float64" or (is_integer(d) and ITEMSIZE[d] > 2) for d in dtypes)
    return "float64" if any(wide) else "float32"


def as_number(element: Scalar, dtype: str) -> Scalar:
    """An element as a number to compute with."""
    return element if element.dtype == dtype else Cast(element, dtype)


def stored(total: Scalar, dtype: str) -> Scalar:
    """A number as an element of the result; an integer drops the fraction."""
    return total if total.dtype == dtype else Cast(total, dtype)


def between(data: Value, at: Sequence[Scalar], taps: dict[int, tuple[Tap, ...]], dtype: str) -> Scalar:
    """The sum over the taps of all axes of ``taps``, at ``at`` along the others: a number of ``dtype``."""
    indices = list(at)

    def along(axes: list[int]) -> Scalar:
        if not axes:
            return as_number(data(*indices), dtype)
        total: Any = None
        for tap in taps[axes[0]]:
            indices[axes[0]] = tap.index
            part = along(axes[1:])
            if tap.weight is not None:
                part = as_number(tap.weight, dtype) * part
            total = part if total is None else total + part
        return total  # type: ignore[no-any-return]

    return along(sorted(taps))


def nearest(data: Value, at: Sequence[Scalar], indices: dict[int, Scalar]) -> Scalar:
    """The element at ``indices`` along their axes, at ``at`` along the others."""
    return data(*(indices.get(axis, i) for axis, i in enumerate(at)))
