"""Ranges of a known number of integers, from a start that is known at run time: a sum, whose type says the number.

    arange(%n, add(%n, 1i64), 1i64, dtype="int64")    ->    add([0i64], %n)

The number follows from the elements of sizes (``elements``): of the columns of new rows it is the number of rows.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ....ops.core.op import get
from ....ops.core.tensor_types import TensorType, numpy_dtype
from ....shape_funcs.symbolic.dim import Dim, const, dim
from ...builder.build import const as constant
from ...builder.operator_functions import operators as relay
from ...ir.anf import operands, rebuild, rebuild_lets
from ...ir.expr import Call, Expr, IRModule, Var, let_chain, replace
from ...rules.elements import MAX_ELEMENTS, ElementTable
from ..infer_type import infer_sizes
from ..to_a_normal_form import to_a_normal_form


def with_counted_ranges(mod: IRModule, names: Collection[str]) -> IRModule:
    """The typed module with sums for such ranges in the functions of these names.

    Types of what is computed from a sum are more exact, so that further ranges may be known.
    """
    while True:
        mod = infer_sizes(mod)
        changed = {name: _Sums().chain(mod[name].body) for name in names}
        if all(body is mod[name].body for name, body in changed.items()):
            return mod
        functions = {name: replace(f, body=changed.get(name, f.body)) for name, f in mod.functions.items()}
        mod = to_a_normal_form(replace(mod, functions=functions))


def range_of(elements: ElementTable, value: Expr) -> tuple[Dim, Dim] | None:
    """The first number of a range with steps of 1, and the number behind its last, if both are known."""
    if not isinstance(value, Call) or value.op is not get("arange"):
        return None
    bounds: list[Dim | None] = [None if found is None else found[0] for found in map(elements.of, value.args)]
    start, stop, step = bounds
    return None if start is None or stop is None or step is not dim(1) else (start, stop)


class _Sums:
    """The rewriter of one function."""

    def __init__(self) -> None:
        self.elements = ElementTable()

    def chain(self, chain: Expr) -> Expr:
        """The chain with sums."""
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            self.elements.bind(var, value)
            out.append((var, self._sum(value, rebuild(value, lambda atom: atom, self.chain))))
        return rebuild_lets(chain, out, result)

    def _sum(self, value: Expr, other: Expr) -> Expr:
        """The sum in the place of a range of a known number; ``other`` for any other value."""
        found = range_of(self.elements, value)
        count = None if found is None else const(found[1] - found[0])
        if count is None or not 0 < count <= MAX_ELEMENTS or not isinstance(value.ty, TensorType):
            return other
        total: Expr = relay.add(constant(np.arange(count, dtype=numpy_dtype(value.ty.dtype))), operands(value)[0])
        return total
