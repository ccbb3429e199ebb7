"""Elements chosen and written by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ...onnx_frontend.operators.indexing import from_the_front
from ..operator_table import aten
from ..torch_node import TorchNode
from .arithmetic import operand


@aten("embedding")
def embedding(node: TorchNode, table: Expr, indices: Expr, *others: Any) -> Expr:
    return relay.take(table, indices, axis=0, mode="fast")


@aten("index_select")
def index_select(node: TorchNode, x: Expr, axis: int, indices: Expr) -> Expr:
    if not node.rank(x):
        return x
    indices = indices if node.rank(indices) else relay.reshape(indices, [1])
    return relay.take(x, indices, axis=node.axes([axis], node.rank(x))[0], mode="fast")


@aten("gather")
def gather(node: TorchNode, x: Expr, axis: int, indices: Expr, sparse: bool) -> Expr:
    if not node.rank(x):
        return x
    axis = node.axes([axis], node.rank(x))[0]
    pairs = enumerate(zip(node.shape(indices), node.shape(x), strict=True))
    if fewer := [k for k, (a, b) in pairs if k != axis and a is not b]:
        x = node.bind(relay.slice_like(x, indices, axes=fewer))
    return relay.gather(x, axis, indices)


@aten("scatter.src")
def scatter(node: TorchNode, x: Expr, axis: int, indices: Expr, source: Expr) -> Expr:
    axis = node.axes([axis], node.rank(x))[0]
    pairs = enumerate(zip(node.shape(indices), node.shape(source), strict=True))
    if fewer := [k for k, (a, b) in pairs if a is not b]:
        source = node.bind(relay.slice_like(source, indices, axes=fewer))
    return relay.scatter_elements(x, indices, source, axis, "update")


@aten("scatter.value")
def scatter_value(node: TorchNode, x: Expr, axis: int, indices: Expr, value: Any) -> Expr:
    source = relay.full_like(node.cast(indices, node.dtype(x)), operand(node, value, node.dtype(x)))
    return relay.scatter_elements(x, indices, source, node.axes([axis], node.rank(x))[0], "update")


@aten("scatter_add")
def scatter_add(node: TorchNode, x: Expr, axis: int, indices: Expr, source: Expr) -> Expr:
    return relay.scatter_elements(x, indices, source, node.axes([axis], node.rank(x))[0], "add")


@aten("index.Tensor")
def index(node: TorchNode, x: Expr, indices: Sequence[Expr | None]) -> Expr:
    """Masks are the indices of their true elements, whose number is known at run time."""
    indices, axis = list(indices), 0
    full: list[Expr | None] = []
    for one in indices:
        if one is not None and node.dtype(one) == "bool":
            found = node.bind(relay.argwhere(one))
            full += [
                node.cast(node.bind(relay.squeeze(relay.strided_slice(found, [k], [k + 1], [1], [1]), [1])), "int64")
                for k in range(node.rank(one))
            ]
        else:
            full.append(one)
    chosen = [k for k, one in enumerate(full) if one is not None]
    given = [node.bind(from_the_front(node, full[k], x, k)) for k in chosen]  # type: ignore[arg-type]
    if len(chosen) == 1:
        return relay.take(x, given[0], axis=chosen[0], mode="fast")
    rank = node.rank(x)
    rest = [k for k in range(rank) if k not in chosen]
    moved = x if chosen == list(range(len(chosen))) else node.bind(relay.transpose(x, [*chosen, *rest]))
    picked = relay.adv_index([moved, *given])
    is_together = chosen == list(range(chosen[0], chosen[-1] + 1))
    if chosen[0] == 0 or not is_together:
        return picked
    count = node.result_rank - len(rest)
    before = len([k for k in rest if k < chosen[0]])
    order = [*range(count, count + before), *range(count), *range(count + before, node.result_rank)]
    return relay.transpose(picked, order)


@aten("index_put")
def index_put(node: TorchNode, x: Expr, indices: Sequence[Expr | None], values: Expr, accumulate: bool) -> Expr:
    if len(indices) == 1 and indices[0] is not None and node.dtype(indices[0]) == "bool" and not node.rank(values):
        mask = indices[0]
        for _ in range(node.rank(x) - node.rank(mask)):
            mask = node.bind(relay.expand_dims(mask, node.rank(mask)))
        return relay.where(mask, values, x)
    raise node.error("these indices cannot be written")


_ = const
