"""Attention in which groups of heads share keys and values, with a cache of earlier positions."""

from __future__ import annotations

import itertools
import math

from .....declarations.frozen_dataclass import frozen
from .....ops.core.tensor_types import computed_in
from .....shape_funcs.symbolic.int_operations import INT64_MAX
from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import MICROSOFT, onnx_operator
from ..elementwise import number
from ..norms import normalised
from ..vectors import as_int64, extent, numbers
from .rotary import rotated

#: Attributes of forms that are not converted, with the values that change nothing.
_REFUSED = {"k_quant_type": "NONE", "v_quant_type": "NONE", "kv_cache_bit_width": 0, "sliding_window_cache": 0, "qk_output": 0}


@frozen
class _Sizes:
    """``groups``: the heads that share keys; ``shared``: the heads of keys and values; ``size``: of a head."""

    groups: int
    shared: int
    size: int


@frozen
class _Lengths:
    """Positions in the cache.

    ``total``: the largest number of positions of a row of the batch, a scalar.  ``last``: the last position of each row,
    ``[batch, 1]``.  ``queries``: the positions of the queries, ``[batch, positions]``.
    """

    total: Expr
    last: Expr
    queries: Expr


@frozen
class _Aligned(_Lengths):
    """Positions as columns of the cache, for texts that all end in its last column.

    ``last``: ``[1, 1]``.  ``queries``: ``[1, positions]``.  ``begin``: the column in which each text begins, ``[batch, 1]``.
    """

    begin: Expr


@onnx_operator("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(
    node: Node, query: Expr, key: Expr | None, value: Expr | None, past_key: Expr | None, past_value: Expr | None,
    last: Expr, total: Expr, cos: Expr | None, sin: Expr | None, positions: Expr | None, bias: Expr | None, sink: Expr | None,
    key_scale: Expr | None, value_scale: Expr | None, query_norm: Expr | None, key_norm: Expr | None, counts: Expr | None,
) -> list[Expr]:  # fmt: skip
    """The result ``[batch, positions, heads * size]``, and the caches with the new keys and values.

    A cache is as long as the past, or longer where the positions are: rows beyond a text are what they were, or 0.  The caches of
    texts that end in one column (``Values.right_aligned``) are the past, then the new keys and values.
    """
    for name, plain in _REFUSED.items():
        if node.attr(name, plain) != plain:
            raise node.error(
                f"the attribute {name} is {node.attr(name)!r}", "caches of the data's dtype and of whole texts are converted"
            )
    if counts is not None or key_scale is not None or value_scale is not None:
        raise node.error("padded parts of texts, query_seqlens, and scales of caches are not converted")
    sizes, (q, k, v) = _operands(node, query, key, value)
    if query_norm is not None and key_norm is not None:
        q, k = (_normalised(node, x, w, kind) for x, w, kind in ((q, query_norm, "q"), (k, key_norm, "k")))
    aligned = node.scope.values.right_aligned
    lengths = _aligned(node, q, past_key, last) if aligned else _lengths(node, q, last, total)
    if node.attr("do_rotary", 0):
        if cos is None or sin is None:
            raise node.error("do_rotary is 1 and there is no cos_cache and sin_cache", "give the tables of cosines and sines")
        at = _rotated_by(node, lengths) if positions is None else as_int64(node, positions)
        q, k = (rotated(node, x, at, (cos, sin), interleaved=bool(node.attr("rotary_interleaved", 0))) for x in (q, k))
    present = [_present(node, past, new, lengths) for past, new in ((past_key, k), (past_value, v))]
    is_whole = aligned or past_key is None
    keys, values = present if is_whole else (_begin(node, cache, lengths.total) for cache in present)
    return [_attended(node, sizes, (q, keys, values), lengths, bias, sink), *present]


# ---- operands ------------------------------------------------------------------------------------------------------------


