"""One row of a value by the same row of the values that it follows from.

A value whose other rows have a use is computed whole, and its row is taken.
"""

from __future__ import annotations

import heapq
from collections import Counter

from ....ops.core.op import Op, get
from ....ops.core.tensor_types import TensorType, TupleType
from ....ops.defs.movement.indexing import TakeAttrs
from ....shape_funcs.symbolic.dim import dim
from ...ir.expr import Call, Constant, Expr, Tuple, Var, replace, tensor_type
from ...rules.rewriting import Definitions
from .rows_of_results import PRODUCTS, Axes, operand_axes

Bindings = list[tuple[Var, Expr]]


class RowTaker:
    """The row of values that ``index``, a constant number, selects; ``count``: the uses of each atom of a function."""

    def __init__(self, scope: Definitions, count: Counter[Expr], index: Constant, attrs: TakeAttrs) -> None:
        self.scope, self.count, self.attrs = scope, count, attrs
        self.index = Constant(index.data.reshape(1), ty=TensorType.of_array(index.data.reshape(1)))
        self.out: Bindings = []
        self.rows: dict[Expr, Var] = {}

    def row(self, source: Expr, axis: int) -> tuple[Bindings, Var] | None:
        """Bindings that compute a row of ``source`` along ``axis``, which stays, and its variable; None if no product is saved.

        Each of the values that are computed by rows has no other use.
        """
        order = self._by_rows(source, axis)
        if any(isinstance(value.ty, TupleType) and axes is None for value, _, axes in order):
            return None  # fields of a tuple that are also read along another axis
        made = [self._add(value, along, axes) for value, along, axes in reversed(order)]
        return (self.out, self.rows[source]) if any(made) else None

    def _by_rows(self, source: Expr, axis: int) -> list[tuple[Expr, int, Axes | None]]:
        """The values whose rows are needed, the last one first, with the axes of the rows: their own, and those of the operands.

        A value comes after all values that use it, so that its uses are known to be all or not.
        """
        place = {atom: number for number, atom in enumerate(self.scope.values)}
        along, uses, found = {source: axis}, Counter({source: 1}), []
        later = [(-place.get(source, -1), 0, source)]
        while later:
            *_, atom = heapq.heappop(later)
            axes = self._axes(atom, along) if uses[atom] == self.count[atom] else None
            found.append((atom, along[atom], axes))
            for operand, own in zip(_operands(self.scope.values.get(atom)), axes or (), strict=False):
                if own is not None:
                    uses[operand] += 1
                    if operand not in along:
                        along[operand] = own
                        heapq.heappush(later, (-place.get(operand, -1), len(along), operand))
        return found

    def _axes(self, atom: Expr, along: dict[Expr, int]) -> Axes | None:
        """The axes of the operands of a value that is computed by rows; None for any other."""
        value = self.scope.values.get(atom)
        if isinstance(value, Call) and not (isinstance(value.op, Op) and self.scope.is_safe(value)):
            return None
        axes = operand_axes(value, atom.ty, along[atom])
        wanted = [(x, own) for x, own in zip(_operands(value), axes or (), strict=False) if own is not None]
        return axes if all(along.get(x, own) == own == dict(wanted)[x] and self._has_row(x) for x, own in wanted) else None

    def _has_row(self, operand: Expr) -> bool:
        """Whether the row of an operand is a value: of a tuple, one that is computed by rows."""
        return isinstance(operand.ty, TensorType) or (
            self.count[operand] == 1 and isinstance(self.scope.values.get(operand), Tuple)
        )

    def _add(self, atom: Expr, axis: int, axes: Axes | None) -> bool:
        """Bind the row of a value; whether it is a product of a row."""
        row = None if axes is None else self._of_rows(atom, axis, axes)
        if row is None:
            taken = Call(get("take"), (atom, self.index), replace(self.attrs, axis=axis))
            typed = self.scope.typed(taken)
            assert typed is not None, atom
            row = replace(taken, ty=typed[0])
        self.rows[atom] = Var(f"{atom.name}_row" if isinstance(atom, Var) else "row", ty=row.ty)
        self.out.append((self.rows[atom], row))
        return isinstance(row, Call) and isinstance(row.op, Op) and row.op.name in PRODUCTS

    def _of_rows(self, atom: Expr, axis: int, axes: Axes) -> Expr | None:
        """The row of a value by those of its operands; None if it has another type then, by sizes among its attributes."""
        value = self.scope.values[atom]
        operands = tuple(x if own is None else self.rows[x] for x, own in zip(_operands(value), axes, strict=True))
        if isinstance(value, Tuple):
            return replace(value, fields=operands, ty=TupleType(tuple(tensor_type(x) for x in operands)))
        assert isinstance(value, Call)
        call, ty = replace(value, args=operands), tensor_type(atom)
        wanted = TensorType((*ty.shape[:axis], dim(1), *ty.shape[axis + 1 :]), ty.dtype)
        return replace(call, ty=wanted) if self.scope.typed(call) == (wanted, ()) else None


def _operands(value: Expr | None) -> tuple[Expr, ...]:
    if isinstance(value, Tuple):
        return value.fields
    return value.args if isinstance(value, Call) else ()
