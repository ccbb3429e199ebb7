"""A call of a torch operator under conversion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...shape_funcs.symbolic.dim import const as known_size
from ..builder.build import const
from ..builder.operator_functions import operators as relay
from ..ir.expr import Expr
from ..onnx_frontend.node import Node
from ..onnx_frontend.operators.vectors import numbers


@dataclass(eq=False)
class TorchNode(Node):
    """A call under conversion.

    ``meta``: torch's description of the result: a fake tensor, a size, or a list of these.  ``given``: of the arguments that are
    results of other nodes.  ``attributes`` are those of an operator of ONNX whose converter takes the call.
    """

    meta: Any = None
    given: Sequence[Any] = ()

    @property
    def result_dtype(self) -> str:
        """The dtype of the result, or of the first result."""
        meta = self.meta[0] if isinstance(self.meta, (list, tuple)) else self.meta
        return dtype_name(meta.dtype)

    @property
    def result_rank(self) -> int:
        """The rank of the result, or of the first result."""
        meta = self.meta[0] if isinstance(self.meta, (list, tuple)) else self.meta
        return int(meta.dim())

    def cast(self, x: Expr, dtype: str) -> Expr:
        """A tensor in a dtype."""
        return x if self.dtype(x) == dtype else self.bind(relay.cast(x, dtype))

    def vector(self, sizes: Sequence[Any]) -> Any:
        """Sizes for an attribute: a list of numbers, or an expression of a vector of int64."""
        known = [self.number(n) for n in sizes]
        if None not in known:
            return known
        if not sizes:
            return []
        parts = [relay.reshape(n, [1]) if isinstance(n, Expr) else numbers([n]) for n in sizes]
        return self.bind(relay.concatenate(parts, 0) if len(parts) > 1 else parts[0])

    def number(self, size: Any) -> int | None:
        """The value of a size that is known at import."""
        if not isinstance(size, Expr):
            return int(size)
        value = self.constant(size)
        return None if value is None else int(value)

    def extent(self, x: Expr, axis: int) -> Any:
        """The size of an axis: a number, or an expression of one int64."""
        number = known_size(self.shape(x)[axis])
        if number is not None:
            return number
        return self.bind(relay.take(relay.shape_of(x, dtype="int64"), const(axis, "int64"), axis=0))


def dtype_name(dtype: Any) -> str:
    """The name of a dtype of torch's."""
    return str(dtype).removeprefix("torch.")


def with_attributes(node: TorchNode, **attributes: Any) -> TorchNode:
    """The node with the attributes of an ONNX operator, for its converter."""
    return replace(node, attributes=attributes, _decoded={})
