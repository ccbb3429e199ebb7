"""Reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.axes.reduce import reduced_axes
from ....shape_funcs.symbolic.dim import const
from ...composition.composite import Term, call, cast, composite, number, widened
from ...composition.legalize import legalized
from ...core.compute import Cast, Reduction, Scalar, Value, apply
from ...core.dtype_rules import BOOL, FLOATS, INTEGERS, NUMBERS, like_inputs
from ...core.op import Op, OpPattern, TypeRelError, get
from ...core.parameters import Parameter, Parameters
from ..arithmetic.broadcast import TRUNC_DIVIDE, WHERE
from ..arithmetic.elementwise import EXP, ISFINITE, LOG, SQRT, literal
from ..movement.transform import SqueezeAttrs


@frozen
class ReduceAttrs:
    """The reduced axes.

    ``axis``: one axis, several, or None for all; ``exclude``: whether all axes *except* ``axis`` are reduced instead;
    ``keepdims``: whether the reduced axes are kept with size 1.
    """

    axis: int | tuple[int, ...] | None = None
    keepdims: bool = False
    exclude: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.axis, int):
            object.__setattr__(self, "axis", (self.axis,))


@frozen
class ArgReduceAttrs(ReduceAttrs):
    """As ReduceAttrs; ``select_last_index``: whether the last of equal elements is selected instead of the first."""

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
    python: Parameters | None = None,
    of_bools: Callable[[Op, tuple[Term], ReduceAttrs], Term] | None = None,
    of_integers: Callable[[Op, tuple[Term], ReduceAttrs], Term] | None = None,
) -> Op:
    """Declare a reduction; ``of_bools``, ``of_integers``: the expansion of a reduction of these, if the kernels take none."""
    legalization = None
    if of_bools is not None:
        legalization = legalized(lambda dtypes, attrs: dtypes == BOOL, of_bools)
    elif of_integers is not None:
        legalization = legalized(lambda dtypes, attrs: dtypes[0] in INTEGERS, of_integers)
    return Op(
        name=name,
        doc=doc,
        inputs=("data",),
        python=python,
        attrs=attrs,
        pattern=OpPattern.COMM_REDUCE,
        dtype=like_inputs(name, ["data"], supported, result),
        compute=_element,
        reduction=Reduction(combine or name, finish),
        legalization=legalization,
    )


def _any(op: Op, inputs: tuple[Term], attrs: ReduceAttrs) -> Term:
    result: Term = call(get("any"), *inputs, attrs=attrs)
    return result


def _as_numbers(op: Op, inputs: tuple[Term], attrs: ReduceAttrs) -> Term:
    # True is 1; unlike `any`, a maximum of nothing is an error
    return cast(call(op, cast(inputs[0], "uint8"), attrs=attrs), "bool")


@frozen
class StdAttrs(ReduceAttrs):
    """As ReduceAttrs; ``unbiased``: whether the divisor is the number of elements minus 1."""

    unbiased: bool = False


def _mean_of_integers(op: Op, inputs: tuple[Term], attrs: ReduceAttrs) -> Term:
    """The sum of 64 bits divided by the number of elements, rounded towards 0."""
    (data,) = inputs
    wide = "uint64" if data.dtype == "uint64" else "int64"
    own = cast(data, wide)
    sizes = [const(data.shape[axis]) for axis in reduced_axes(attrs, data.rank)]
    known = math.prod(size for size in sizes if size is not None)
    counted = None in sizes or known == 0
    count = call(SUM, call(get("ones_like"), own), attrs=attrs) if counted else number(known, wide)
    return cast(call(TRUNC_DIVIDE, call(SUM, own, attrs=attrs), count), data.dtype)


def _mean(total: Scalar, count: Scalar) -> Scalar:
    return apply("divide", total, Cast(count, total.dtype))


def _variance_call(given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The operator of the given mean, or of the divisor."""
    rest = dict(given)
    unbiased, mean = rest.pop("unbiased"), rest.pop("with_mean")
    if mean is None:
        return "unbiased_variance" if unbiased else "variance", rest
    if unbiased:
        raise TypeRelError("variance: unbiased=True cannot be given with with_mean", help="the mean is then no estimate")
    return "variance_with_mean", {**rest, "mean": mean}


