"""Operators that fold axes of their input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .compute import Cast, Reduction, Scalar, Value, apply
from .dtype_rules import BOOL, FLOATS, NUMBERS, like_inputs
from .op import Op, OpPattern


@dataclass(frozen=True)
class ReduceAttrs:
    """Which axes are folded.

    ``axis``: one axis, several, or None for all; ``exclude``: all axes *but* those; ``keepdims``: the folded axes stay,
    with size 1.
    """

    axis: int | tuple[int, ...] | None = None
    keepdims: bool = False
    exclude: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.axis, int):
            object.__setattr__(self, "axis", (self.axis,))


@dataclass(frozen=True)
class ArgReduceAttrs(ReduceAttrs):
    """As for the other reductions; ``select_last_index``: of equal elements, the last one counts, not the first."""

    select_last_index: bool = False


def _element(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: Any, output: Value) -> Scalar:
    return inputs[0](*axes)


def _reduce(
    name: str,
    doc: str,
    supported: Sequence[str],
    *,
    combine: str | None = None,
    result: str | None = None,
    attrs: type = ReduceAttrs,
    finish: Callable[[Scalar, Scalar], Scalar] | None = None,
) -> Op:
    return Op(
        name=name,
        doc=doc,
        inputs=("data",),
        attrs=attrs,
        pattern=OpPattern.COMM_REDUCE,
        dtype=like_inputs(name, ["data"], supported, result),
        compute=_element,
        reduction=Reduction(combine or name, finish),
    )


def _mean(total: Scalar, count: Scalar) -> Scalar:
    return apply("divide", total, Cast(count, total.dtype))


_reduce("sum", "`sum([[1, 2], [3, 4]], axis=0) = [4, 6]`; integers wrap.", NUMBERS)
_reduce("prod", "`prod([[1, 2], [3, 4]], axis=0) = [3, 8]`; integers wrap.", NUMBERS)
_reduce("max", "`max([[1, 2], [3, 4]], axis=1) = [2, 4]`; NaN if one is NaN; an empty axis is an error.", NUMBERS)
_reduce("min", "`min([[1, 2], [3, 4]], axis=1) = [1, 3]`; NaN if one is NaN; an empty axis is an error.", NUMBERS)
_reduce("all", "`all([[True, False], [True, True]], axis=1) = [False, True]`; True for an empty axis.", BOOL)
_reduce("any", "`any([[True, False], [False, False]], axis=1) = [True, False]`; False for an empty axis.", BOOL)
_reduce("mean", "`mean([[1.0, 3.0]], axis=1) = [2.0]`; NaN for an empty axis.", FLOATS, combine="sum", finish=_mean)
_reduce("variance", "The mean squared distance from the mean: `variance([1.0, 3.0]) = 1.0`; NaN for an empty axis.", FLOATS)
_reduce(
    "argmax",
    "The index of the largest element, counted over the folded axes: `argmax([[1, 5, 5]], axis=1) = [1]`.",
    NUMBERS,
    result="int32",
    attrs=ArgReduceAttrs,
)
_reduce(
    "argmin",
    "The index of the smallest element, counted over the folded axes: `argmin([[5, 1, 1]], axis=1) = [1]`.",
    NUMBERS,
    result="int32",
    attrs=ArgReduceAttrs,
)
