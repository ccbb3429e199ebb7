"""Plans of groups that use the result of a reduction, such as a softmax: several passes over each row.

    def @fused(%x) { let %m = max(%x, axis=[-1], keepdims=True); let %e = exp(subtract(%x, %m)); divide(%e, sum(%e, ...)) }

A *row* is the set of elements folded into one.  All reductions of such a group fold the same axes, the last ones, of the same
shape.  The group's result has one element per element of a row, or one per row.  So rows are independent of each other.  Pass 0
computes the folds that depend on no fold, pass 1 those that depend on a fold of pass 0, and so on; the result comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.axes.reduce import reduced_axes
from ....shape_funcs.symbolic.dim import Shape, const, dim
from ...core.group import Group, Node
from ...core.op import OpPattern
from ...core.tensor_types import is_float
from .expression import CAST, LOCAL, Cell, Cells, substituted
from .inlining import Inliner, Nest, OpenNest, TooComplex

#: ``(combine, element dtype, attrs) -> result dtype`` of a fold.
FoldDtype = Callable[[str, str, Any], str]


@frozen
class RowFold:
    """One fold over a row: its result is the local ``name`` of dtype ``dtype``, known after pass ``step``."""

    name: str
    combine: str
    attrs: Any
    dtype: str
    element: int
    step: int


@frozen
class Rows(Nest):
    """A Nest with folds: ``element`` is the result's and may depend on ``folds`` (LOCAL cells with their names).

    ``per_row``: the result has one element for each row.  ``innermost_kept``: the innermost axis is not folded.
    """

    folds: tuple[RowFold, ...] = field(default=())
    per_row: bool = False
    innermost_kept: bool = False

    @property
    def reduces(self) -> bool:
        """Whether the group has reductions: always."""
        return True

    @property
    def roots(self) -> tuple[int, ...]:
        return (self.element, *(f.element for f in self.folds))

    @property
    def steps(self) -> int:
        """The number of passes that fold."""
        return max(f.step for f in self.folds) + 1


def folds(group: Group, ref: int) -> bool:
    """Whether a value depends on a reduction of the group."""
    return bool(_reductions(group, ref))


def _reductions(group: Group, ref: int) -> list[Node]:
    """The reductions that a value depends on."""
    inliner, found = Inliner(group), dict[int, Node]()
    stack, seen = [ref], set[int]()
    while stack:
        value = stack.pop()
        if value >= inliner.first_output and value not in seen:
            seen.add(value)
            node, _ = inliner.producer(value)
            if _is_reduction(node):
                found[value] = node
            stack += [r for a in node.args for r in (a if isinstance(a, tuple) else (a,))]
    return list(found.values())


def uses_folds(group: Group, ref: int) -> bool:
    """Whether a value depends on a reduction's result and is not itself that result."""
    return folds(group, ref) and not _is_only_reduction(group, ref)


def _is_only_reduction(group: Group, ref: int) -> bool:
    """Whether a value is the result of a reduction that depends on no other reduction."""
    return _is_reduction(Inliner(group).producer(ref)[0]) and len(_reductions(group, ref)) == 1


def rows(group: Group, ref: int, fold_dtype: FoldDtype) -> Rows:
    """The plan of the value ``ref``, which depends on reductions.  Raises TooComplex if they do not all fold the same rows."""
    return _row_inliner(group, ref, fold_dtype).plan(ref)


def open_rows(group: Group, ref: int, fold_dtype: FoldDtype) -> OpenNest:
    """The loops of all passes, in which no inner value is inlined yet.  Raises TooComplex as ``rows``."""
    inliner = _row_inliner(group, ref, fold_dtype)
    root, store = inliner.root(ref)
    inliner.expand()
    return OpenNest(inliner, inliner.dims, len(inliner.folded), root, store)


def _row_inliner(group: Group, ref: int, fold_dtype: FoldDtype) -> _RowInliner:
    inliner = _RowInliner(group, ref, fold_dtype)
    last = tuple(range(inliner.kept, len(inliner.shape)))
    if not _is_only_reduction(group, ref) and not (inliner.kept and inliner.folded and inliner.folded == last):
        raise TooComplex(f"{group.name}: rows that do not lie in memory one after another")
    return inliner


def _is_reduction(node: Node) -> bool:
    return node.operator.pattern is OpPattern.COMM_REDUCE


