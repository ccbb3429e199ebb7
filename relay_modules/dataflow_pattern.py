"""``relay.dataflow_pattern``: patterns of expressions, and rewrites by patterns."""

from __future__ import annotations

from typing import Any

from .compiler.ir.expr import Expr
from .compiler.transform.patterns.dataflow_pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from .compiler.transform.patterns.matching import DFPatternCallback, rewrite
from .compiler.transform.patterns.partition import partition
from .ops.core.similar_names import did_you_mean

__all__ = [
    "AltPattern", "AttrPattern", "CallPattern", "ConstantPattern", "DFPattern", "DFPatternCallback", "DataTypePattern",
    "DominatorPattern", "ExprPattern", "FunctionPattern", "IfPattern", "LetPattern", "ShapePattern", "TupleGetItemPattern",
    "TuplePattern", "TypePattern", "VarPattern", "WildcardPattern", "dominates", "has_attr", "has_dtype", "has_shape", "has_type",
    "is_constant", "is_expr", "is_if", "is_let", "is_op", "is_tuple", "is_tuple_get_item", "is_var", "match", "partition",
    "rewrite", "wildcard",
]  # fmt: skip
#: The reasons why names of Relay's are not here.
_ABSENT = {
    "register_df_node": "the patterns are the classes of this module; a match with a condition is rewrite(...) by a callback"
}


def match(pattern: DFPattern, expr: Expr) -> bool:
    """Whether a pattern matches an expression: ``pattern.match(expr)``."""
    return pattern.match(expr)


def __getattr__(name: str) -> Any:
    """Raises AttributeError with the reason, or near names."""
    if name in _ABSENT:
        raise AttributeError(f"there is no relay.dataflow_pattern.{name}: {_ABSENT[name]}")
    raise AttributeError(f"there is no relay.dataflow_pattern.{name}{did_you_mean(name, __all__)}")
