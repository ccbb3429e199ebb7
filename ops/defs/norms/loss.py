"""Losses as composite operators (see ``composite``); float16 and bfloat16 are computed in float32 throughout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.argument_checks import need_rank
from ...composition.composite import Term, call, cast, composite, equal_sizes, number, widened
from ...composition.legalize import as_taken, index_dtype
from ...core.dtype_rules import FLOATS, INTEGERS, like_inputs, require, require_same
from ...core.op import get
from ..arithmetic.broadcast import EQUAL, WHERE
from ..arithmetic.elementwise import LOG
from ..axes.reduce import MEAN, SUM, ReduceAttrs
from ..movement.indexing import TakeAttrs
from ..movement.transform import AxisAttrs, ExpandDimsAttrs, SqueezeAttrs

_PAIR = ("predictions", "targets")


@frozen
class NllLossAttrs:
    """``reduction``: ``mean``: the sum of the losses divided by the sum of their weights; ``sum``: the sum; ``none``: the losses;
    ``ignore_index``: the class with loss 0."""

    reduction: Literal["mean", "sum", "none"] = "mean"
    ignore_index: int = -100


def _cross_entropy(op: str, inputs: tuple[Term, ...], logarithm: Callable[[Term], Term]) -> Term:
    predictions, targets = inputs
    need_rank(predictions.operand, 2, _PAIR[0], 0)
    need_rank(targets.operand, 2, _PAIR[1], 1)
    for axis in range(2):
        message = f"{op}: axis {axis} of targets has size {{}}, that of predictions {{}}"
        targets = equal_sizes(targets, axis, predictions, axis, message, 1)
    x, y = widened(predictions, targets)
    rows = call(SUM, logarithm(x) * y, attrs=ReduceAttrs(1))
    return cast(-call(MEAN, rows, attrs=ReduceAttrs(0)), predictions.dtype)


def _of_probabilities(inputs: tuple[Term, ...], attrs: Any) -> Term:
    return _cross_entropy("nn.cross_entropy", inputs, lambda x: call(LOG, x))


def _of_logarithms(inputs: tuple[Term, ...], attrs: Any) -> Term:
    return _cross_entropy("nn.cross_entropy_with_logits", inputs, lambda x: x)


def _nll_loss(inputs: tuple[Term, Term, Term], attrs: NllLossAttrs) -> Term:
    predictions, targets, weights = inputs
    need_rank(predictions.operand, 1, "predictions", 0, at_least=True)
    need_rank(targets.operand, predictions.rank - 1, "targets", 1)
    need_rank(weights.operand, 1, "weights", 2)
    classes = 1 if predictions.rank > 1 else 0  # a single sample has the classes as its only axis
    others = [a for a in range(predictions.rank) if a != classes]
    for axis, other in enumerate(others):
        message = f"nn.nll_loss: axis {axis} of targets has size {{}}, axis {other} of predictions {{}}"
        targets = equal_sizes(targets, axis, predictions, other, message, 1)
    targets = as_taken(targets, index_dtype(targets.dtype, (), attrs))
    message = f"nn.nll_loss: weights has {{}} elements, but axis {classes} of predictions has size {{}}"
    predictions, weights = widened(predictions, equal_sizes(weights, 0, predictions, classes, message, 2))

    # all terms have the axes of predictions, the class axis with size 1: then they form one expression and fuse
    at = call(get("expand_dims"), targets, attrs=ExpandDimsAttrs(classes))
    ignored, none = call(EQUAL, at, number(attrs.ignore_index, at.dtype)), number(0, predictions.dtype)
    at = call(WHERE, ignored, number(0, at.dtype), at)
    weight = call(WHERE, ignored, none, call(get("take"), weights, at, attrs=TakeAttrs(axis=0, mode="fast")))
    gathered = call(get("gather"), predictions, at, attrs=AxisAttrs(classes))
    losses = call(WHERE, ignored, none, -gathered * weight)
    if attrs.reduction == "none":
        result = call(get("squeeze"), losses, attrs=SqueezeAttrs((classes,)))
    else:
        result = call(SUM, losses, attrs=ReduceAttrs())
        result = result / call(SUM, weight, attrs=ReduceAttrs()) if attrs.reduction == "mean" else result
    return cast(result, inputs[0].dtype)


def _nll_dtype(dtypes: tuple[Any, ...], attrs: NllLossAttrs) -> str:
    names = ("predictions", "targets", "weights")
    dtype = require_same("nn.nll_loss", dtypes, (0, 2), names)
    require("nn.nll_loss", dtype, FLOATS, 0, names[0])
    require("nn.nll_loss", dtypes[1], INTEGERS, 1, names[1])
    return dtype


composite(
    name="nn.cross_entropy",
    doc="`-sum(targets * log(predictions)) / batch` of probabilities `[batch, classes]`: "
    "`nn.cross_entropy([[0.5, 0.5]], [[1.0, 0.0]]) = 0.6931`.",
    inputs=_PAIR,
    dtype=like_inputs("nn.cross_entropy", _PAIR, FLOATS),
    expand=_of_probabilities,
)
composite(
    name="nn.cross_entropy_with_logits",
    doc="`-sum(targets * predictions) / batch` of logarithms of probabilities, as `nn.log_softmax` gives them: "
    "`nn.cross_entropy_with_logits([[-0.5, -1.0]], [[1.0, 0.0]]) = 0.5`.",
    inputs=_PAIR,
    dtype=like_inputs("nn.cross_entropy_with_logits", _PAIR, FLOATS),
    expand=_of_logarithms,
)
composite(
    name="nn.nll_loss",
    doc="`-predictions[n, targets[n]] * weights[targets[n]]`, their weighted mean or their sum; a class out of range is an "
    "error, except `ignore_index`: `nn.nll_loss([[-1.0, -2.0]], [1], [1.0, 0.5]) = 2.0`.",
    inputs=("predictions", "targets", "weights"),
    attrs=NllLossAttrs,
    dtype=_nll_dtype,
    expand=_nll_loss,
)
