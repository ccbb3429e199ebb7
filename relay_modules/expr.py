"""``relay.expr``: expressions, their constructors, and substitution."""

from __future__ import annotations

from . import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
    bind,
    const,
    var,
)

__all__ = [
    "Call", "Constant", "Expr", "Function", "GlobalVar", "If", "Let", "RefCreate", "RefRead", "RefWrite", "Tuple",
    "TupleGetItem", "TupleWrapper", "Var", "bind", "const", "var",
]  # fmt: skip
