"""Elements chosen and written by index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ops.core.tensor_types import int_range, is_float
from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ...onnx_frontend.operators.indexing import from_the_front
from ..operator_table import aten
from ..torch_node import TorchNode
from .arithmetic import operand


@aten("embedding")
def embedding(node: TorchNode, table: Expr, indices: Expr, *others: Any) -> Any:
    return relay.take(table, indices, axis=0, mode="fast")


@aten("index_select")
def index_select(node: TorchNode, x: Expr, axis: int, indices: Expr) -> Any:
    if not node.rank(x):
        return x
    indices = indices if node.rank(indices) else relay.reshape(indices, [1])
    return relay.take(x, indices, axis=node.axes([axis], node.rank(x))[0], mode="fast")


@aten("gather")
def gather(node: TorchNode, x: Expr, axis: int, indices: Expr, sparse: bool) -> Any:
    if not node.rank(x):
        return x
    if node.rank(indices) != node.rank(x):
        return relay.zeros_like(node.cast(indices, node.dtype(x)))  # torch takes indices without elements of any rank
    axis = node.axes([axis], node.rank(x))[0]
    pairs = enumerate(zip(node.shape(indices), node.shape(x), strict=True))
    if fewer := [k for k, (a, b) in pairs if k != axis and a is not b]:
        x = node.bind(relay.slice_like(x, indices, axes=fewer))
    return relay.gather(x, axis, indices)


#: The reductions of numbers 0 and 1 that are those of bools.
_ORS = {"add": "max", "mul": "min", "max": "max", "min": "min"}


def _of_bools(node: TorchNode, function: Callable[..., Any], *parts: Expr) -> Any:
    """A function of bools as numbers, whose result is a bool."""
    return node.cast(node.bind(function(*(node.bind(node.cast(part, "uint8")) for part in parts))), "bool")


def _scattered(node: TorchNode, x: Expr, axis: int, indices: Expr, source: Expr, mode: str) -> Any:
    """The source written at the indices, which may be fewer than its elements along each axis."""
    if node.dtype(x) == "bool" and mode != "update":
        return _of_bools(node, lambda *parts: _scattered(node, parts[0], axis, indices, parts[1], _ORS[mode]), x, source)
    if not node.rank(x):
        x, indices, source = (node.bind(relay.reshape(part, [1])) for part in (x, indices, source))
        return relay.reshape(_scattered(node, x, 0, indices, source, mode), [])
    axis = node.axes([axis], node.rank(x))[0]
    if node.rank(indices) != node.rank(x):
        return x  # torch takes indices without elements of any rank
    pairs = enumerate(zip(node.shape(indices), node.shape(source), strict=True))
    if fewer := [k for k, (a, b) in pairs if a is not b]:
        source = node.bind(relay.slice_like(source, indices, axes=fewer))
    return relay.scatter_elements(x, indices, source, axis, mode)


@aten("scatter.src")
def scatter(node: TorchNode, x: Expr, axis: int, indices: Expr, source: Expr) -> Any:
    return _scattered(node, x, axis, indices, source, "update")


@aten("scatter.value")
def scatter_value(node: TorchNode, x: Expr, axis: int, indices: Expr, value: Any) -> Any:
    source = relay.full_like(node.cast(indices, node.dtype(x)), operand(node, value, node.dtype(x)))
    return _scattered(node, x, axis, indices, node.bind(source), "update")


@aten("scatter.reduce")
def scatter_by(node: TorchNode, x: Expr, axis: int, indices: Expr, source: Expr, reduction: str) -> Any:
    return _scattered(node, x, axis, indices, source, {"add": "add", "multiply": "mul"}[reduction])


@aten("scatter_add")
def scatter_add(node: TorchNode, x: Expr, axis: int, indices: Expr, source: Expr) -> Any:
    return _scattered(node, x, axis, indices, source, "add")


def _positions(node: TorchNode, indices: Sequence[Expr | None]) -> list[Expr | None]:
    """The index of each axis: a mask is the positions of its true elements."""
    full: list[Expr | None] = []
    for one in indices:
        if one is not None and node.dtype(one) == "bool":
            found = node.bind(relay.argwhere(one))
            for k in range(node.rank(one)):
                column = relay.squeeze(relay.strided_slice(found, [k], [k + 1], [1], [1]), [1])
                full.append(node.cast(node.bind(column), "int64"))
        else:
            full.append(None if one is None else node.cast(one, "int64"))
    return full


@aten("index.Tensor")
def index(node: TorchNode, x: Expr, indices: Sequence[Expr | None]) -> Any:
    """Masks are the indices of their true elements, whose number is known at run time."""
    full = _positions(node, indices)
    chosen = [k for k, one in enumerate(full) if one is not None]
    given = [node.bind(from_the_front(node, one, x, k)) for k, one in enumerate(full) if one is not None]
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
def index_put(node: TorchNode, x: Expr, indices: Sequence[Expr | None], values: Expr, accumulate: bool) -> Any:
    if len(indices) == 1 and indices[0] is not None and node.dtype(indices[0]) == "bool" and not node.rank(values):
        mask = indices[0]
        for _ in range(node.rank(x) - node.rank(mask)):
            mask = node.bind(relay.expand_dims(mask, node.rank(mask)))
        return relay.where(mask, relay.add(x, values) if accumulate else values, x)
    full = _positions(node, indices)
    chosen = [k for k, one in enumerate(full) if one is not None]
    rest = [k for k in range(node.rank(x)) if k not in chosen]
    order = [*chosen, *rest]
    given = [node.bind(from_the_front(node, one, x, k)) for k, one in enumerate(full) if one is not None]
    moved = x if order == sorted(order) else node.bind(relay.transpose(x, order))
    common = given[0]
    for other in given[1:]:
        common = node.bind(relay.add(common, relay.multiply(other, const(0, "int64"))))
    points = node.bind(relay.stack([relay.broadcast_to_like(one, common) for one in given], 0))
    updates = _as_rows(node, values, common, moved, chosen)
    mode = "add" if accumulate else "update"
    if accumulate and node.dtype(x) == "bool":
        found = _of_bools(node, lambda *parts: relay.scatter_nd(parts[0], points, parts[1], _ORS[mode]), moved, updates)
    else:
        found = relay.scatter_nd(moved, points, updates, mode)
    return found if moved is x else relay.transpose(found, [order.index(k) for k in range(node.rank(x))])


def _as_rows(node: TorchNode, values: Expr, at: Expr, moved: Expr, chosen: list[int]) -> Any:
    """The values of an ``index_put`` for each index, the axes of the indices first."""
    count, shape = node.rank(at), relay.shape_of(at, dtype="int64")
    rest = relay.strided_slice(relay.shape_of(moved, dtype="int64"), [len(chosen)], [INT64_MAX])
    # as in numpy, indices of axes side by side stand in their place, others in front
    before = chosen[0] if chosen == list(range(chosen[0], chosen[-1] + 1)) else 0
    if not before:
        return relay.broadcast_to(values, node.bind(relay.concatenate([shape, rest], 0)))
    parts = [relay.strided_slice(rest, [0], [before]), shape, relay.strided_slice(rest, [before], [INT64_MAX])]
    whole = node.bind(relay.broadcast_to(values, node.bind(relay.concatenate(parts, 0))))
    return relay.transpose(whole, [*range(before, before + count), *range(before), *range(before + count, node.rank(whole))])


_REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _ends(dtype: str) -> tuple[Any, Any]:
    """The lowest and the highest value of a dtype."""
    if dtype == "bool":
        return False, True
    return (-np.inf, np.inf) if is_float(dtype) else int_range(dtype)


@aten("scatter_reduce.two")
def scatter_reduce(node: TorchNode, x: Expr, axis: int, indices: Expr, source: Expr, reduction: str, with_self: bool) -> Any:
    dtype = node.dtype(x)
    if with_self and reduction != "mean":
        return _scattered(node, x, axis, indices, source, _REDUCTIONS[reduction])
    ones = node.bind(relay.ones_like(node.cast(source, "int64")))
    counts = node.bind(_scattered(node, node.bind(relay.zeros_like(node.cast(x, "int64"))), axis, indices, ones, "add"))
    if not with_self:
        lowest, highest = _ends(dtype)
        first = {"prod": 1, "amax": lowest, "amin": highest}.get(reduction, 0)
        x = node.bind(relay.where(relay.greater(counts, const(0, "int64")), const(first, dtype), x))
    found = node.bind(_scattered(node, x, axis, indices, source, _REDUCTIONS[reduction]))
    if reduction != "mean":
        return found
    counts = relay.add(counts, const(1, "int64")) if with_self else relay.maximum(counts, const(1, "int64"))
    counts = node.cast(node.bind(counts), dtype)
    return relay.divide(found, counts) if is_float(dtype) else relay.floor_divide(found, counts)


@aten("masked_scatter")
def masked_scatter(node: TorchNode, x: Expr, mask: Expr, source: Expr) -> Any:
    x = node.bind(relay.where(mask, x, x)) if node.shape(x) != node.shape(mask) else x  # both may broadcast
    mask = node.bind(relay.broadcast_to_like(mask, x))
    flat = relay.cast(relay.reshape(mask, [-1]), "int64")
    at = relay.subtract(relay.cumsum(flat, axis=0), const(1, "int64"))
    at = node.bind(relay.reshape_like(relay.maximum(at, const(0, "int64")), x))
    chosen = relay.take(relay.reshape(source, [-1]), at, axis=0, mode="clip")
    return relay.where(mask, chosen, x)