def _operands(node: Node, query: Expr, key: Expr | None, value: Expr | None) -> tuple[_Sizes, list[Expr]]:
    """The sizes, and queries, keys and values as ``[batch, heads, positions, size]``."""
    heads, shared = int(node.required("num_heads")), int(node.required("kv_num_heads"))
    if min(heads, shared) < 1 or heads % shared:
        raise node.error(f"{heads} heads do not share the keys of {shared} heads", "kv_num_heads divides num_heads")
    if (key is None) != (value is None):
        raise node.error("it has keys or values, not both", "give both, or all in the rows of the queries")
    columns, width = heads if key is not None else heads + 2 * shared, node.size(query, 2)
    if width is None or width % columns:
        raise node.error(
            f"rows of queries have {width} numbers", f"the number is known at import and divisible by {columns} heads"
        )
    sizes = _Sizes(heads // shared, shared, width // columns)
    rows = [query, key, value]
    if key is None:
        ends = [0, heads, heads + shared, columns]
        rows = [relay.strided_slice(query, [a * sizes.size], [b * sizes.size], [1], [2]) for a, b in itertools.pairwise(ends)]
    split = []
    for row, count in zip(rows, (heads, shared, shared), strict=True):
        assert row is not None
        by_head = relay.reshape(node.bind(row), [0, 0, count, sizes.size])
        split.append(node.bind(relay.transpose(node.bind(by_head), [0, 2, 1, 3])))
    return sizes, split


def _normalised(node: Node, x: Expr, weight: Expr, kind: str) -> Expr:
    """The heads divided by their root mean square."""
    epsilon = node.attr(f"{kind}_norm_epsilon", node.attr("qk_norm_epsilon", 1e-6))
    return node.bind(normalised(node, x, weight, None, [3], epsilon, centred=False)[0])


def _lengths(node: Node, query: Expr, last: Expr, total: Expr) -> _Lengths:
    """The positions; where there are as many queries as positions, a text begins, and shorter rows are padded at their end."""
    count, zero, one = extent(query, 2), const(0, "int64"), const(1, "int64")
    whole = node.bind(relay.reshape(as_int64(node, total), []))
    last = node.bind(relay.reshape(as_int64(node, last), [-1, 1]))
    before = relay.where(relay.equal(whole, count), zero, relay.subtract(relay.add(last, one), count))
    return _Lengths(whole, last, node.bind(relay.add(relay.arange(zero, count, one, dtype="int64"), before)))


def _aligned(node: Node, query: Expr, past: Expr | None, last: Expr) -> _Aligned:
    """The columns, by the sizes of the past and the queries: a text that is ``last + 1`` long ends in the last column."""
    count, zero, one = extent(query, 2), const(0, "int64"), const(1, "int64")
    before = zero if past is None else node.bind(extent(past, 2))
    total = node.bind(relay.add(before, count))
    lengths = node.bind(relay.add(relay.reshape(as_int64(node, last), [-1, 1]), one))
    columns = node.bind(relay.expand_dims(relay.add(relay.arange(zero, count, one, dtype="int64"), before), 0))
    end = relay.reshape(relay.subtract(total, one), [1, 1])
    return _Aligned(total, node.bind(end), columns, node.bind(relay.subtract(total, lengths)))


def _rotated_by(node: Node, lengths: _Lengths) -> Expr:
    """The positions of the queries in their texts, ``[batch, positions]``; 0 before a text."""
    if not isinstance(lengths, _Aligned):
        return lengths.queries
    return node.bind(relay.maximum(relay.subtract(lengths.queries, lengths.begin), const(0, "int64")))


# ---- the cache -----------------------------------------------------------------------------------------------------------


def _present(node: Node, past: Expr | None, new: Expr, lengths: _Lengths) -> Expr:
    """The cache with the new rows, each at its position; it grows where positions lie beyond its end."""
    if past is None:
        return new
    if isinstance(lengths, _Aligned):
        return node.bind(relay.concatenate([past, new], 2))
    before, missing = past, node.bind(relay.subtract(lengths.total, extent(past, 2)))

    def longer(inner: Node) -> Expr:
        sizes = relay.strided_slice(relay.shape_of(new, dtype="int64"), [0], [2]), relay.reshape(missing, [1])
        shape = inner.bind(relay.concatenate([*sizes, numbers([node.size(new, 3) or 0])], 0))
        return relay.concatenate([before, inner.bind(relay.zeros(shape, node.dtype(before)))], 2)

    extended = node.choose(relay.greater(missing, const(0, "int64")), longer, lambda _: before)
    at = relay.expand_dims(relay.expand_dims(lengths.queries, 1), 3)
    return node.bind(relay.scatter_elements(extended, node.bind(relay.broadcast_to_like(at, new)), new, 2, "update"))


def _begin(node: Node, cache: Expr, count: Expr) -> Expr:
    """The first positions of a cache, which is not copied where it has no others."""

    def shorter(inner: Node) -> Expr:
        end = [const([INT64_MAX] * n, "int64") for n in (2, 1)]
        bounds = relay.concatenate([end[0], relay.reshape(count, [1]), end[1]], 0)
        return relay.dyn.strided_slice(cache, numbers([0] * 4), inner.bind(bounds), numbers([1] * 4))

    return node.choose(relay.less(count, extent(cache, 2)), shorter, lambda _: cache)


# ---- attention -----------------------------------------------------------------------------------------------------------


def _attended(
    node: Node, sizes: _Sizes, operands: tuple[Expr, Expr, Expr], lengths: _Lengths, bias: Expr | None, sink: Expr | None
) -> Expr:
    """The values weighted by the softmax of the products, ``[batch, positions, heads * size]``.

    Rows of queries that share keys are rows of one product, so that keys and values are not repeated.
    """
    query, keys, values = operands
    dtype, heads = node.dtype(query), sizes.shared * sizes.groups
    keys_of, values_of = (node.bind(relay.reshape(x, [-3, -2])) for x in (keys, values))
    product = node.bind(relay.nn.batch_matmul(_grouped(node, query, sizes), keys_of, transpose_b=True))
    scores = relay.multiply(_by_head(node, product, sizes), number(node.attr("scale", 0.0) or 1 / math.sqrt(sizes.size), dtype))
    if cap := node.attr("softcap", 0.0):
        scores = relay.multiply(relay.tanh(relay.multiply(scores, number(1 / cap, dtype))), number(cap, dtype))
    if bias is not None:
        scores = relay.add(scores, bias)
    weights = node.bind(_weights(node, node.bind(_visible(node, scores, keys, lengths)), heads, sink))
    found = node.bind(relay.nn.batch_matmul(_grouped(node, weights, sizes), values_of, transpose_b=False))
    return relay.reshape(relay.transpose(_by_head(node, found, sizes), [0, 2, 1, 3]), [0, 0, -3])


def _grouped(node: Node, x: Expr, sizes: _Sizes) -> Expr:
    """``[batch, heads, positions, n]`` as ``[batch * shared, groups * positions, n]``."""
    for shape in ([-3, 0, 0], [-4, -1, sizes.groups, 0, 0], [0, -3, 0]):
        x = node.bind(relay.reshape(x, shape))
    return x


def _by_head(node: Node, x: Expr, sizes: _Sizes) -> Expr:
    """The inverse of ``_grouped``."""
    for shape in ([0, -4, sizes.groups, -1, 0], [-3, 0, 0], [-4, -1, sizes.shared * sizes.groups, 0, 0]):
        x = node.bind(relay.reshape(x, shape))
    return x


def _visible(node: Node, scores: Expr, keys: Expr, lengths: _Lengths) -> Expr:
    """The scores of keys that a query may see; the others are -inf."""
    at = relay.arange(const(0, "int64"), extent(keys, 2), const(1, "int64"), dtype="int64")
    limit = lengths.queries if node.attr("causal", 1) else lengths.last
    own = node.bind(relay.expand_dims(relay.expand_dims(limit, 1), 3))  # [batch, 1, positions or 1, 1]
    seen = relay.less_equal(at, own)
    if isinstance(lengths, _Aligned):  # a query before its text sees itself: the softmax of nothing is NaN
        begin = node.bind(relay.expand_dims(relay.expand_dims(lengths.begin, 1), 3))
        seen = relay.logical_and(seen, relay.greater_equal(at, relay.minimum(begin, own)))
    if (window := node.attr("local_window_size", -1)) >= 0:
        seen = relay.logical_and(seen, relay.greater(at, relay.subtract(own, const(window, "int64"))))
    return relay.where(seen, scores, number(-math.inf, node.dtype(keys)))


def _weights(node: Node, scores: Expr, heads: int, sink: Expr | None) -> Expr:
    """The softmax; with a sink, or smooth, its sums have a term more, the exponential of the sink or of 0."""
    if sink is None and not node.attr("smooth_softmax", 0):
        return relay.nn.softmax(scores, axis=-1)
    dtype = node.dtype(scores)
    compute = computed_in(dtype)
    term = number(0, compute) if sink is None else relay.reshape(relay.cast(sink, compute), [heads, 1, 1])
    wide = relay.cast(scores, compute)
    most = node.bind(relay.maximum(relay.max(wide, axis=-1, keepdims=True), term))
    powers = node.bind(relay.exp(relay.subtract(wide, most)))
    sums = relay.add(relay.sum(powers, axis=-1, keepdims=True), relay.exp(relay.subtract(term, most)))
    return relay.cast(relay.divide(powers, sums), dtype)
