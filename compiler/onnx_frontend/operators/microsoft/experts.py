"""Mixtures of experts: each row is computed by the few experts that its router chooses (Shazeer and others, arXiv:1701.06538)."""

from __future__ import annotations

import math
from collections.abc import Callable

from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr, TupleGetItem
from ...node import Node
from ...operator_table import MICROSOFT, onnx_operator
from ..elementwise import gelu_of, number

#: The activations between the products of an expert; ``swiglu`` has a gate beside.
_ACTIVATIONS: dict[str, Callable[[Node, Expr], Expr]] = {
    "relu": lambda _, x: relay.nn.relu(x),
    "gelu": lambda node, x: gelu_of(node, x, is_tanh=False),
    "silu": lambda _, x: relay.multiply(x, relay.sigmoid(x)),
    "identity": lambda _, x: x,
}
_GATED = "swiglu"


#: The product and the bias of a layer of an expert, of 0, 1 and 2 for FC1, FC2 and FC3; None for a layer that there is not.
Layer = Callable[[Expr], Expr]
LayerOf = Callable[[int, int], Layer | None]


@onnx_operator("MoE", domain=MICROSOFT)
def mixture_of_experts(
    node: Node, x: Expr, router: Expr, first: Expr, first_bias: Expr | None, second: Expr, second_bias: Expr | None,
    third: Expr | None, third_bias: Expr | None,
) -> Expr:  # fmt: skip
    """Each expert multiplies its rows alone: their number is known at run time.  `gelu` is by the error function."""
    layers = ((first, first_bias), (second, second_bias), (third, third_bias))
    return mixture(node, x, router, None, node.size(first, 0), lambda number, expert: _layer(node, layers[number], expert))


def mixture(node: Node, x: Expr, router: Expr, mixing: Expr | None, experts: int | None, layer: LayerOf) -> Expr:
    """The sums of what the chosen experts make of each row.

    ``mixing``: the weights of the experts, ``[rows, experts]``; None: those by which they are chosen.
    """
    activation = node.attr("activation_type", "relu")
    if activation not in (*_ACTIVATIONS, _GATED):
        raise node.error(f"the activation {activation!r} is not converted", f"one of {', '.join([*_ACTIVATIONS, _GATED])}")
    for name in ("use_sparse_mixer", "swiglu_limit_after_activation"):
        if node.attr(name, 0):
            raise node.error(f"{name} is {node.attr(name)}", "softmax routes, and limits are before the activation")
    inner = node.size(x, -1)
    if not experts or not inner:
        raise node.error("the number of experts and the size of a row must be known at import")
    rows = node.bind(relay.reshape(x, [-1, inner]))
    weights, chosen = _routed(node, router, mixing, experts)
    result = node.bind(relay.zeros_like(rows))
    for expert in range(experts):
        at = node.bind(relay.argwhere(relay.equal(chosen, const(expert, node.dtype(chosen)))))  # [uses, 2]: row, choice
        points = node.bind(relay.transpose(at, [1, 0]))
        own = node.bind(relay.strided_slice(points, [0], [1], [1], [0]))
        taken = node.bind(relay.take(rows, node.bind(relay.reshape(own, [-1])), axis=0, mode="fast"))
        made = _expert(node, taken, [layer(number, expert) for number in range(3)], activation)
        part = node.bind(relay.expand_dims(node.bind(relay.gather_nd(weights, points)), 1))
        result = node.bind(relay.scatter_nd(result, own, node.bind(relay.multiply(made, part)), "add"))
    return relay.reshape_like(result, x)


def _routed(node: Node, router: Expr, mixing: Expr | None, experts: int) -> tuple[Expr, Expr]:
    """The weights and the numbers of the chosen experts of each row, ``[rows, k]``."""
    count, dtype = int(node.attr("k", 1)), node.dtype(router)
    if not 0 < count <= experts:
        raise node.error(f"k is {count}; a row is computed by 1 to {experts} experts")
    parts = node.bind(relay.nn.softmax(router, axis=-1))
    top = node.bind(relay.topk(parts, k=count, axis=-1, ret_type="both"))
    weights, chosen = (node.bind(TupleGetItem(top, k)) for k in (0, 1))
    if mixing is not None:
        weights = node.bind(relay.gather(mixing, 1, chosen))
    if node.attr("normalize_routing_weights", 0):
        sums = relay.sum(weights, axis=[-1], keepdims=True)
        weights = node.bind(relay.divide(weights, relay.where(relay.equal(sums, number(0, dtype)), number(1, dtype), sums)))
    return weights, chosen


def _expert(node: Node, rows: Expr, layers: list[Layer | None], activation: str) -> Expr:
    """The rows after both products of an expert."""
    first, second, third = layers
    assert first is not None and second is not None
    hidden = first(rows)
    if activation == _GATED:
        hidden = node.bind(_gated(node, hidden, None if third is None else third(rows)))
    else:
        hidden = _ACTIVATIONS[activation](node, hidden)
        hidden = node.bind(hidden if third is None else relay.multiply(hidden, third(rows)))
    return second(hidden)


def _layer(node: Node, layer: tuple[Expr | None, Expr | None], expert: int) -> Layer | None:
    """The product with the weight of an expert, and its bias; None without a weight."""
    weight, bias = (None if part is None else part_of(node, part, expert) for part in layer)
    if weight is None:
        return None

    def product(x: Expr) -> Expr:
        found = relay.nn.dense(x, weight)
        return node.bind(found if bias is None else relay.add(found, bias))

    return product


def part_of(node: Node, stack: Expr, expert: int) -> Expr:
    """The tensor of an expert."""
    known = node.constant(stack)
    if known is not None:
        return const(known[expert])
    return node.bind(relay.squeeze(node.bind(relay.strided_slice(stack, [expert], [expert + 1], [1], [0])), [0]))


def _gated(node: Node, hidden: Expr, linear: Expr | None) -> Expr:
    """``g * sigmoid(alpha * g) * (l + beta)``: both in rows of ``hidden``, side by side or pair by pair, or ``l`` apart."""
    dtype, width, fusion = node.dtype(hidden), node.size(hidden, 1), node.attr("swiglu_fusion", 0)
    alpha, beta = node.attr("activation_alpha", 1.0), node.attr("activation_beta", 0.0)
    if (linear is None) != (fusion in (1, 2)) or width is None:
        raise node.error(f"swiglu_fusion is {fusion}", "1 or 2 for gates in the rows of FC1, 0 for gates of FC3")
    if linear is None:
        begin, end, step = (1, width, 2) if fusion == 1 else (width // 2, width // 2, 1)
        bounds = ([0], [end], [step], [1]), ([begin], [width], [step], [1])
        hidden, linear = (node.bind(relay.strided_slice(hidden, *bound)) for bound in bounds)
    limit = node.attr("swiglu_limit", math.inf)
    if math.isfinite(limit):
        hidden = relay.minimum(hidden, number(limit, dtype))
        linear = relay.clip(linear, -limit, limit)
    hidden = node.bind(hidden)
    gate = relay.multiply(hidden, relay.sigmoid(relay.multiply(hidden, number(alpha, dtype))))
    return relay.multiply(gate, relay.add(linear, number(beta, dtype)) if beta else linear)
