"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....ops.core.tensor_types import computed_in, int_range, is_float, is_integer
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from .elementwise import cast_to, number
from .run_time_axes import axis_mask, removed_axes, squeezed_by_mask
from .vectors import measured, numbers, sizes_or_expr

Unary = Callable[[Expr], Expr]


@frozen
class Reduction:
    """A fold of elements, ``prepare`` before it and ``finish`` after it.

    ``fold``: ``sum``, ``prod``, ``max`` or ``min``; ``mean``: whether the sum is divided by the number of elements.
    ``is_real``: whether the result of integers is a real number, without its fraction.
    """

    fold: str
    prepare: Unary | None = None
    finish: Unary | None = None
    mean: bool = False
    is_real: bool = False

    def wide_dtype(self, dtype: str) -> str:
        """The dtype of the elements while they are folded: float32 for halves, float64 for integers with a real result."""
        if self.fold in ("max", "min"):
            return dtype
        return "float64" if self.is_real and not is_float(dtype) else computed_in(dtype)

    def __call__(self, node: Node, x: Expr, axes: list[int], keepdims: bool) -> Expr:
        """The reduction over axes known at import."""
        dtype = node.dtype(x)
        return cast_to(node, self.known(node, cast_to(node, x, self.wide_dtype(dtype)), axes, keepdims), dtype)

    def at_run_time(self, node: Node, x: Expr, mask: Expr) -> Expr:
        """The reduction over the axes of a mask, which stay as axes of size 1."""
        dtype = node.dtype(x)
        wide = self.wide_dtype(dtype)
        if self.mean and is_integer(dtype):  # the sum of a mean is a value of its own here
            wide = "uint64" if dtype == "uint64" else "int64"
        return cast_to(node, self.masked(node, cast_to(node, x, wide), mask), dtype)

    def known(self, node: Node, x: Expr, axes: list[int], keepdims: bool) -> Expr:
        """The reduction of elements of the wide dtype over axes known at import."""
        x = x if self.prepare is None else self.prepare(x)
        if self.mean:
            return relay.mean(x, axis=axes, keepdims=keepdims)
        result = folded(node, self.fold, x, axes, keepdims)
        return result if self.finish is None else self.finish(result)

    def masked(self, node: Node, x: Expr, mask: Expr) -> Expr:
        """The reduction of elements of the wide dtype over the axes of a mask."""
        x = x if self.prepare is None else self.prepare(x)
        result = folded_at_run_time(node, self.fold, x, mask)
        if self.mean:
            one = const(1, "int64")
            count = relay.prod(relay.where(relay.equal(mask, one), relay.shape_of(x, dtype="int64"), one))
            divide = relay.divide if is_float(node.dtype(x)) else relay.trunc_divide
            result = divide(result, relay.cast(count, node.dtype(x)))
        return result if self.finish is None else self.finish(result)


class LogSumExp(Reduction):
    """The logarithm of the sum of exponentials, without overflow; minus infinity of no elements."""

    def known(self, node: Node, x: Expr, axes: list[int], keepdims: bool) -> Expr:
        if all(node.size(x, a) for a in axes):
            return relay.logsumexp(x, axis=axes, keepdims=keepdims)
        most = _finite(node, folded(node, "max", x, axes, True))
        result = relay.add(relay.log(relay.sum(relay.exp(relay.subtract(x, most)), axis=axes, keepdims=True)), most)
        return result if keepdims else relay.squeeze(result, axes)

    def masked(self, node: Node, x: Expr, mask: Expr) -> Expr:
        most = _finite(node, folded_at_run_time(node, "max", x, mask))
        total = folded_at_run_time(node, "sum", relay.exp(relay.subtract(x, most)), mask)
        return relay.add(relay.log(total), most)


def _finite(node: Node, x: Expr) -> Expr:
    return relay.where(relay.isinf(x), number(0, node.dtype(x)), x)


def folded(node: Node, fold: str, x: Expr, axes: list[int], keepdims: bool) -> Expr:
    """The fold of elements; the largest of no elements is the smallest number of the dtype, and the other way round."""
    dtype = node.dtype(x)
    if dtype == "bool" and fold in ("max", "min"):
        return getattr(relay, "any" if fold == "max" else "all")(x, axis=axes, keepdims=keepdims)

    def result(inner: Node) -> Expr:
        return getattr(relay, fold)(x, axis=axes, keepdims=keepdims)

    sizes = [node.size(x, a) for a in axes]
    if fold in ("sum", "prod") or all(sizes):
        return result(node)
    least, most = (-np.inf, np.inf) if is_float(dtype) else int_range(dtype)
    x = node.bind(x)

    def nothing(inner: Node) -> Expr:
        # a sum over the axes has the shape of the result
        shape = relay.shape_of(relay.sum(x, axis=axes, keepdims=keepdims), dtype="int64")
        fill = number(least if fold == "max" else most, dtype)
        return relay.full(fill, sizes_or_expr(inner, inner.bind(shape)), dtype)

    if 0 in sizes:
        return nothing(node)
    taken = relay.take(relay.shape_of(x, dtype="int64"), numbers(axes), axis=0)
    return node.choose(relay.equal(relay.prod(taken), const(0, "int64")), nothing, result)


