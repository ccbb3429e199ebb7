"""Assertion that two programs are equal, with their first difference."""

from __future__ import annotations

import itertools

from ...ops.core.op import Op
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.expr import Expr, IRModule
from ..ir.structural_equal import Structure, first_difference
from ..text.printer import astext


def assert_structural_equal(lhs: Structure, rhs: Structure, map_free_vars: bool = False) -> None:
    """Raises ArgumentError, a ValueError, that shows the first difference, unless the programs are structurally equal."""
    found = first_difference(lhs, rhs, map_free_vars)
    if found is None:
        return
    lines = enumerate(itertools.zip_longest(_text(lhs).splitlines(), _text(rhs).splitlines(), fillvalue=""), 1)
    first = next(((number, *pair) for number, pair in lines if pair[0] != pair[1]), None)
    shown = first and f"line {first[0]} is `{first[1].strip()}` on the left, `{first[2].strip()}` on the right"
    message = f"the programs differ: {found[0]} on the left, {found[1]} on the right"
    raise ArgumentError(message, here(), help=shown)


def _text(value: Structure) -> str:
    return astext(value, show_meta_data=False) if isinstance(value, (Expr, IRModule, Op)) else str(value)
