"""Sizes as values, and results whose sizes a kernel finds."""

from __future__ import annotations

from typing import Any

from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..operator_table import aten
from ..size_checks import check
from ..torch_node import TorchNode


@aten("sym_size.int")
def size(node: TorchNode, x: Expr, axis: int) -> Any:
    return node.extent(x, node.axes([axis], node.rank(x))[0])


@aten("sym_numel")
def numel(node: TorchNode, x: Expr) -> Any:
    return relay.prod(relay.shape_of(x, dtype="int64"))


@aten("sym_stride.int")
def stride(node: TorchNode, x: Expr, axis: int) -> Any:
    """Of elements that are stored in the order of the shape, as all are here."""
    return relay.prod(
        relay.strided_slice(relay.shape_of(x, dtype="int64"), [node.axes([axis], node.rank(x))[0] + 1], [INT64_MAX])
    )


@aten("sym_storage_offset")
def storage_offset(node: TorchNode, x: Expr) -> int:
    return 0


@aten("sym_is_contiguous")
def is_contiguous(node: TorchNode, x: Expr, memory_format: Any) -> bool:
    return True


@aten("nonzero")
def nonzero(node: TorchNode, x: Expr) -> Any:
    return node.cast(node.bind(relay.argwhere(x)), "int64")


@aten("_local_scalar_dense", "item")
def item(node: TorchNode, x: Expr) -> Any:
    x = node.bind(relay.reshape(x, []))
    dtype = node.dtype(x)
    return x if dtype == "bool" else node.cast(x, "float64" if "float" in dtype else "int64")


@aten("_unique2")
def unique(node: TorchNode, x: Expr, is_sorted: bool, with_inverse: bool, with_counts: bool) -> list[Any]:
    flat = relay.reshape(x, [-1])
    found = node.bind(relay.unique(flat, is_sorted=True, return_counts=True))
    inverse = node.cast(node.bind(relay.reshape_like(found[2], x)), "int64")
    return [found[0], inverse, node.cast(node.bind(found[4]), "int64")]


@aten("_assert_scalar", "_assert_async.msg")
def asserted(node: TorchNode, condition: Any, message: str) -> None:
    """A condition of the program, which is checked at run time."""
    if not isinstance(condition, Expr):
        condition = const(bool(condition), "bool")
    check(node, node.cast(node.bind(relay.reshape(condition, [])), "bool"), message)


@aten("_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size")
def known_fact(node: TorchNode, *others: Any) -> None:
    """Types, which are inferred here, and ranges, which are those of sizes."""