def folded_at_run_time(node: Node, fold: str, x: Expr, mask: Expr) -> Expr:
    """The fold over the axes of a mask, one after the other; they stay as axes of size 1."""
    mask = node.bind(mask)
    for axis in range(node.rank(x)):
        wanted = relay.equal(relay.take(mask, const(axis, "int64"), axis=0), const(1, "int64"))
        x = _folded_if(node, wanted, fold, node.bind(x), axis)
    return x


def _folded_if(node: Node, wanted: Expr, fold: str, x: Expr, axis: int) -> Expr:
    return node.choose(wanted, lambda inner: folded(inner, fold, x, [axis], True), lambda _: x)


def _square(x: Expr) -> Expr:
    return relay.multiply(x, x)


#: The reductions, and the version from which axes are an input.
_REDUCTIONS: dict[str, tuple[Reduction, int]] = {
    "ReduceSum": (Reduction("sum"), 13), "ReduceProd": (Reduction("prod"), 18), "ReduceMax": (Reduction("max"), 18),
    "ReduceMin": (Reduction("min"), 18), "ReduceMean": (Reduction("sum", mean=True), 18),
    "ReduceSumSquare": (Reduction("sum", _square), 18), "ReduceL1": (Reduction("sum", relay.abs), 18),
    "ReduceL2": (Reduction("sum", _square, relay.sqrt, is_real=True), 18),
    "ReduceLogSum": (Reduction("sum", None, relay.log, is_real=True), 18),
    "ReduceLogSumExp": (LogSumExp("sum", is_real=True), 18),
}  # fmt: skip


def _by_attribute(reduction: Reduction) -> Callable[[Node, Expr], Expr]:
    def convert(node: Node, x: Expr) -> Expr:
        rank = node.rank(x)
        return _reduced(node, x, node.axes(node.attr("axes") or range(rank), rank), reduction)

    return convert


def _by_input(reduction: Reduction) -> Callable[[Node, Expr, Expr | None], Expr]:
    def convert(node: Node, x: Expr, axes: Expr | None) -> Expr:
        rank = node.rank(x)
        is_empty = axes is None or node.sizes(axes) == (0,)
        known = node.constant(axes)
        if is_empty and node.attr("noop_with_empty_axes", 0):
            return _reduced(node, x, [], reduction)
        if axes is None or is_empty:
            return _reduced(node, x, list(range(rank)), reduction)
        if known is not None:
            return _reduced(node, x, node.axes([int(a) for a in known.reshape(-1)], rank), reduction)
        return _at_run_time(node, x, axes, reduction)

    return convert


def _at_run_time(node: Node, x: Expr, axes: Expr, reduction: Reduction) -> Expr:
    """The reduction over axes that are known at run time; of a number of axes that is, none may be all."""
    rank, kept = node.rank(x), bool(node.attr("keepdims", 1))
    axes = axes if node.rank(axes) else node.bind(relay.reshape(axes, [1]))
    count = node.sizes(axes)[0]
    if not kept:
        axes, count = measured(node, axes, "axes", removed_axes(node, rank))
        if not count or count == rank:  # no axes are all axes
            every = list(range(rank)) if count or not node.attr("noop_with_empty_axes", 0) else []
            return _reduced(node, x, every, reduction)
    mask = node.bind(axis_mask(node, axes, rank))
    if count is None and not node.attr("noop_with_empty_axes", 0):
        mask = relay.where(relay.equal(relay.sum(mask), const(0, "int64")), numbers([1] * rank), mask)
    result = reduction.at_run_time(node, x, mask)
    return result if kept else squeezed_by_mask(node, result, mask, rank - int(count or 0))


def _reduced(node: Node, x: Expr, axes: list[int], reduction: Reduction) -> Expr:
    if axes:
        return reduction(node, x, axes, bool(node.attr("keepdims", 1)))
    # each element by itself
    return relay.squeeze(reduction(node, relay.expand_dims(x, 0), [0], True), [0])


for _name, (_reduction, _since) in _REDUCTIONS.items():
    onnx_operator(_name, since=1)(_by_attribute(_reduction))
    onnx_operator(_name, since=_since)(_by_input(_reduction))


def _position(name: str) -> Callable[[Node, Expr], Expr]:
    def convert(node: Node, x: Expr) -> Expr:
        axis, keepdims = node.axis(node.attr("axis", 0), node.rank(x)), bool(node.attr("keepdims", 1))
        last = bool(node.attr("select_last_index", 0))
        found = getattr(relay, name)(x, axis=axis, keepdims=keepdims, select_last_index=last)
        return relay.cast(found, "int64")

    return convert


onnx_operator("ArgMax", since=1)(_position("argmax"))
onnx_operator("ArgMin", since=1)(_position("argmin"))
