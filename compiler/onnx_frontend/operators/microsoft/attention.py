"""Attention with several heads."""

from __future__ import annotations

import math

from .....declarations.frozen_dataclass import frozen
from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import MICROSOFT, onnx_operator
from ..elementwise import number
from ..vectors import extent


@frozen
class _Heads:
    """The operands: ``[batch, heads, positions, size]``; keys and values of earlier positions come first."""

    query: Expr
    key: Expr
    value: Expr


def _split(node: Node, x: Expr, heads: int) -> Expr:
    """``[batch, positions, heads * size]`` by head."""
    width = node.size(x, 2)
    if width is None or width % heads:
        raise node.error(f"the size of the last axis must be known at import and divisible by the {heads} heads")
    return relay.transpose(relay.reshape(x, [0, 0, heads, width // heads]), [0, 2, 1, 3])


def _merged(x: Expr) -> Expr:
    """``[batch, positions, heads * size]`` of all heads."""
    return relay.reshape(relay.transpose(x, [0, 2, 1, 3]), [0, 0, -3])


def _products(node: Node, a: Expr, b: Expr, transpose_b: bool) -> Expr:
    """The products of the matrices of each batch and head."""
    flat = [relay.reshape(x, [-3, -2]) for x in (a, b)]
    product = node.bind(relay.nn.batch_matmul(*flat, transpose_b=transpose_b))
    return relay.reshape_like(product, a, 0, 1, 0, 2)


def _attended(node: Node, heads: _Heads, additions: list[Expr]) -> Expr:
    """The values weighted by the softmax of the scaled products and the additions, heads merged."""
    size, dtype = node.size(heads.query, 3), node.dtype(heads.query)
    if not size:
        raise node.error("the size of a head must be known at import")
    scale = node.attr("scale", 0.0) or 1 / math.sqrt(size)
    scores = relay.multiply(_products(node, heads.query, heads.key, True), number(scale, dtype))
    for addition in additions:
        scores = relay.add(scores, addition)
    return _merged(_products(node, node.bind(relay.nn.softmax(scores, axis=-1)), heads.value, False))


def _masks(node: Node, heads: _Heads, mask: Expr | None, bias: Expr | None, before: Expr) -> list[Expr]:
    """Terms added to the products: the filter value where the mask, or the order of positions, excludes a key; the bias.

    ``before``: the number of keys before those of the queries.
    """
    dtype, zero = node.dtype(heads.query), const(0, "int64")
    out = number(node.attr("mask_filter_value", -10000.0), dtype)
    kept_value, one = number(0, dtype), const(1, "int64")
    keys = relay.arange(zero, extent(heads.key, 2), one, dtype="int64")
    additions = [] if bias is None else [bias]
    if mask is not None:
        additions.append(relay.where(_kept(node, heads, mask, keys), kept_value, out))
    if node.attr("unidirectional", 0):
        queries = relay.arange(zero, extent(heads.query, 2), one, dtype="int64")
        last = relay.expand_dims(relay.add(queries, before), 1)
        visible = relay.less_equal(relay.expand_dims(keys, 0), last)
        additions.append(relay.where(visible, kept_value, number(_LEAST, dtype)))
    return additions


#: Added where a query may not see a key: the softmax of the sum is 0.
_LEAST = -60000.0


def _kept(node: Node, heads: _Heads, mask: Expr, keys: Expr) -> Expr:
    """Whether a key takes part, broadcast to ``[batch, heads, queries, keys]``."""
    rank = node.rank(mask)
    if rank == 1:
        return _between(node, heads, mask, keys)
    if rank not in (2, 3):
        raise node.error(f"a mask of rank {rank} has no meaning here; the ranks are 1, 2 and 3")
    kept = relay.not_equal(mask, const(0, node.dtype(mask)))
    return relay.expand_dims(kept, 1, 2) if rank == 2 else relay.expand_dims(kept, 1)


def _between(node: Node, heads: _Heads, ends: Expr, keys: Expr) -> Expr:
    """Whether a key is before the end of its text, and not before its begin where the begins follow the ends of all texts."""
    same = node.shape(ends)[0] is node.shape(heads.query)[0]
    count, batch = node.size(ends, 0), node.size(heads.query, 0)
    if not same and (count is None or batch is None or count not in (batch, 2 * batch)):
        raise node.error("a mask of rank 1 must have one number for each batch, or two")
    if same or count == batch:
        return relay.less(keys, relay.reshape(relay.cast(ends, "int64"), [-1, 1, 1, 1]))
    both = node.bind(relay.reshape(relay.cast(ends, "int64"), [2, -1, 1, 1, 1]))
    end, begin = (relay.squeeze(relay.strided_slice(both, [k], [k + 1], [1], [0]), [0]) for k in (0, 1))
    return relay.logical_and(relay.less(keys, end), relay.greater_equal(keys, begin))


def _after(past: Expr | None, x: Expr) -> Expr:
    return x if past is None else relay.concatenate([past, x], 2)


@onnx_operator("Attention", domain=MICROSOFT)
def attention(
    node: Node, x: Expr, weights: Expr, bias: Expr | None, mask: Expr | None, past: Expr | None, addition: Expr | None,
    past_length: Expr | None,
) -> list[Expr]:  # fmt: skip
    """Masks: the number of keys by batch, also before the first of them; or 0 and 1 by batch and key, or batch, query and key."""
    if past_length is not None:
        raise node.error("buffers that are shared by past and present are not converted")
    product = relay.nn.matmul(x, weights)
    return attended_rows(node, product if bias is None else relay.add(product, bias), mask, past, addition)


def attended_rows(node: Node, product: Expr, mask: Expr | None, past: Expr | None, addition: Expr | None) -> list[Expr]:
    """Attention of queries, keys and values in the rows of a product, and all keys and values."""
    if node.attr("do_rotary", 0) or node.attr("past_present_share_buffer", 0):
        raise node.error("buffers that are shared by past and present, and rotary embeddings within it, are not converted")
    product = node.bind(product)
    heads, width = node.required("num_heads"), node.size(product, 2)
    sizes = node.attr("qkv_hidden_sizes") or ([width // 3] * 3 if width is not None else None)
    if sizes is None:
        raise node.error("the size of the weights must be known at import")
    ends = [sum(sizes[: k + 1]) for k in range(3)]
    parts = [relay.strided_slice(product, [e - n], [e], [1], [2]) for e, n in zip(ends, sizes, strict=True)]
    query, key, value = (node.bind(_split(node, part, heads)) for part in parts)
    earlier: list[Expr | None] = [None, None]
    if past is not None:
        earlier = [relay.squeeze(relay.strided_slice(past, [k], [k + 1]), [0]) for k in (0, 1)]
    key, value = (node.bind(_after(p, e)) for p, e in zip(earlier, (key, value), strict=True))
    made = _Heads(query, key, value)
    before = relay.subtract(extent(key, 2), extent(query, 2))
    result = _attended(node, made, _masks(node, made, mask, addition, before))
    return [result, relay.stack([key, value], 0)] if len(node.outputs) > 1 else [result]


@onnx_operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    node: Node, query: Expr, key: Expr | None, value: Expr | None, bias: Expr | None, mask: Expr | None, addition: Expr | None,
    past_key: Expr | None, past_value: Expr | None, past_length: Expr | None, cache: Expr | None,
) -> list[Expr]:  # fmt: skip
    """Queries, keys and values apart or packed; keys and values also by head already. Masks as of `Attention`."""
    if past_length is not None or cache is not None:
        raise node.error("buffers that are shared by past and present are not converted")
    heads = node.required("num_heads")
    made = _biased_heads(node, *_apart(node, query, key, value), bias, heads)
    key, value = (node.bind(_after(p, e)) for p, e in ((past_key, made.key), (past_value, made.value)))
    made = _Heads(made.query, key, value)
    before = relay.subtract(extent(key, 2), extent(made.query, 2))
    result = _attended(node, made, _masks(node, made, mask, addition, before))
    return [result, key, value]


@onnx_operator("PackedMultiHeadAttention", domain=MICROSOFT)
def packed_multi_head_attention(
    node: Node, query: Expr, key: Expr | None, value: Expr | None, bias: Expr | None, offsets: Expr, ends: Expr,
    addition: Expr | None,
) -> Expr:  # fmt: skip
    """Rows of all texts one after the other; texts of other lengths are columns of a batch inside."""
    heads = node.required("num_heads")
    if node.rank(query) == 4:  # [rows, heads, 3, size]
        width = heads * (node.size(query, 3) or 0)
        query, key, value = (node.bind(relay.reshape(relay.take(query, k, axis=2), [-1, width])) for k in range(3))
    if key is None or value is None:
        raise node.error("it has queries and no keys or values")
    sizes = node.bind(relay.shape_of(offsets, dtype="int64"))
    count = node.bind(relay.reshape(relay.strided_slice(relay.shape_of(query, dtype="int64"), [0], [1]), [1]))
    flat = node.bind(relay.reshape(offsets, [-1]))
    rows = node.bind(relay.strided_slice(flat, const([0], "int64"), count, const([1], "int64")))

    def spread(x: Expr) -> Expr:
        width = node.size(x, 1)
        if width is None:
            raise node.error("the size of the last axis must be known at import")
        whole = relay.concatenate([relay.reshape(relay.prod(sizes), [1]), const([width], "int64")], 0)
        padded = relay.scatter_nd(relay.zeros(whole, node.dtype(x)), relay.expand_dims(rows, 0), x)
        return node.bind(relay.reshape(padded, relay.concatenate([sizes, const([width], "int64")], 0)))

    made = _biased_heads(node, spread(query), spread(key), spread(value), bias, heads)
    end = [relay.strided_slice(ends, [k], [n], [1], [0]) for k, n in ((1, _ALL), (0, -1))]
    lengths = node.bind(relay.reshape(relay.cast(relay.subtract(*end), "int64"), [-1, 1, 1, 1]))
    keys = relay.arange(const(0, "int64"), extent(made.key, 2), const(1, "int64"), dtype="int64")
    dtype = node.dtype(made.query)
    hidden = number(node.attr("mask_filter_value", -10000.0), dtype)
    terms = [relay.where(relay.less(keys, lengths), number(0, dtype), hidden)]
    found = node.bind(_attended(node, made, terms if addition is None else [*terms, addition]))
    return relay.take(relay.reshape(found, [-3, 0]), rows, axis=0, mode="fast")


#: The end of a slice without one.
_ALL = 2**63 - 1


def _apart(node: Node, query: Expr, key: Expr | None, value: Expr | None) -> tuple[Expr, Expr, Expr]:
    """The operands, ``[batch, positions, heads * size]``; keys and values that come by head stay."""
    if node.rank(query) == 5:  # [batch, positions, heads, 3, size]
        parts = [_packed(node, query, k) for k in range(3)]
        return parts[0], parts[1], parts[2]
    if key is None:
        return query, query, query
    if node.rank(key) == 5:  # [batch, positions, heads, 2, size]
        return query, _packed(node, key, 0), _packed(node, key, 1)
    if value is None:
        raise node.error("it has keys and no values")
    return query, key, value


def _packed(node: Node, x: Expr, part: int) -> Expr:
    taken = relay.squeeze(relay.strided_slice(x, [part], [part + 1], [1], [3]), [3])
    return node.bind(relay.reshape(taken, [0, 0, -3]))


def _biased_heads(node: Node, query: Expr, key: Expr, value: Expr, bias: Expr | None, heads: int) -> _Heads:
    """The operands by head, each with its part of the bias."""
    begin, parts = 0, []
    for x in (query, key, value):
        if node.rank(x) == 4:
            parts.append(x)
            continue
        if bias is not None:
            width = node.size(x, 2)
            if width is None:
                raise node.error("the size of the last axis must be known at import")
            x = relay.add(x, relay.strided_slice(bias, [begin], [begin + width]))
            begin += width
        parts.append(node.bind(_split(node, node.bind(x), heads)))
    return _Heads(*parts)
