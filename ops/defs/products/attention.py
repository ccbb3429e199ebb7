"""Attention: the weighted sum of values for each query, without a matrix of weights in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....shape_funcs.symbolic.dim import Dim, dim
from ....shape_funcs.symbolic.dim_operations import min_
from ...core.conditions import Conditions, condition
from ...core.dtype_rules import FLOATS, require, require_same
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...core.op import Op, OpPattern, TypeRelError
from ...core.tensor_types import ITEMSIZE
from ...kernels.attention import batches, cuda, grouped, grouped_cuda
from ...kernels.attention import cpu as bodies
from ...native.jit.products.register_tile import panel_width
from ...strategy.products.matmul_strategy import is_one_float


@dataclass(frozen=True)
class AttentionAttrs:
    """``scale``: the factor of the products of queries and keys."""

    scale: float = 1.0


_INPUTS = ("query", "key", "value", "bias")


def _chosen(bodies: dict[str, Any]) -> Callable[[Any, tuple[str, ...]], Any]:
    """The body for the dtype of the queries; "" stands for all others."""
    return lambda attrs, dtypes: bodies.get(dtypes[0], bodies[""])


def _rule(dtypes: tuple[Any, ...], attrs: AttentionAttrs) -> str:
    require("nn.attention", dtypes[0], FLOATS, 0, "query")
    return require_same("nn.attention", dtypes, (0, 1, 2, 3), _INPUTS)


def _rows_together(call: OpCall) -> Dim:
    """Heads times the queries that are computed together."""
    m, _, heads, _ = call.inputs[0].shape
    return min_(m, bodies.QUERIES) * heads


def _whole_vectors(call: OpCall, count: Dim) -> Dim:
    width = panel_width(ITEMSIZE[call.dtypes[0]])
    return (count + width - 1) // width * width


def _scores_together(call: OpCall) -> Dim:
    return _rows_together(call) * _whole_vectors(call, call.inputs[1].shape[0])


def _sums_together(call: OpCall) -> Dim:
    return _rows_together(call) * _whole_vectors(call, dim(call.inputs[2].shape[3]))


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
            choose=_chosen(bodies.ATTENTION),
            views=("dims",),
            scratch=(Scratch(length=_scores_together), Scratch(length=_sums_together), Scratch(length=_rows_together)),
            cuda=cuda.attention,
        ),
    ),
)


# ---- batches first ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BatchAttentionAttrs:
    """``scale``: the factor of the products of queries and keys.

    ``zero_nan``: whether the weights of a query are 0 where they are NaN, such as those of a query with an infinite score.
    """

    scale: float = 1.0
    zero_nan: bool = False


def _batch_rule(dtypes: tuple[Any, ...], attrs: BatchAttentionAttrs) -> str:
    require("nn.batch_attention", dtypes[0], FLOATS, 0, "query")
    return require_same("nn.batch_attention", dtypes, (0, 1, 2), _INPUTS[:3])


#: Queries from which packing keys and values pays, measured with AVX-512 for 100 and 1,000 keys of 64 elements.
LEAST_QUERIES = 4


def _sizes(call: OpCall) -> tuple[Dim, Dim, Dim, Dim, Dim]:
    """Batches times heads, queries, keys, elements of a key, elements of a value."""
    batch, queries, heads, inner = call.inputs[0].shape
    return batch * heads, queries, call.inputs[2].shape[1], inner, call.inputs[2].shape[3]


def _are_many(call: OpCall) -> Conditions:
    return (condition(_sizes(call)[1], ">=", LEAST_QUERIES),)


def _bands_of_head(call: OpCall) -> Dim:
    return (_sizes(call)[1] + batches.BAND - 1) // batches.BAND


def _bands(call: OpCall) -> Dim:
    return _sizes(call)[0] * _bands_of_head(call)


def _work(call: OpCall) -> Dim:
    """Multiplications take one unit or two each, exponentials are taken for 10, packing for 8 queries."""
    count, queries, keys, inner, outer = _sizes(call)
    return 2 * count * (queries + 8) * keys * (inner + outer + 10)


def _scores(call: OpCall) -> Dim:
    """The scores of a band; rows are whole vectors."""
    width = panel_width(ITEMSIZE[call.dtypes[0]])
    return batches.BAND * ((_sizes(call)[2] + width - 1) // width * width)


def _panels(inner: int, columns: int) -> Scratch:
    """Room for a matrix in panels: the positions of its sizes in ``_sizes``."""

    def length(call: OpCall) -> Dim:
        sizes, width = _sizes(call), panel_width(ITEMSIZE[call.dtypes[0]])
        return (sizes[columns] + width - 1) // width * width * (sizes[inner] + 1)

    return Scratch(length=length)


#: The buffers of the tiles: queries, panels of keys and of values, scores of a band, weights; those of rows: scores, sums.
_OF_TILES = (
    Scratch(length=lambda call: batches.BAND * dim(_sizes(call)[3])),
    _panels(3, 2),
    _panels(2, 4),
    Scratch(length=_scores),
    Scratch(length=batches.BAND),
)
_OF_ROWS = (Scratch(length=lambda call: _sizes(call)[2]), Scratch(length=lambda call: _sizes(call)[4]))


def _on_cpus(tiles: dict[str, Any], rows: dict[str, Any], views_of_rows: tuple[str, ...], **attrs: Any) -> tuple[Kernel, Kernel]:
    """The implementations of attention with the batch as the first axis, by their bodies."""
    return (
        Kernel(
            "tiles",
            tiles[""],
            choose=_chosen(tiles),
            views=("dims",),
            takes=is_one_float,
            pays=_are_many,
            blocks=Blocks(_bands, _work, _bands_of_head),
            scratch=_OF_TILES,
            **attrs,
        ),
        Kernel("rows", rows[""], choose=_chosen(rows), views=views_of_rows, scratch=_OF_ROWS, **attrs),
    )


Op(
    name="nn.batch_attention",
    doc="`nn.attention` without a bias and with the batch as the first axis: `query[b, m, h, d]`, `key[b, n, h, d]`, "
    "`value[b, n, h, e]`: `[b, m, h, e]`.  With `zero_nan` a query whose weights are NaN has 0.  "
    "`nn.batch_attention([[[[1.0]]]], [[[[0.0]], [[0.0]]]], [[[[2.0]], [[4.0]]]]) = [[[[3.0]]]]`.  The compiler makes it of "
    "batched products around a softmax.",
    inputs=_INPUTS[:3],
    attrs=BatchAttentionAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_batch_rule,
    kernels=(
        *_on_cpus(batches.TILES, batches.ROWS, ("",), attrs=lambda attrs: {"scale": attrs.scale, "zero_nan": attrs.zero_nan}),
        Kernel("attention", None, cuda=cuda.batch_attention),
    ),
)


# ---- groups of heads, biases -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupedAttentionAttrs:
    """``scale``: the factor of the products of queries and keys; ``cap``: the bound of the scaled products, 0 for none.

    ``zero_nan``: whether the weights of a query are 0 where they are NaN, such as those of a query without a finite score.
    """

    scale: float = 1.0
    cap: float = 0.0
    zero_nan: bool = False


def _grouped_rule(dtypes: tuple[Any, ...], attrs: GroupedAttentionAttrs) -> str:
    require("nn.grouped_attention", dtypes[0], FLOATS, 0, "query")
    if not attrs.cap >= 0:
        raise TypeRelError(f"nn.grouped_attention: cap is {attrs.cap}; valid are numbers above 0, and 0 for none")
    return require_same("nn.grouped_attention", dtypes, (0, 1, 2, 3), _INPUTS)


Op(
    name="nn.grouped_attention",
    doc="`nn.batch_attention` in which groups of `h / g` heads share keys and values, with a bias: `query[b, m, h, d]`, "
    "`key[b, n, g, d]`, `value[b, n, g, e]`, `bias[b, h, m, n]`, of which each size may be 1: `[b, m, h, e]`.  The scores are "
    "`cap * tanh(scale * query . key / cap) + bias`; without `cap`, `scale * query . key + bias`.  "
    "`nn.grouped_attention([[[[1.0]]]], [[[[0.0]], [[0.0]]]], [[[[2.0]], [[4.0]]]], [[[[0.0, 0.0]]]]) = [[[[3.0]]]]`.  The "
    "compiler makes it on CPUs of batched products around a softmax.",
    inputs=_INPUTS,
    attrs=GroupedAttentionAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_grouped_rule,
    kernels=(
        *_on_cpus(grouped.TILES, grouped.ROWS, ("", "", "", "dims", "")),
        Kernel("plain", None, cuda=grouped_cuda.grouped_attention),
    ),
)