class _RowInliner(Inliner):
    """An inliner that replaces each reduction by a local."""

    def __init__(self, group: Group, ref: int, fold_dtype: FoldDtype) -> None:
        super().__init__(group)
        self.fold_dtype = fold_dtype
        self.shape, self.folded = self._domain(_reductions(group, ref))
        rank = len(self.shape)
        order = [a for a in range(rank) if a not in self.folded] + list(self.folded)
        self.kept = rank - len(self.folded)
        self.dims = tuple(self.shape[a] for a in order)
        self.loop = {axis: number for number, axis in enumerate(order)}
        self.count = self.cells.literal(1)
        for a in self.folded:
            self.count = self.cells.apply("multiply", self.count, self.cells.size(self.shape[a]))
        self.found: dict[tuple[Any, ...], tuple[int, str]] = {}  # per fold: its element, and the dtype of its result
        self.name: dict[tuple[Any, ...], str] = {}

    def _domain(self, reductions: Iterable[Node]) -> tuple[Shape, tuple[int, ...]]:
        """The shape that all reductions fold, and the folded axes."""
        found = set()
        for node in reductions:
            shape = self.group.values()[node.args[0]].shape
            found.add((shape, reduced_axes(node.attrs, len(shape))))
        if len(found) != 1:
            raise TooComplex(f"{self.group.name}: folds of different rows")
        ((shape, folded),) = found
        return shape, folded

    def axes(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """The cells of loop variables.  A loop of one iteration has the cell of 0, so that equal indices are equal cells."""
        return tuple(self.cells.literal(0) if const(self.dims[n]) == 1 else self._loop_variable(n) for n in numbers)

    def _loop_variable(self, number: int) -> int:
        return super().axes([number])[0]

    def root(self, ref: int) -> tuple[int, tuple[int | None, ...]]:
        """The cell of an element of ``ref``, and the loop of each axis of ``ref``."""
        shape = self.group.values()[ref].shape
        all_axes = range(len(self.shape))
        kept = [a for a in all_axes if a not in self.folded]
        store: list[int | None]
        if shape == self.shape:
            store = [self.loop[a] for a in all_axes]
        elif shape == tuple(dim(1) if a in self.folded else self.shape[a] for a in all_axes):
            store = [None if a in self.folded else self.loop[a] for a in all_axes]
        elif shape == tuple(self.shape[a] for a in kept):
            store = [self.loop[a] for a in kept]
        else:
            raise TooComplex(f"{self.group.name}: the result is neither of the shape that is folded nor one per row")
        at = [self.cells.literal(0) if n is None else self.axes([n])[0] for n in store]
        return self.element(ref, at), tuple(store)

    def plan(self, ref: int) -> Rows:
        """The passes that compute the value ``ref``."""
        root, store = self.root(ref)
        folds, element = self._ordered(*self._finished(root))
        per_row = self.group.values()[ref].shape != self.shape
        innermost_kept = bool(self.folded) and self.folded[-1] != len(self.shape) - 1
        return Rows(
            ref, self.dims, len(self.folded), self.cells, element, store,
            folds=folds, per_row=per_row, innermost_kept=innermost_kept,
        )  # fmt: skip

    def _finished(self, root: int) -> tuple[int, list[int]]:
        self.expand()
        cells, roots = substituted(self.cells, self.substitution, [root, *(e for e, _ in self.found.values())])
        self.cells = cells
        return roots[0], roots[1:]

    def _ordered(self, element: int, elements: list[int]) -> tuple[tuple[RowFold, ...], int]:
        """The folds in the order of their passes."""
        by_name = {self.name[key]: (key, e) for key, e in zip(self.found, elements, strict=True)}
        steps: dict[str, int] = {}

        def step(name: str) -> int:
            if name not in steps:
                steps[name] = max((step(n) + 1 for n in _locals(self.cells, by_name[name][1])), default=0)
            return steps[name]

        order = sorted(by_name, key=lambda name: (step(name), int(name[1:])))
        folds = []
        for name in order:
            key, root = by_name[name]
            folds.append(RowFold(name, key[0], key[2], self.found[key][1], root, steps[name]))
        return tuple(folds), element

    # ---- reductions as locals --------------------------------------------------------------------------------------------

    def folded_value(self, ref: int, at: Sequence[int]) -> int:
        """The cell of an element of a reduction's result."""
        node, _ = self.producer(ref)
        operator, values = node.operator, self.group.values()
        assert operator.reduction is not None
        rank = len(self.shape)
        kept = [a for a in range(rank) if a not in self.folded]
        zero = self.cells.literal(0)
        own = list(self.axes(self.loop[a] for a in kept))
        if node.attrs.keepdims:
            own = [zero if a in self.folded else self.axes([self.loop[a]])[0] for a in range(rank)]
        if list(at) != own:
            raise TooComplex(f"{self.group.name}: a row needs the fold of another")
        element = self.compute(ref, self.axes(self.loop[a] for a in range(rank)))
        total = self._fold(operator.reduction.combine, element, node.attrs)
        if operator.reduction.finish is not None:
            # in float64, as the mean of a variance: both are the same quotient
            total = self._cast(total, "float64") if is_float(self.cells[total].dtype) else total
            count = self.cells.reference(self.count)
            total = self.cells.expression(operator.reduction.finish(self.cells.reference(total), count))
        return self._cast(total, values[ref].dtype)

    def _fold(self, combine: str, element: int, attrs: Any) -> int:
        if combine == "variance":
            # the mean first: this avoids the difference of two large numbers, and both passes are sums
            dtype = self.cells[element].dtype
            count = self._cast(self.count, "float64")
            mean = self.cells.apply("divide", self._cast(self._fold("sum", element, None), "float64"), count)
            away = self.cells.apply("subtract", element, self._cast(mean, dtype))
            squares = self._fold("sum", self.cells.apply("multiply", away, away), None)
            return self.cells.apply("divide", self._cast(squares, "float64"), count)
        last = getattr(attrs, "select_last_index", None)
        key = (combine, element, None if last is None else attrs)
        if key not in self.found:
            self.found[key] = element, self.fold_dtype(combine, self.cells[element].dtype, attrs)
            self.name[key] = f"f{len(self.name)}"
        return self.cells.put(Cell(LOCAL, self.found[key][1], (), self.name[key]))

    def _cast(self, cell: int, dtype: str) -> int:
        return cell if self.cells[cell].dtype == dtype else self.cells.put(Cell(CAST, dtype, (cell,)))


def _locals(cells: Cells, root: int) -> set[str]:
    """The names of the locals that a cell depends on."""
    return {str(cells[number].what) for number in cells.reached([root]) if cells[number].kind == LOCAL}
