"""Argument checks of shape functions: axes in range, equal sizes, ranks, run-time values."""

from __future__ import annotations

from collections.abc import Sequence

from .dim import Dim, Shape, const
from .dim_operations import eq, le
from .registry import Operand, ShapeError, check


def axis_in(axis: int, rank: int, what: str = "axis") -> int:
    """``axis`` as a nonnegative index.  Raises ShapeError if it is out of range for ``rank``."""
    if not -rank <= axis < rank:
        valid = f"valid: {-rank} to {rank - 1}" if rank else "a scalar has none"
        raise ShapeError(f"{what} {axis} is out of range for {dimensions(rank)} ({valid})")
    return axis % rank


def axes_in(axes: int | Sequence[int], rank: int, what: str = "axis") -> tuple[int, ...]:
    """``axes`` as nonnegative indices, in order.  Raises ShapeError for an axis out of range or a duplicate."""
    listed = (axes,) if isinstance(axes, int) else tuple(axes)
    out = tuple(axis_in(a, rank, what) for a in listed)
    if len(set(out)) != len(out):
        raise ShapeError(f"{what} {listed} names an axis twice")
    return out


def dimensions(rank: int) -> str:
    """``1 dimension``, ``3 dimensions``."""
    return f"{rank} dimension{'' if rank == 1 else 's'}"


def need_rank(x: Operand, rank: int, what: str, input: int, *, at_least: bool = False) -> None:
    """Raise ShapeError unless ``x`` has ``rank`` dimensions (with ``at_least``: at least ``rank``)."""
    if x.rank < rank or (x.rank > rank and not at_least):
        raise ShapeError(f"{what} must have {'at least ' * at_least}{dimensions(rank)}, not {x.rank}", input=input)


def same_size(a: Dim, b: Dim, message: str, input: int | None = None, axis: int | None = None) -> Dim:
    """Check that ``a`` equals ``b``; return the constant one of both, if any.  ``message`` has a ``{}`` for ``a``, then ``b``."""
    check(eq(a, b), message, a, b, input=input, axis=axis)
    return b if const(a) is None and const(b) is not None else a


def vector(x: Operand, what: str, input: int) -> Shape:
    """The values of a flagged vector.  Raises ShapeError for any other rank."""
    need_rank(x, 1, what, input)
    return x.values


def scalar(x: Operand, what: str, input: int) -> Dim:
    """The value of a flagged scalar or one-element vector.  Raises ShapeError for any other shape."""
    if len(x.values) != 1 or x.rank > 1:
        raise ShapeError(f"{what} must be a scalar, it has {dimensions(x.rank)}", input=input)
    return x.values[0]


def as_size(value: Dim, what: str, input: int | None = None) -> Dim:
    """``value``, checked not to be negative."""
    check(le(0, value), f"{what} is negative: {{}}", value, input=input)
    return value
