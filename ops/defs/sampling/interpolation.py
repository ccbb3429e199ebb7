"""Interpolation: scalar expressions of resizing and grid sampling.

Positions are computed in float64, for any input; the resulting indices are always in range.  Sums accumulate in float32, or in
float64 for dtypes that float32 does not represent exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....declarations.frozen_dataclass import frozen
from ...core.compute import Cast, Literal, Scalar, Value, apply
from ...core.tensor_types import ITEMSIZE, is_integer
from ..arithmetic.elementwise import floor, round_away

#: The dtype of positions.
POSITION = "float64"


@frozen
class Tap:
    """An element along an axis: its index and its weight; weight None: the only element."""

    index: Scalar
    weight: Scalar | None = None


def position(value: Scalar | float) -> Scalar:
    """A number or an index expression as a position."""
    if not isinstance(value, Scalar):
        return Literal(float(value), POSITION)
    return value if value.dtype == POSITION else Cast(value, POSITION)


def divide(a: Scalar, b: Scalar) -> Scalar:
    """The quotient of two positions."""
    return apply("divide", a, b)


def choose(condition: Scalar, then: Scalar, otherwise: Scalar) -> Scalar:
    """``then`` if ``condition``, else ``otherwise``; both are computed."""
    return apply("where", condition, then, otherwise, dtype=then.dtype)


def clamp(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """``x`` clipped to [``low``, ``high``]; ``low`` if ``x`` is NaN."""
    raised = choose(apply("greater", x, low, dtype="bool"), x, low)
    return choose(apply("less", raised, high, dtype="bool"), raised, high)


def is_inside(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """The condition ``low <= x <= high``."""
    return apply("and", x >= low, apply("less_equal", x, high, dtype="bool"))


def ceil(x: Scalar) -> Scalar:
    """The smallest integer not below ``x``."""
    return apply("negative", floor(apply("negative", x)))


def rounded(x: Scalar, method: str) -> Scalar:
    """``x`` rounded to an integer.

    ``round``: to the nearest, halves away from 0; ``round_prefer_floor``, ``round_prefer_ceil``: to the nearest, halves down or
    up; ``floor``; ``ceil``.
    """
    if method == "round":
        return round_away(x)
    if method == "round_prefer_floor":
        return ceil(x - position(0.5))
    if method == "round_prefer_ceil":
        return floor(x + position(0.5))
    return floor(x) if method == "floor" else ceil(x)


def as_index(x: Scalar, size: Scalar) -> Scalar:
    """An integer position as an index, clipped to an axis of ``size`` elements."""
    return Cast(clamp(x, position(0), position(size) - position(1)), "int64")


def linear_taps(x: Scalar, size: Scalar) -> tuple[Tap, ...]:
    """The two taps around ``x``; outside the data, the first or the last element."""
    last = position(size) - position(1)
    inside = clamp(x, position(0), last)
    below = floor(inside)
    part = inside - below
    return Tap(Cast(below, "int64"), position(1) - part), Tap(as_index(below + position(1), size), part)


def cubic_weights(part: Scalar, alpha: float) -> list[Scalar]:
    """The weights of the four taps around a position at distance ``part`` after the second tap (Keys 1981)."""
    a = position(alpha)

    def near(d: Scalar) -> Scalar:  # |d| <= 1
        return ((a + position(2)) * d - (a + position(3))) * d * d + position(1)

    def far(d: Scalar) -> Scalar:  # 1 <= |d| <= 2
        return ((a * d - position(5) * a) * d + position(8) * a) * d - position(4) * a

    rest = position(1) - part
    return [far(part + position(1)), near(part), near(rest), far(rest + position(1))]


def cubic_taps(x: Scalar, size: Scalar, alpha: float, exclude_outside: bool = False) -> tuple[Tap, ...]:
    """The four taps around ``x``; an index outside the data is clipped, or (``exclude_outside``) has weight 0 and the other
    weights are renormalised."""
    # farther outside the taps do not change; integers in this range are exact
    below = floor(clamp(x, position(-4), position(size) + position(4)))
    weights = cubic_weights(choose(apply("equal", x, x, dtype="bool"), x, below) - below, alpha)
    at = [below + position(k - 1) for k in range(4)]
    if exclude_outside:
        last = position(size) - position(1)
        weights = [choose(is_inside(i, position(0), last), w, position(0)) for i, w in zip(at, weights, strict=True)]
        total = weights[0] + weights[1] + weights[2] + weights[3]
        weights = [divide(w, total) for w in weights]
    return tuple(Tap(as_index(i, size), w) for i, w in zip(at, weights, strict=True))


def accumulation_dtype(*dtypes: str) -> str:
    """The accumulation dtype for elements of these dtypes."""
    wide = (d == "float64" or (is_integer(d) and ITEMSIZE[d] > 2) for d in dtypes)
    return "float64" if any(wide) else "float32"


def as_number(element: Scalar, dtype: str) -> Scalar:
    """An element cast to the accumulation dtype ``dtype``."""
    return element if element.dtype == dtype else Cast(element, dtype)


def stored(total: Scalar, dtype: str) -> Scalar:
    """A sum as an element of the result; an integer dtype drops the fraction."""
    return total if total.dtype == dtype else Cast(total, dtype)


def between(data: Value, at: Sequence[Scalar], taps: dict[int, tuple[Tap, ...]], dtype: str) -> Scalar:
    """The weighted sum over the taps of all axes of ``taps``, at indices ``at`` along the other axes, in ``dtype``."""
    indices = list(at)

    def along(axes: list[int]) -> Scalar:
        if not axes:
            return as_number(data(*indices), dtype)
        total: Scalar | None = None
        for tap in taps[axes[0]]:
            indices[axes[0]] = tap.index
            part = along(axes[1:])
            if tap.weight is not None:
                part = as_number(tap.weight, dtype) * part
            total = part if total is None else total + part
        assert total is not None, "a sample has taps"
        return total

    return along(sorted(taps))


def nearest(data: Value, at: Sequence[Scalar], indices: dict[int, Scalar]) -> Scalar:
    """The element at ``indices`` along their axes, at indices ``at`` along the other axes."""
    return data(*(indices.get(axis, i) for axis, i in enumerate(at)))
