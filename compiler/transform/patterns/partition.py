"""``partition``: the calls that a pattern matches as calls of functions, in any expression.

nn.relu(nn.conv2d(%x, %w))    ->    %f = fn (%FunctionVar_0_0, %FunctionVar_0_1, PartitionedFromPattern="nn.conv2d_nn.relu_") {
                                      nn.relu(nn.conv2d(%FunctionVar_0_0, %FunctionVar_0_1))
                                    };
                                    %f(%x, %w)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from ....vm.diagnostics.argument_errors import a_mapping, wrong
from ...ir.expr import Expr, Function
from .dataflow_pattern import DFPattern
from .merge_composite import CompositePattern, merged


def partition(
    pattern: DFPattern, expr: Expr, attrs: Mapping[str, Any] | None = None, check: Callable[[Expr], Any] = lambda expr: True
) -> Expr:
    """The expression with a call of a function for each match of the pattern.

    ``attrs``: attributes of the functions; ``check``: whether a match, given by its expression, becomes a function.  An inner
    value of a match that is used elsewhere prevents it.  Raises ArgumentError.
    """
    if not isinstance(pattern, DFPattern):
        raise wrong("partition: the pattern", "a pattern", pattern)
    if not isinstance(expr, Expr):
        raise wrong("partition: the expression", "an expression", expr)
    if not callable(check):
        raise wrong("partition: check", "a function of an expression", check)
    whole = expr if isinstance(expr, Function) else Function((), expr)
    row = CompositePattern(dict(a_mapping(attrs, "partition: the attributes")), pattern, check)
    out = merged(whole, row, itertools.count())
    return out if isinstance(expr, Function) else out.body


for _name, _method in (("partition", partition),):  # declared in ``dataflow_pattern``
    setattr(DFPattern, _name, _method)
