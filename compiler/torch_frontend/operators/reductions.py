"""Reductions, running sums and orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..operator_table import aten
from ..torch_node import TorchNode


def _axes(node: TorchNode, x: Expr, axes: Sequence[int] | None) -> list[int]:
    rank = node.rank(x)
    return list(range(rank)) if not axes else node.axes(axes, rank) if rank else []


def _ordered(node: TorchNode, x: Expr) -> Expr:
    """The data in a dtype that has an order: bools as numbers."""
    return node.cast(x, "uint8") if node.dtype(x) == "bool" else x


def _extreme(name: str, of_bools: str) -> Callable[..., Any]:
    def convert(node: TorchNode, x: Expr, axes: Sequence[int] | None = None, keepdims: bool = False) -> Any:
        return _folded(of_bools if node.dtype(x) == "bool" else name, x, _axes(node, x, axes), keepdims)

    return convert


def _folded(name: str, x: Expr, axes: list[int], keepdims: bool) -> Any:
    return getattr(relay, name)(x, axis=axes, keepdims=keepdims) if axes else x


def _by_axes(name: str) -> Callable[..., Any]:
    def convert(node: TorchNode, x: Expr, axes: Sequence[int] | None = None, keepdims: bool = False, dtype: Any = None) -> Any:
        x = node.cast(x, node.result_dtype)
        return _folded(name, x, _axes(node, x, axes), keepdims)

    return convert


aten("sum.dim_IntList", "sum")(_by_axes("sum"))
aten("mean.dim")(_by_axes("mean"))
aten("amax", "max")(_extreme("max", "any"))
aten("amin", "min")(_extreme("min", "all"))


@aten("mean")
def mean(node: TorchNode, x: Expr, dtype: Any) -> Any:
    x = node.cast(x, node.result_dtype)
    return _folded("mean", x, _axes(node, x, None), False)


@aten("prod")
def prod(node: TorchNode, x: Expr, dtype: Any) -> Any:
    x = node.cast(x, node.result_dtype)
    return _folded("prod", x, _axes(node, x, None), False)


@aten("prod.dim_int")
def prod_of_axis(node: TorchNode, x: Expr, axis: int, keepdims: bool, dtype: Any) -> Any:
    x = node.cast(x, node.result_dtype)
    return _folded("all" if node.dtype(x) == "bool" else "prod", x, _axes(node, x, [axis]), keepdims)


def _of_bools(name: str) -> Callable[..., Any]:
    def convert(node: TorchNode, x: Expr, axes: Any = None, keepdims: bool = False) -> Any:
        x = node.cast(x, "bool")
        return _folded(name, x, _axes(node, x, [axes] if isinstance(axes, int) else axes), keepdims)

    return convert


aten("any", "any.dim", "any.dims")(_of_bools("any"))
aten("all", "all.dim", "all.dims")(_of_bools("all"))


def _with_position(name: str) -> Callable[..., Any]:
    def convert(node: TorchNode, x: Expr, axis: int, keepdims: bool) -> list[Any]:
        if not node.rank(x):
            return [x, const(0, "int64")]
        values = _ordered(node, x)
        found = getattr(relay, name)(values, axis=[axis], keepdims=keepdims)
        at = getattr(relay, f"arg{name}")(values, axis=[axis], keepdims=keepdims)
        return [node.cast(node.bind(found), node.dtype(x)), node.cast(node.bind(at), "int64")]

    return convert


aten("max.dim")(_with_position("max"))
aten("min.dim")(_with_position("min"))


def _position(name: str) -> Callable[..., Any]:
    def convert(node: TorchNode, x: Expr, axis: int | None, keepdims: bool) -> Any:
        if axis is None:
            x, axis = node.bind(relay.reshape(x, [-1])), 0
        if not node.rank(x):
            return const(0, "int64")
        x = _ordered(node, x)
        return node.cast(node.bind(getattr(relay, name)(x, axis=[axis], keepdims=keepdims)), "int64")

    return convert


aten("argmax")(_position("argmax"))
aten("argmin")(_position("argmin"))


@aten("var.correction")
def variance(node: TorchNode, x: Expr, axes: Sequence[int] | None, correction: Any, keepdims: bool) -> Any:
    chosen = _axes(node, x, axes)
    dtype = node.dtype(x)
    apart = node.bind(relay.subtract(x, relay.mean(x, axis=chosen, keepdims=True)))
    total = relay.sum(relay.multiply(apart, apart), axis=chosen, keepdims=keepdims)
    count: Expr = const(1, "int64")
    for axis in chosen:
        size = node.extent(x, axis)
        count = relay.multiply(count, size if isinstance(size, Expr) else const(size, "int64"))
    less = const(float(1 if correction is None else correction), dtype)
    return relay.divide(total, relay.maximum(relay.subtract(relay.cast(count, dtype), less), const(0, dtype)))


@aten("cumsum")
def cumsum(node: TorchNode, x: Expr, axis: int, dtype: Any) -> Any:
    x = node.cast(x, node.result_dtype)
    return relay.cumsum(x, axis=node.axes([axis], node.rank(x))[0]) if node.rank(x) else x


@aten("cumprod")
def cumprod(node: TorchNode, x: Expr, axis: int, dtype: Any) -> Any:
    x = node.cast(x, node.result_dtype)
    return relay.cumprod(x, axis=node.axes([axis], node.rank(x))[0]) if node.rank(x) else x


@aten("topk")
def topk(node: TorchNode, x: Expr, k: Any, axis: int, largest: bool, ordered: bool) -> list[Any]:
    if not node.rank(x):
        return [x, const(0, "int64")]
    dtype, x = node.dtype(x), _ordered(node, x)
    found = relay.topk(x, k=node.number(k) if node.number(k) is not None else k, axis=axis, is_ascend=not largest, dtype="int64")
    return [node.cast(node.bind(found[0]), dtype), found[1]]


@aten("sort")
def sort(node: TorchNode, x: Expr, axis: int, descending: bool) -> list[Any]:
    return _sorted(node, x, axis, descending)


@aten("sort.stable")
def stable_sort(node: TorchNode, x: Expr, stable: bool | None, axis: int, descending: bool) -> list[Any]:
    return _sorted(node, x, axis, descending)


def _sorted(node: TorchNode, x: Expr, axis: int, descending: bool) -> list[Any]:
    if not node.rank(x):
        return [x, const(0, "int64")]
    axis = node.axes([axis], node.rank(x))[0]
    at = node.bind(relay.argsort(_ordered(node, x), axis=axis, is_ascend=not descending, dtype="int64"))
    return [relay.gather(x, axis, at), at]


@aten("argsort")
def argsort(node: TorchNode, x: Expr, axis: int, descending: bool) -> Any:
    return _sorted(node, x, axis, descending)[1]


@aten("logsumexp")
def logsumexp(node: TorchNode, x: Expr, axes: Sequence[int], keepdims: bool) -> Any:
    return relay.logsumexp(node.cast(x, node.result_dtype), axis=_axes(node, x, axes), keepdims=keepdims)


@aten("linalg_vector_norm")
def vector_norm(node: TorchNode, x: Expr, order: Any, axes: Sequence[int] | None, keepdims: bool, dtype: Any) -> Any:
    x = node.cast(x, node.result_dtype)
    chosen, dtype = _axes(node, x, axes), node.result_dtype
    if order == 2:
        return relay.sqrt(relay.sum(relay.multiply(x, x), axis=chosen, keepdims=keepdims))
    if order == 1:
        return relay.sum(relay.abs(x), axis=chosen, keepdims=keepdims)
    if order in (float("inf"), float("-inf")):
        return _folded("max" if order > 0 else "min", relay.abs(x), chosen, keepdims)
    power = relay.sum(relay.power(relay.abs(x), const(order, dtype)), axis=chosen, keepdims=keepdims)
    return relay.power(power, const(1 / order, dtype))
