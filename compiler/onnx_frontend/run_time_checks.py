"""Checks of a node that only run time decides."""

from __future__ import annotations

from ...ops.core.tensor_types import TensorType
from ...ops.defs.machine.machine_ops import ASSERT_SAME_SIZE, AssertSameSizeAttrs
from ..ir.expr import Call, Expr, type_of
from .node import Node


def check_lengths(node: Node, vector: Expr, other: Expr, message: str) -> None:
    """Check that two vectors have one length; ``message``, after the node's label, has two ``{}`` for the lengths."""
    check_vectors(node, vector, other, f"{literal(node.label)}: {message}")


def check_vectors(node: Node, vector: Expr, other: Expr, message: str) -> None:
    """As ``check_lengths``, with a whole message."""
    check_axis(node, vector, 0, other, message)


def check_axis(node: Node, x: Expr, axis: int, vector: Expr, message: str) -> None:
    """Check that an axis of a tensor has the size of a vector; the message as that of ``check_vectors``."""
    attrs = AssertSameSizeAttrs(axis, 0, message)
    node.bind(Call(ASSERT_SAME_SIZE, (x, vector), attrs, ty=type_of(x), span=node.span))


def with_size_of(node: Node, vector: Expr, other: Expr, axis: int) -> Expr:
    """The vector, of the size that an axis of another tensor has, which its length equals: the check cannot fail."""
    size = type_of(other)
    assert isinstance(size, TensorType)
    ty = TensorType((size.shape[axis],), node.dtype(vector))
    return node.bind(Call(ASSERT_SAME_SIZE, (vector, other), AssertSameSizeAttrs(0, axis), ty=ty, span=node.span))


def literal(text: str) -> str:
    """A text as a part of such a message."""
    return text.replace("{", "{{").replace("}", "}}")
