"""Recurrent layers: the products of all inputs at once, then the operator of the recurrence."""

from __future__ import annotations

from typing import Any

from .....declarations.frozen_dataclass import frozen
from .....ops.core.tensor_types import HALVES
from .....ops.kernels.recurrence.activations import ACTIVATIONS
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr, TupleGetItem
from ...node import Node
from ...operator_table import onnx_operator
from ..elementwise import number
from ..vectors import numbers

#: The activations that take an alpha, and those that take a beta.
_WITH_ALPHA = ("Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu")
_WITH_BETA = ("Affine", "ScaledTanh", "HardSigmoid")


@frozen
class Layer:
    """A layer's node and inputs, with the steps first and in float32 or float64.  ``dtype``: that of the model's data."""

    node: Node
    x: Expr
    weight: Expr
    recurrent: Expr
    bias: list[Expr]
    dtype: str

    @property
    def directions(self) -> int:
        """The number of directions."""
        return 2 if self.node.attr("direction", "forward") == "bidirectional" else 1

    @property
    def is_batch_first(self) -> bool:
        """Whether the batch is the first axis of data and results."""
        return bool(self.node.attr("layout", 0))

    def wide(self, value: Expr) -> Expr:
        """The value in the dtype of the computation."""
        return relay.cast(value, "float32") if self.dtype in HALVES else value

    def state(self, given: Expr | None) -> Expr:
        """An initial state ``(directions, batch, units)``: as given, or zeros."""
        if given is not None:
            return self.wide(relay.transpose(given, [1, 0, 2]) if self.is_batch_first else given)
        batch = relay.strided_slice(relay.shape_of(self.x, dtype="int64"), [1], [2])
        units = relay.strided_slice(relay.shape_of(self.recurrent, dtype="int64"), [2], [3])
        shape = relay.concatenate([numbers([self.directions]), batch, units], 0)
        return relay.broadcast_to(number(0, self.node.dtype(self.recurrent)), self.node.bind(shape))

    def lengths(self, given: Expr | None) -> Expr:
        """The lengths of the sequences: as given, or the number of steps."""
        if given is not None:
            return given
        shape = relay.shape_of(self.x, dtype="int64")
        steps, batch = (relay.strided_slice(shape, [k], [k + 1]) for k in range(2))
        return relay.broadcast_to(relay.cast(steps, "int32"), self.node.bind(batch))

    def projected(self, bias: Expr | None) -> Expr:
        """The products of the inputs with the weights of all gates and directions, plus the bias ``(directions, columns)``."""
        product = relay.nn.dense(self.x, relay.reshape(self.weight, [-3, -2]))
        return product if bias is None else relay.add(product, relay.reshape(bias, [-1]))

    def results(self, call: Expr, count: int) -> list[Expr]:
        """The results in the layout and dtype of the model."""
        bound = self.node.bind(call)
        found: list[Expr] = [TupleGetItem(bound, k) for k in range(count)]
        if self.dtype in HALVES:
            found = [relay.cast(r, self.dtype) for r in found]
        if self.is_batch_first:
            found = [relay.transpose(found[0], [2, 0, 1, 3]), *(relay.transpose(r, [1, 0, 2]) for r in found[1:])]
        return found


def _layer(node: Node, x: Expr, weight: Expr, recurrent: Expr, bias: Expr | None, gates: int) -> Layer:
    """The layer of a node; its bias is the parts for each gate, first of the inputs, then of the states."""
    dtype = node.dtype(x)
    plain = Layer(node, x, weight, recurrent, [], dtype)
    _check_sizes(plain, gates)
    x = plain.wide(relay.transpose(x, [1, 0, 2]) if plain.is_batch_first else x)
    parts = []
    if bias is not None:
        split = relay.split(plain.wide(bias), 2 * gates, axis=1)
        parts = [split[k] for k in range(2 * gates)]
    return Layer(node, node.bind(x), node.bind(plain.wide(weight)), node.bind(plain.wide(recurrent)), parts, dtype)