SUM = _reduce(
    "sum",
    "`sum([[1, 2], [3, 4]], axis=0) = [4, 6]`; integers wrap; of bools, as in Relay, `any`: to count them, `cast` them first.",
    NUMBERS + BOOL,
    of_bools=_any,
)
_reduce("prod", "`prod([[1, 2], [3, 4]], axis=0) = [3, 8]`; integers wrap.", NUMBERS)
MAX = _reduce(
    "max",
    "`max([[1, 2], [3, 4]], axis=1) = [2, 4]`; NaN if one is NaN; an empty axis is an error.",
    NUMBERS + BOOL,
    of_bools=_as_numbers,
)
_reduce(
    "min",
    "`min([[1, 2], [3, 4]], axis=1) = [1, 3]`; NaN if one is NaN; an empty axis is an error.",
    NUMBERS + BOOL,
    of_bools=_as_numbers,
)
_reduce("all", "`all([[True, False], [True, True]], axis=1) = [False, True]`; True for an empty axis.", BOOL)
_reduce("any", "`any([[True, False], [False, False]], axis=1) = [True, False]`; False for an empty axis.", BOOL)
MEAN = _reduce(
    "mean",
    "`mean([[1.0, 3.0]], axis=1) = [2.0]`; NaN for an empty axis; of integers rounded towards 0, and an empty axis is an error.",
    NUMBERS,
    combine="sum",
    finish=_mean,
    of_integers=_mean_of_integers,
)
VARIANCE = _reduce(
    "variance", "The mean squared distance from the mean: `variance([1.0, 3.0]) = 1.0`; NaN for an empty axis.", FLOATS,
    python=Parameters.of(
        "data", "axis", "keepdims", "exclude", Parameter("unbiased", False), Parameter("with_mean", None), call=_variance_call
    ),
)  # fmt: skip
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


# ---- composite reductions ------------------------------------------------------------------------------------------------


def _unbiased(variance: Scalar, count: Scalar) -> Scalar:
    n = Cast(count, variance.dtype)
    return apply("divide", variance * n, n - literal(1, n))


UNBIASED_VARIANCE = _reduce(
    "unbiased_variance",
    "As `variance`, divided by one less than the number of elements: `unbiased_variance([1.0, 3.0]) = 2.0`; NaN for one.",
    FLOATS,
    combine="variance",
    finish=_unbiased,
)


def _std(inputs: tuple[Term], attrs: StdAttrs) -> Term:
    (data,) = widened(*inputs)
    reduced_axes(attrs, data.rank)  # reports a wrong axis as an error of this operator
    over = ReduceAttrs(attrs.axis, attrs.keepdims, attrs.exclude)
    return cast(call(SQRT, call(UNBIASED_VARIANCE if attrs.unbiased else VARIANCE, data, attrs=over)), inputs[0].dtype)


def _variance_with_mean(inputs: tuple[Term, Term], attrs: ReduceAttrs) -> Term:
    data, mean = widened(*inputs)
    reduced_axes(attrs, data.rank)
    away = data - call(get("broadcast_to_like"), mean, data)
    return cast(call(MEAN, away * away, attrs=attrs), inputs[0].dtype)


def _logsumexp(inputs: tuple[Term], attrs: ReduceAttrs) -> Term:
    (data,) = widened(*inputs)
    folded = reduced_axes(attrs, data.rank)
    kept = ReduceAttrs(folded, keepdims=True)
    largest = call(MAX, data, attrs=kept)
    # inf - inf would be NaN
    shift = call(WHERE, call(ISFINITE, largest), largest, number(0, data.dtype))
    out = call(LOG, call(SUM, call(EXP, data - shift), attrs=kept)) + shift
    return cast(out if attrs.keepdims else call(get("squeeze"), out, attrs=SqueezeAttrs(folded)), inputs[0].dtype)


composite(
    name="std",
    doc="The square root of the variance: `std([1.0, 3.0]) = 1.0`; NaN for an empty axis.",
    inputs=("data",),
    attrs=StdAttrs,
    dtype=like_inputs("std", ["data"], FLOATS),
    expand=_std,
)
composite(
    name="variance_with_mean",
    doc="The mean squared distance from the input `mean`, which broadcasts to the data (Relay's `variance` of two inputs): "
    "`variance_with_mean([1.0, 3.0], [2.0]) = 1.0`.",
    inputs=("data", "mean"),
    attrs=ReduceAttrs,
    dtype=like_inputs("variance_with_mean", ["data", "mean"], FLOATS),
    expand=_variance_with_mean,
)
composite(
    name="logsumexp",
    doc="`log(sum(exp(x)))` without overflow: `logsumexp([0.0, 0.0]) = 0.6931`; an empty axis is an error.",
    inputs=("data",),
    attrs=ReduceAttrs,
    dtype=like_inputs("logsumexp", ["data"], FLOATS),
    expand=_logsumexp,
)
