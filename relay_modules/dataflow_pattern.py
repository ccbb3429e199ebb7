"""``relay.dataflow_pattern``: patterns of expressions, and rewrites by patterns."""

from __future__ import annotations

from typing import Any

from .compiler.transform.patterns.dataflow_pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    IfPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from .compiler.transform.patterns.matching import DFPatternCallback, rewrite
from .ops.core.similar_names import did_you_mean

__all__ = [
    "AltPattern", "AttrPattern", "CallPattern", "ConstantPattern", "DFPattern", "DFPatternCallback", "DataTypePattern",
    "ExprPattern", "IfPattern", "ShapePattern", "TupleGetItemPattern", "TuplePattern", "TypePattern", "VarPattern",
    "WildcardPattern", "has_attr", "has_dtype", "has_shape", "has_type", "is_constant", "is_expr", "is_if", "is_op", "is_tuple",
    "is_tuple_get_item", "is_var", "rewrite", "wildcard",
]  # fmt: skip

#: Relay's names without a counterpart, each with the reason.
ABSENT = {
    "dominates": "a pattern has a fixed number of calls; use one alternative for each number",
    "is_let": "put the values in place of variables first: relay.transform.ToGraphNormalForm()(mod)",
}


def __getattr__(name: str) -> Any:
    """Raises AttributeError with the reason, or with near names."""
    why = ABSENT.get(name)
    raise AttributeError(f"there is no relay.dataflow_pattern.{name}{': ' + why if why else did_you_mean(name, __all__)}")
