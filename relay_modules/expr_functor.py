"""``relay.expr_functor``: visitors of expressions."""

from __future__ import annotations

from . import ExprMutator, ExprVisitor
from .compiler.analysis.expr_functor import ExprFunctor

__all__ = ["ExprFunctor", "ExprMutator", "ExprVisitor"]