def _check_sizes(layer: Layer, gates: int) -> None:
    """Raises ModelError for weights whose sizes are not those that ``direction`` and ``hidden_size`` tell."""
    node = layer.node
    units = node.attr("hidden_size", node.size(layer.recurrent, 2))
    rows = None if units is None else gates * units
    wanted = {"W": (layer.weight, (layer.directions, rows, None)), "R": (layer.recurrent, (layer.directions, rows, units))}
    for name, (weight, sizes) in wanted.items():
        for axis, (size, have) in enumerate(zip(sizes, node.sizes(weight), strict=True)):
            if None not in (size, have) and size != have:
                given = f"direction={node.attr('direction', 'forward')} and hidden_size={units}"
                raise node.error(f"{name} has the size {have} along axis {axis}, but {given} want {size}")


def _attributes(node: Node) -> dict[str, Any]:
    """The attributes that all recurrences share.  Raises ModelError."""
    names = _activations(node)
    parameters: dict[str, Any] = {"activations": names}
    for attribute, takes, which in (("activation_alpha", _WITH_ALPHA, 0), ("activation_beta", _WITH_BETA, 1)):
        given = list(node.attr(attribute, []))
        values = [given.pop(0) if n in takes and given else ACTIVATIONS[n][which] for n in names]
        parameters[attribute] = values
    return {"direction": node.attr("direction", "forward"), "clip": node.attr("clip", 0.0), **parameters}


def _activations(node: Node) -> list[str]:
    """The names of the activations, of any case; [] if none are given.  Raises ModelError."""
    known = {name.lower(): name for name in ACTIVATIONS}
    names = node.attr("activations", [])
    unknown = [n for n in names if n.lower() not in known]
    if unknown:
        raise node.error(f"there is no activation {unknown[0]}; the activations are {', '.join(ACTIVATIONS)}")
    return [known[n.lower()] for n in names]


@onnx_operator("RNN", since=7)
def rnn(
    node: Node, x: Expr, weight: Expr, recurrent: Expr, bias: Expr | None, lengths: Expr | None, initial: Expr | None
) -> list[Expr]:
    layer = _layer(node, x, weight, recurrent, bias, 1)
    added = relay.add(layer.bias[0], layer.bias[1]) if layer.bias else None
    call = relay.nn.rnn(
        layer.projected(added), layer.recurrent, layer.state(initial), layer.lengths(lengths), **_attributes(node)
    )  # fmt: skip
    return layer.results(call, 2)


@onnx_operator("GRU", since=7)
def gru(
    node: Node, x: Expr, weight: Expr, recurrent: Expr, bias: Expr | None, lengths: Expr | None, initial: Expr | None
) -> list[Expr]:
    layer = _layer(node, x, weight, recurrent, bias, 3)
    if layer.bias:
        update, reset, new, *rest = layer.bias
        added = relay.concatenate([relay.add(update, rest[0]), relay.add(reset, rest[1]), new], 1)
        reset_bias = rest[2]
    else:
        added, shape = None, relay.shape_of(layer.recurrent, dtype="int64")
        shape = node.bind(relay.take(shape, numbers([0, 2]), axis=0))
        reset_bias = relay.broadcast_to(number(0, node.dtype(layer.recurrent)), shape)
    call = relay.nn.gru(
        layer.projected(added), layer.recurrent, layer.state(initial), reset_bias, layer.lengths(lengths),
        linear_before_reset=bool(node.attr("linear_before_reset", 0)), **_attributes(node),
    )  # fmt: skip
    return layer.results(call, 2)


@onnx_operator("LSTM", since=7)
def lstm(
    node: Node, x: Expr, weight: Expr, recurrent: Expr, bias: Expr | None, lengths: Expr | None, initial: Expr | None,
    cell: Expr | None, peepholes: Expr | None,
) -> list[Expr]:  # fmt: skip
    layer = _layer(node, x, weight, recurrent, bias, 4)
    added = None
    if layer.bias:
        added = relay.concatenate([relay.add(layer.bias[k], layer.bias[4 + k]) for k in range(4)], 1)
    if peepholes is None:
        shape = relay.multiply(
            relay.take(relay.shape_of(layer.recurrent, dtype="int64"), numbers([0, 2]), axis=0), numbers([1, 3])
        )
        held = relay.broadcast_to(number(0, node.dtype(layer.recurrent)), node.bind(shape))
    else:
        held = layer.wide(peepholes)
    call = relay.nn.lstm(
        layer.projected(added), layer.recurrent, layer.state(initial), layer.state(cell), held, layer.lengths(lengths),
        input_forget=bool(node.attr("input_forget", 0)), **_attributes(node),
    )  # fmt: skip
    return layer.results(call, 3)
