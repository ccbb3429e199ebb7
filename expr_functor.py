"""``relay.expr_functor``: visitors of expressions."""

from __future__ import annotations

from . import ExprMutator, ExprVisitor

__all__ = ["ExprMutator", "ExprVisitor"]
