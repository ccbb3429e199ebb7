"""Filters of spectra in bins of the mel scale."""

from __future__ import annotations

from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from ...tensors import dtype_name
from ..elementwise import number
from ..vectors import as_int64, numbers


def _f64(value: float) -> Expr:
    return number(value, "float64")


def _float(x: Expr) -> Expr:
    return relay.cast(x, "float64")


def _mel(hertz: Expr) -> Expr:
    """The pitch of a frequency in mel."""
    return relay.multiply(_f64(2595), relay.log10(relay.add(_f64(1), relay.divide(hertz, _f64(700)))))


def _hertz(mel: Expr) -> Expr:
    """The frequency of a pitch."""
    return relay.multiply(_f64(700), relay.subtract(relay.power(_f64(10), relay.divide(mel, _f64(2595))), _f64(1)))


@onnx_operator("MelWeightMatrix", since=17)
def mel_weights(node: Node, bins: Expr, length: Expr, rate: Expr, low: Expr, high: Expr) -> Expr:
    """The weights are computed in float64."""
    wanted = dtype_name(node.attr("output_datatype", 1), f"the result of {node.label}")
    bins, length, rate = (relay.reshape(as_int64(node, v), []) for v in (bins, length, rate))
    zero, one, two = (const(k, "int64") for k in (0, 1, 2))
    edges = node.bind(_edges(bins, length, rate, low, high))
    start, centre, end = (node.bind(relay.expand_dims(_from(edges, bins, k), 0)) for k in range(3))
    row = relay.expand_dims(relay.arange(zero, relay.add(relay.floor_divide(length, two), one), one, dtype="int64"), 1)
    width, rest = relay.subtract(centre, start), relay.subtract(end, centre)
    rising = relay.divide(_float(relay.subtract(row, start)), _float(relay.maximum(width, one)))
    falling = relay.divide(_float(relay.subtract(end, row)), _float(relay.maximum(rest, one)))
    rises = relay.logical_and(relay.greater_equal(row, start), relay.less_equal(row, centre))
    rising = relay.where(relay.equal(width, zero), _float(relay.equal(row, centre)), relay.where(rises, rising, _f64(0)))
    falls = relay.logical_and(relay.greater_equal(row, centre), relay.less(row, end))
    return relay.cast(relay.where(falls, falling, rising), wanted)


def _edges(bins: Expr, length: Expr, rate: Expr, low: Expr, high: Expr) -> Expr:
    """The positions in the spectrum of the limits and centres of all bins."""
    zero, one, two = (const(k, "int64") for k in (0, 1, 2))
    first, last = (_mel(_float(relay.reshape(v, []))) for v in (low, high))
    points = relay.add(bins, two)
    at = _float(relay.arange(zero, points, one, dtype="int64"))
    each = relay.divide(relay.subtract(last, first), _float(points))
    hertz = _hertz(relay.add(relay.multiply(at, each), first))
    position = relay.divide(relay.multiply(_float(relay.add(length, one)), hertz), _float(rate))
    return relay.cast(relay.floor(position), "int64")


def _from(edges: Expr, bins: Expr, begin: int) -> Expr:
    """As many edges as there are bins, from one on."""
    end = relay.reshape(relay.add(bins, const(begin, "int64")), [1])
    return relay.dyn.strided_slice(edges, numbers([begin]), end, numbers([1]))
