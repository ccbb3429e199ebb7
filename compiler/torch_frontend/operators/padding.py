"""Elements added around a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ...onnx_frontend.operators.spatial.padding import pad as onnx_pad
from ...onnx_frontend.operators.vectors import numbers
from ..operator_table import aten
from ..torch_node import TorchNode, with_attributes


def padded(node: TorchNode, x: Expr, pad: Sequence[Any], value: Any, mode: str) -> Any:
    """The data with elements before and after the last axes, the last one first; negative numbers remove elements."""
    rank, known = node.rank(x), [node.number(n) for n in pad]
    counts = [n for n in known if n is not None]
    if len(counts) < len(known):
        return _padded_at_run_time(node, x, pad, value, mode)
    widths = [(0, 0)] * (rank - len(pad) // 2) + [(counts[k], counts[k + 1]) for k in range(len(pad) - 2, -2, -2)]
    cut = [(max(-a, 0), -max(-b, 0) or INT64_MAX) for a, b in widths]
    if any(c != (0, INT64_MAX) for c in cut):
        x = node.bind(relay.strided_slice(x, [a for a, _ in cut], [b for _, b in cut]))
        widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    return relay.nn.pad(x, widths, const(value, node.dtype(x)), mode) if any(a or b for a, b in widths) else x


def _padded_at_run_time(node: TorchNode, x: Expr, pad: Sequence[Any], value: Any, mode: str) -> Any:
    rank, axes = node.rank(x), len(pad) // 2
    ordered = node.vector([*pad[-2::-2], *pad[:0:-2]])
    widths = ordered if isinstance(ordered, Expr) else numbers(ordered)
    given = numbers(range(rank - axes, rank))
    return onnx_pad(with_attributes(node, mode=mode), x, widths, const(value, node.dtype(x)), given)


@aten("constant_pad_nd")
def constant_pad(node: TorchNode, x: Expr, pad: Sequence[Any], value: Any) -> Any:
    return padded(node, x, pad, value, "constant")


def _mirrored(mode: str) -> Callable[..., Any]:
    return lambda node, x, pad: padded(node, x, pad, 0, mode)


for _axes in (1, 2, 3):
    aten(f"reflection_pad{_axes}d")(_mirrored("reflect"))
    aten(f"replication_pad{_axes}d")(_mirrored("edge"))
