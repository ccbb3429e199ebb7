"""Inline the operators of a group: the element of a result as one expression over elements of the group's parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.axes.reduce import reduced_axes
from ....shape_funcs.symbolic.dim import Dim
from ...core.compute import Load, Scalar, Value
from ...core.group import Group, Node
from ...core.op import OpPattern
from .expression import AXIS, LOAD, Cell, Cells, substituted

#: The largest number of cells of a sensible kernel; beyond it, fuse less.
MAX_CELLS = 5_000


class TooComplex(Exception):
    """The operators of a group read so many different elements per result element that they should not be fused."""


@frozen
class Nest:
    """The loop nest that computes one result.

    ``dims``: the extent of each loop, outermost first; the last ``folded`` loops run over the axes that a reduction folds.
    ``cells``: their axes are loop numbers, their loads read parameters.  ``element``: the cell that is stored or folded.
    ``store``: the loop of each axis of the result, None for an axis of size 1 left by a reduction.  ``columns``: the innermost
    loop is not folded, the loops before it are.
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
    def reduces(self) -> bool:
        """Whether the element is folded.  A reduction along no axis folds each element alone: ``folded`` is 0."""
        return self.reduction is not None

    @property
    def roots(self) -> tuple[int, ...]:
        """The cells that reach all computed cells."""
        return (self.element,)


def nests(group: Group) -> list[Nest]:
    """One loop nest per result, in order.  Raises TooComplex."""
    return [nest_of(group, ref) for ref in group.results]


@frozen
class OpenNest:
    """The loop nest of a value before inner values are inlined: ``root`` is the cell of its element in ``inliner``.

    The other fields are those of Nest.
    """

    inliner: Inliner
    dims: tuple[Dim, ...]
    folded: int
    root: int
    store: tuple[int | None, ...]
    reduction: Node | None = None


def nest_of(group: Group, ref: int, columns: bool = False) -> Nest:
    """The loop nest of a result; ``columns``: the innermost loop is the innermost axis, which must not be folded.

    Raises TooComplex.
    """
    found = open_nest(group, ref, columns)
    cells, element = found.inliner.finish(found.root)
    return Nest(ref, found.dims, found.folded, cells, element, found.store, found.reduction, columns)


def open_nest(group: Group, ref: int, columns: bool = False) -> OpenNest:
    """The loop nest of a result, in which no inner value is inlined yet."""
    inliner = Inliner(group)
    shape = group.values()[ref].shape
    node, _ = inliner.producer(ref)
    if node.operator.pattern is not OpPattern.COMM_REDUCE:
        root = inliner.element(ref, inliner.axes(range(len(shape))))
        return OpenNest(inliner, shape, 0, root, tuple(range(len(shape))))
    source = group.values()[node.args[0]].shape
    folded = reduced_axes(node.attrs, len(source))
    order = [a for a in range(len(source)) if a not in folded]
    order = [*order[:-1], *folded, order[-1]] if columns else [*order, *folded]
    loop = {axis: number for number, axis in enumerate(order)}
    root = inliner.compute(ref, inliner.axes(loop[a] for a in range(len(source))))
    kept = [None if a in folded else loop[a] for a in range(len(source)) if node.attrs.keepdims or a not in folded]
    return OpenNest(inliner, tuple(source[a] for a in order), len(folded), root, tuple(kept), node)


def _loads(ref: int, dtype: str) -> Callable[[tuple[Scalar, ...]], Scalar]:
    return lambda at: Load(ref, at, dtype)


class Inliner:
    """Runs each operator's ``compute`` once per distinct element that is needed of its value."""

    def __init__(self, group: Group) -> None:
        self.group, self.cells = group, Cells()
        self.values = [Value(t.dtype, t.shape, ref, _loads(ref, t.dtype)) for ref, t in enumerate(group.values())]
        self.first_output = len(group.params) + len(group.literals)
        self.substitution: dict[int, int] = {}  # the cell that replaces an element of an inner value
        self._producers = [(n, k) for n in group.nodes for k in range(len(n.outputs))]

    def producer(self, ref: int) -> tuple[Node, int]:
        """The node that computes a value, and the number of the output."""
        return self._producers[ref - self.first_output]

    def axes(self, numbers: Any) -> tuple[int, ...]:
        """The cells of loop variables."""
        return tuple(self.cells.put(Cell(AXIS, "int64", (), n)) for n in numbers)

    def element(self, ref: int, at: Sequence[int]) -> int:
        """The cell of an element of a value."""
        return self.cells.put(Cell(LOAD, self.values[ref].dtype, tuple(at), ref))

    def compute(self, ref: int, axes: Sequence[int]) -> int:
        """The element at ``axes`` of value ``ref``, from the ``compute`` of its operator."""
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
        """The cells that ``root`` reaches, with every inner value inlined."""
        self.expand()
        cells, (element,) = substituted(self.cells, self.substitution, [root])
        return cells, element

    def expand(self) -> None:
        """Compute the cell that replaces each element of an inner value."""
        done = 0
        while done < len(self.cells):
            cell = self.cells[done]
            if cell.kind == LOAD and cell.what >= len(self.group.params):
                self.substitution[done] = self._inner(cell)
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
        """The cell of an element of a reduction's result.  Raises TooComplex: in this class a reduction ends its group."""
        raise TooComplex(f"{self.group.name}: a fold is used again")
