"""The element of a group's result, as one expression over the elements of its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...shape_funcs.dims import Dim
from ...shape_funcs.reduce import reduced_axes
from ..compute import Load, Scalar, Value
from ..group import Group, Node
from ..op import OpPattern
from .expression import AXIS, LOAD, Cell, Cells, resolved

#: More cells than this make no sensible kernel: fuse less.
MAX_CELLS = 5_000


class TooComplex(Exception):
    """The operators of a group read so many different elements for one result element that they should not be fused."""


@dataclass(frozen=True)
class Nest:
    """The loops that compute one result.

    ``dims``: the extent of each loop, outermost first; the last ``folded`` of them are the axes that a reduction folds.
    ``cells``: their axes are loop numbers, their loads read parameters.  ``element``: what is stored, or folded.
    ``store``: the loop of each axis of the result, None for one of size 1 that a reduction left.  ``columns``: the innermost
    loop is not folded, those before it are.
    """

    result: int
    dims: tuple[Dim, ...]
    folded: int
    cells: Cells
    element: int
    store: tuple[int | None, ...]
    reduction: Node | None = None
    columns: bool = False

    @property
    def roots(self) -> tuple[int, ...]:
        """The cells from which all that the loops compute is reached."""
        return (self.element,)


def nests(group: Group) -> list[Nest]:
    """One loop nest per result, in order.  Raises TooComplex."""
    return [nest_of(group, ref) for ref in group.results]


def nest_of(group: Group, ref: int, columns: bool = False) -> Nest:
    """The loop nest of a result; ``columns``: with the innermost axis, which must not be folded, as the innermost loop.

    Raises TooComplex.
    """
    composition = Composition(group)
    shape = group.values()[ref].shape
    node, _ = composition.producer(ref)
    if node.operator.pattern is not OpPattern.COMM_REDUCE:
        element = composition.element(ref, composition.axes(range(len(shape))))
        cells, element = composition.finish(element)
        return Nest(ref, shape, 0, cells, element, tuple(range(len(shape))))
    source = group.values()[node.args[0]].shape
    folded = reduced_axes(node.attrs, len(source))
    order = [a for a in range(len(source)) if a not in folded]
    order = [*order[:-1], *folded, order[-1]] if columns else [*order, *folded]
    loop = {axis: number for number, axis in enumerate(order)}
    cells, element = composition.finish(composition.compute(ref, composition.axes(loop[a] for a in range(len(source)))))
    kept = [None if a in folded else loop[a] for a in range(len(source)) if node.attrs.keepdims or a not in folded]
    return Nest(ref, tuple(source[a] for a in order), len(folded), cells, element, tuple(kept), node, columns)


class Composition:
    """Runs the ``compute`` of each operator once for each different element wanted of it."""

    def __init__(self, group: Group) -> None:
        self.group, self.cells = group, Cells()
        self.values = [
            Value(t.dtype, t.shape, ref, lambda at, ref=ref, dtype=t.dtype: Load(ref, at, dtype))
            for ref, t in enumerate(group.values())
        ]
        self.first_output = len(group.params) + len(group.literals)
        self.meaning: dict[int, int] = {}  # what stands for an element of an inner value
        self._producers = [(n, k) for n in group.nodes for k in range(len(n.outputs))]

    def producer(self, ref: int) -> tuple[Node, int]:
        """The node that computes a value, and which of its outputs it is."""
        return self._producers[ref - self.first_output]

    def axes(self, numbers: Any) -> tuple[int, ...]:
        """The cells of loop variables."""
        return tuple(self.cells.put(Cell(AXIS, "int64", (), n)) for n in numbers)

    def element(self, ref: int, at: Sequence[int]) -> int:
        """The cell that stands for an element of a value."""
        return self.cells.put(Cell(LOAD, self.values[ref].dtype, tuple(at), ref))

    def compute(self, ref: int, axes: Sequence[int]) -> int:
        """What the operator of value ``ref`` says its element at ``axes`` is."""
        node, position = self.producer(ref)
        operator = node.operator
        assert operator.compute is not None, f"{operator.name} has no elements to compute"
        inputs = tuple(tuple(self.values[r] for r in a) if isinstance(a, tuple) else self.values[a] for a in node.args)
        indices: tuple[Scalar, ...] = tuple(self.cells.reference(a) for a in axes)
        dtypes = operator.dtype(tuple(tuple(x.dtype for x in i) if isinstance(i, tuple) else i.dtype for i in inputs), node.attrs)
        if not isinstance(dtypes, tuple):
            return self.cells.expression(operator.compute(inputs, indices, node.attrs, self.values[ref]))
        outputs = tuple(self.values[ref - position : ref - position + len(node.outputs)])
        return self.cells.expression(operator.compute(inputs, indices, node.attrs, outputs)[position])

    def finish(self, root: int) -> tuple[Cells, int]:
        """The cells that ``root`` needs, with every inner value replaced by what it is."""
        self.expand()
        cells, (element,) = resolved(self.cells, self.meaning, [root])
        return cells, element

    def expand(self) -> None:
        """Find what stands for each element of an inner value."""
        done = 0
        while done < len(self.cells):
            cell = self.cells[done]
            if cell.kind == LOAD and cell.what >= len(self.group.params):
                self.meaning[done] = self._inner(cell)
            done += 1
            if len(self.cells) > MAX_CELLS:
                raise TooComplex(f"{self.group.name}: one element needs more than {MAX_CELLS} operations; fuse fewer operators")

    def _inner(self, cell: Cell) -> int:
        literal = cell.what - len(self.group.params)
        if literal < len(self.group.literals):
            constant = self.group.literals[literal]
            return self.cells.literal(constant.value, constant.dtype)
        node, _ = self.producer(cell.what)
        if node.operator.pattern is OpPattern.COMM_REDUCE:
            return self.folded_value(cell.what, cell.args)
        return self.compute(cell.what, cell.args)

    def folded_value(self, ref: int, at: Sequence[int]) -> int:
        """The cell for an element of what a reduction gives.  Raises TooComplex: here a reduction is the last of its group."""
        raise TooComplex(f"{self.group.name}: a fold is used again")
