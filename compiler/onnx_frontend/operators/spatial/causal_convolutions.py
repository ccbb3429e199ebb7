"""Causal convolutions of each channel by itself, with a state from step to step."""

from __future__ import annotations

from .....shape_funcs.symbolic.int_operations import INT64_MAX
from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from ..elementwise import number
from ..vectors import extent


@onnx_operator("CausalConvWithState", since=27)
def causal_conv(node: Node, x: Expr, weight: Expr, bias: Expr | None, past: Expr | None) -> list[Expr]:
    """The windows end at each position; the state is the end of the data, as long as all of a window but one element."""
    for name, tensor in (("data", x), ("kernel", weight)):
        if node.rank(tensor) != 3:
            raise node.error(f"the {name} has rank {node.rank(tensor)}; its rank must be 3")
    dtype, one = node.dtype(x), const(1, "int64")
    reach = node.bind(relay.subtract(extent(weight, 2), one))
    if past is None:
        past = relay.full(number(0, dtype), relay.stack([extent(x, 0), extent(x, 1), reach], 0), dtype)
    whole = node.bind(relay.concatenate([past, x], 2))
    channels = node.size(weight, 0)
    if channels is not None:
        result = relay.nn.conv1d(whole, weight, groups=channels)
    else:
        result = _by_channel(whole, weight, extent(x, 2), dtype)
    if bias is not None:
        result = relay.nn.bias_add(result, bias, axis=1)
    activation = node.attr("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise node.error(f"there is no activation {activation!r}; none, silu and swish exist")
    if activation != "none":
        wide = relay.cast(result, "float32")
        result = relay.cast(relay.multiply(wide, relay.sigmoid(wide)), dtype)
    begin = relay.stack([const(0, "int64"), const(0, "int64"), extent(x, 2)], 0)
    state = relay.dyn.strided_slice(whole, begin, const([INT64_MAX] * 3, "int64"), const([1] * 3, "int64"))
    return [result, state]


def _by_channel(whole: Expr, weight: Expr, steps: Expr, dtype: str) -> Expr:
    """The convolution of an unknown number of channels, which no attribute can say: sums over windows taken apart."""
    zero, one = const(0, "int64"), const(1, "int64")
    begin = relay.expand_dims(relay.arange(zero, steps, one, dtype="int64"), 1)
    inside = relay.expand_dims(relay.arange(zero, extent(weight, 2), one, dtype="int64"), 0)
    windows = relay.take(whole, relay.add(begin, inside), axis=2, mode="fast")
    # sums in float32 are rounded once, here, as those of a convolution
    wide = "float64" if dtype == "float64" else "float32"
    products = relay.multiply(relay.cast(windows, wide), relay.cast(relay.expand_dims(weight, 0), wide))
    return relay.cast(relay.sum(products, axis=[3]), dtype)
