"""Layers of LSTM and GRU, by the converters of ONNX's: the gates stand in another order there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ...onnx_frontend.operators.recurrent import layers
from ..operator_table import aten
from ..torch_node import TorchNode, with_attributes

#: For each gate of ONNX's order, its number in torch's: input, output, forget, cell; update, reset, new.
_LSTM, _GRU = (0, 3, 1, 2), (1, 0, 2)


def _in_order(node: TorchNode, x: Expr, order: Sequence[int]) -> Any:
    """The parts of the first axis in another order."""
    parts = relay.split(x, len(order), axis=0)
    return node.bind(relay.concatenate([parts[k] for k in order], 0))


def _of_layer(node: TorchNode, params: Sequence[Expr], order: Sequence[int], has_biases: bool) -> list[Expr | None]:
    """The weights, recurrent weights and biases of a layer, its directions along the first axis."""
    each = 4 if has_biases else 2
    directions = [params[k : k + each] for k in range(0, len(params), each)]
    found: list[Expr | None] = []
    for number in range(2):
        found.append(node.bind(relay.stack([_in_order(node, d[number], order) for d in directions], 0)))
    if not has_biases:
        return [*found, None]
    both = [node.bind(relay.concatenate([_in_order(node, d[k], order) for k in (2, 3)], 0)) for d in directions]
    return [*found, node.bind(relay.stack(both, 0))]


def _layers(
    node: TorchNode, convert: Callable[..., list[Expr]], x: Expr, states: Sequence[Expr], params: Sequence[Expr],
    order: Sequence[int], options: tuple[bool, int, float, bool, bool, bool], **attributes: Any,
) -> list[Any]:  # fmt: skip
    """The result and the last states of all layers.  ``options``: those of the schema, in its order."""
    has_biases, count, dropout, train, both_ways, batch_first = options
    if train and dropout:
        raise node.error("it drops elements; programs here are run, not trained", "export the module after .eval()")
    if node.rank(x) != 3:
        raise node.error(f"the data have rank {node.rank(x)}, not 3")
    view = with_attributes(node, direction="bidirectional" if both_ways else "forward", **attributes)
    x = node.bind(relay.transpose(x, [1, 0, 2])) if batch_first else x
    ways, last = 2 if both_ways else 1, [list[Expr]() for _ in states]
    each = len(params) // count
    for layer in range(count):
        weights = _of_layer(node, params[layer * each : (layer + 1) * each], order, has_biases)
        given = [node.bind(relay.strided_slice(s, [layer * ways], [(layer + 1) * ways], [1], [0])) for s in states]
        out, *ends = convert(view, x, *weights, None, *given)
        # steps, directions, batch, units
        x = node.bind(relay.reshape(relay.transpose(out, [0, 2, 1, 3]), [0, 0, -3]))
        for state, end in zip(last, ends, strict=True):
            state.append(node.bind(end))
    x = node.bind(relay.transpose(x, [1, 0, 2])) if batch_first else x
    return [x, *(node.bind(relay.concatenate(state, 0)) if count > 1 else state[0] for state in last)]


@aten("lstm.input")
def lstm(
    node: TorchNode, x: Expr, states: Sequence[Expr], params: Sequence[Expr], has_biases: bool, count: int, dropout: float,
    train: bool, both_ways: bool, batch_first: bool,
) -> list[Any]:  # fmt: skip
    options = (has_biases, count, dropout, train, both_ways, batch_first)
    hidden = node.sizes(params[1])[1]
    return _layers(node, _lstm, x, states, params, _LSTM, options, hidden_size=hidden)


def _lstm(node: TorchNode, x: Expr, weight: Expr, recurrent: Expr, bias: Expr | None, lengths: None, *states: Expr) -> list[Any]:
    return layers.lstm(node, x, weight, recurrent, bias, lengths, states[0], states[1], None)


@aten("gru.input")
def gru(
    node: TorchNode, x: Expr, state: Expr, params: Sequence[Expr], has_biases: bool, count: int, dropout: float, train: bool,
    both_ways: bool, batch_first: bool,
) -> list[Any]:  # fmt: skip
    options = (has_biases, count, dropout, train, both_ways, batch_first)
    hidden = node.sizes(params[1])[1]
    return _layers(node, layers.gru, x, [state], params, _GRU, options, hidden_size=hidden, linear_before_reset=1)
