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
    astext,
    bind,
    const,
    pretty_print,
    var,
)
from . import Expr as RelayExpr  # Relay's name of the class of its IR

__all__ = [
    "Call", "Constant", "Expr", "Function", "GlobalVar", "If", "Let", "RefCreate", "RefRead", "RefWrite",
    "RelayExpr", "Tuple", "TupleGetItem", "TupleWrapper", "Var", "astext", "bind", "const", "pretty_print", "var",
]  # fmt: skip
