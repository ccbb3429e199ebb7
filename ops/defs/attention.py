"""Attention: the weighted sum of values for each query, without a matrix of weights in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...shape_funcs.symbolic.dim import dim
from ..core.dtype_rules import FLOATS, require, require_same
from ..core.op import Op, OpPattern
from ..kernels.attention import cpu as bodies
from ..kernels.attention import cuda
from ..strategy.implementation import Kernel, Scratch


@dataclass(frozen=True)
class AttentionAttrs:
    """``scale``: the factor of the products of queries and keys."""

    scale: float = 1.0


_INPUTS = ("query", "key", "value", "bias")


def _rule(dtypes: tuple[Any, ...], attrs: AttentionAttrs) -> str:
    require("nn.attention", dtypes[0], FLOATS, 0, "query")
    return require_same("nn.attention", dtypes, (0, 1, 2, 3), _INPUTS)


Op(
    name="nn.attention",
    doc="For each query of `query[m, b, h, d]` and each head the sum of the rows of `value[n, b, h, e]`, weighted by the softmax "
    "of `scale * query . key + bias`, with `key[n, b, h, d]` and `bias[b, h, m, n]`: `[m, b, h, e]`.  Positions are the first "
    "axis, so that keys and values can grow.  "
    "`nn.attention([[[[1.0]]]], [[[[0.0]]], [[[0.0]]]], [[[[2.0]]], [[[4.0]]]], [[[[0.0, 0.0]]]]) = [[[[3.0]]]]`.",
    inputs=_INPUTS,
    attrs=AttentionAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_rule,
    kernels=(
        Kernel(
            "attention",
            bodies.ATTENTION[""],
            choose=lambda attrs, dtypes: bodies.ATTENTION.get(dtypes[0], bodies.ATTENTION[""]),
            scratch=(
                Scratch(length=lambda call: call.inputs[1].shape[0]),
                Scratch(length=lambda call: dim(call.inputs[2].shape[3])),
            ),
            cuda=cuda.attention,
        ),
    ),
)
