"""Linear attention: a state for each head, a matrix that every position decays, corrects and reads.

The standard gives a body, whose last reshape infers a size: a sequence of no positions has no result there.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...loops import Round, loop
from ...node import Node
from ...operator_table import onnx_operator
from ...run_time_checks import check_lengths
from ..elementwise import number
from ..vectors import extent

#: Whether a rule decays the state, and whether it corrects the value by the state's.
_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
_DEFAULT_RULE = "gated_delta"


@onnx_operator("LinearAttention", since=27)
def linear_attention(
    node: Node, query: Expr, key: Expr, value: Expr, past: Expr | None, decay: Expr | None, beta: Expr | None
) -> list[Expr]:
    heads, groups = _heads(node)
    _check_rule(node, decay, beta)
    if past is not None:
        check_lengths(node, past, query, "past_state has {} sequences, the query has {}")
    queries = _by_position(node, query, heads, groups)
    keys, values = (_by_position(node, x, heads) for x in (key, value))
    gate = None if decay is None else _by_position(node, decay, heads)
    rate = None if beta is None else _by_position(node, relay.expand_dims(beta, -1))
    scale = _scale(node, keys)

    def body(inner: Node, index: Expr, _: Expr, states: Sequence[Expr]) -> Round:
        q, k, v, g, b = (
            None if x is None else inner.bind(relay.take(x, index, axis=0, mode="fast"))
            for x in (queries, keys, values, gate, rate)
        )
        state = states[0]
        if g is not None:
            state = relay.multiply(state, relay.exp(relay.expand_dims(g, -1)))
        column = inner.bind(relay.expand_dims(k, -1))
        if b is not None:
            found = relay.sum(relay.multiply(state, column), axis=[2])
            v = relay.multiply(b, relay.subtract(v, found))
        state = inner.bind(relay.add(state, relay.multiply(column, relay.expand_dims(v, 2))))
        read = relay.sum(relay.multiply(relay.expand_dims(state, 2), relay.expand_dims(q, -1)), axis=[3])
        return Round(None, [state], [relay.multiply(scale, read)])

    first = _first(node, query, keys, values, heads) if past is None else relay.cast(past, "float32")
    finals, collected = loop(node, extent(queries, 0), None, [first], body)
    shape = _sizes(node, extent(query, 0), extent(query, 1), relay.multiply(extent(values, 3), const(heads * groups, "int64")))
    whole = relay.reshape(relay.transpose(collected[0], [1, 0, 2, 3, 4]), shape, allowzero=True)
    return [relay.cast(whole, node.dtype(query)), relay.cast(finals[0], node.dtype(query if past is None else past))]


def _check_rule(node: Node, decay: Expr | None, beta: Expr | None) -> None:
    """Check that the inputs are those of the update rule.  Raises ModelError."""
    decays, corrects = node.choice("update_rule", _RULES, _DEFAULT_RULE)
    rule = node.attr("update_rule", _DEFAULT_RULE)
    for name, given, wanted in (("decay", decay, decays), ("beta", beta, corrects)):
        if (given is not None) is not wanted:
            raise node.error(f"the update rule {rule} {'needs' if wanted else 'has no'} {name}")


def _heads(node: Node) -> tuple[int, int]:
    """The number of heads of keys and values, and the number of query heads that share each.  Raises ModelError."""
    of_queries, heads = node.required("q_num_heads"), node.required("kv_num_heads")
    if heads <= 0 or of_queries <= 0 or of_queries % heads:
        raise node.error(f"q_num_heads is {of_queries}, which is no positive multiple of kv_num_heads, {heads}")
    return heads, of_queries // heads


def _by_position(node: Node, x: Expr, *splits: int) -> Expr:
    """``[batch, positions, width]`` in float32 with the positions first; each number splits the last axis into so many parts."""
    rank = node.rank(x)
    for parts in splits:
        x = relay.reshape(x, [*[0] * (rank - 1), -4, parts, -1])
        rank += 1
    return node.bind(relay.cast(relay.transpose(x, [1, 0, *range(2, rank)]), "float32"))


def _scale(node: Node, keys: Expr) -> Expr:
    """The factor of the results: as given, or the reciprocal of the root of a key's size."""
    given = node.attr("scale", 0.0)
    return number(given, "float32") if given else relay.rsqrt(relay.cast(extent(keys, 3), "float32"))


def _first(node: Node, query: Expr, keys: Expr, values: Expr, heads: int) -> Expr:
    """A state of zeros ``[batch, heads, size of a key, size of a value]``."""
    shape = _sizes(node, extent(query, 0), const(heads, "int64"), extent(keys, 3), extent(values, 3))
    return relay.broadcast_to(number(0, "float32"), shape)


def _sizes(node: Node, *sizes: Expr) -> Expr:
    return node.bind(relay.stack(list(sizes), 0))
