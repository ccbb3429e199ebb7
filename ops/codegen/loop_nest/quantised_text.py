"""The text of a run of elements that are rounded to bytes: parts are vectors of numbers, of which some become one of bytes."""

from __future__ import annotations

import re
from collections.abc import Callable

from ....declarations.frozen_dataclass import frozen
from ...core.tensor_types import is_float
from ...native.static_values import static_range
from . import quantised_run
from .expression import CAST, LOAD, Cell, Cells
from .expression_text import Python, indented
from .linear_index import Lowered
from .quantised_cells import BYTES, FUNCTIONS, RunParts, parts_of, quantised_number
from .quantised_run import (
    PARTS,
    as_float32,
    as_int32,
    lanes_of_part,
    looked_up,
    no_parts,
    no_words,
    numbers_of_parts,
    part_inside,
    part_of,
    rounded_to_int8,
    rounded_to_uint8,
    store_numbers,
    store_numbers_inside,
    store_parts,
    store_parts_inside,
    store_words,
    store_words_inside,
)
from .statements import KernelContext, Writer

#: The functions that the texts call, by name.
_BODIES = {
    **{name: f for name, f in vars(quantised_run).items() if getattr(f, "__module__", "") == quantised_run.__name__},
    static_range.__name__: static_range,
}
_CALLS = re.compile(r"\b[a-z]\w*(?=\()")
#: The locals with the parts of a block, the first element of the last block, and the number of its elements.
_VECTORS, _END, _LEFT = "parts", "end", "left"


def parts_called(text: str) -> tuple[Callable[..., object], ...]:
    """The functions that the texts of this module call in a text."""
    return tuple(_BODIES[name] for name in sorted(set(_CALLS.findall(text)) & set(_BODIES)))


class Parts(Python):
    """Python, in which ``parts`` are vectors; ``read``: the text of a part of an array, by its name and the place."""

    def __init__(self, parts: RunParts, read: Callable[[str, str], str]) -> None:
        super().__init__()
        self.parts, self.read = parts, read

    def expression(self, cell: Cell, args: list[str], cells: Cells, array: Callable[[int], str]) -> str:
        if cell in self.parts.steps:
            return args[0]
        if cell not in self.parts.parts:
            return super().expression(cell, args, cells, array)
        if cell in self.parts.rounded:
            rounded = rounded_to_int8 if cell.dtype == "int8" else rounded_to_uint8
            return f"{rounded.__name__}({args[0]}, {_zero_point_text(self.parts.rounded[cell])})"
        if cell in self.parts.looked_up:
            return f"{looked_up.__name__}({array(cell.what)}, {args[0]}, {self.parts.looked_up[cell]})"
        if cell.kind == LOAD:
            return self.read(array(cell.what), args[0])
        if cell.kind == CAST:
            return f"{(as_float32 if is_float(cell.dtype) else as_int32).__name__}({args[0]})"
        return FUNCTIONS[cell.what].format(*args)


def _stored(cells: Cells, element: int) -> int | None:
    """An element of float32, or the int32 whose lowest byte an element is; None for another one."""
    cell = cells[element]
    if cell.dtype == "float32":
        return element
    is_byte = cell.kind == CAST and cell.dtype in BYTES
    return cell.args[0] if is_byte and cells[cell.args[0]].dtype == "int32" else None


def _zero_point_text(zero_point: int) -> str:
    return f"int32(0) + int32({zero_point})"


@frozen
class QuantisedRun:
    """The innermost loop of ``lowered``, whose elements are rounded to bytes, or follow from such bytes.

    ``number``: the cell that is stored, rounded if there is a ``zero_point``; ``parts``: the cells that are vectors.  Of numbers
    that are not rounded, float32 are stored as they are, and of int32 the lowest bytes.
    """

    lowered: Lowered
    number: int
    zero_point: int | None
    parts: RunParts

    @classmethod
    def of(cls, lowered: Lowered) -> QuantisedRun | None:
        """The run; None if nothing is rounded, or the elements are no text of vectors."""
        found = quantised_number(lowered.table, lowered.element)
        number, zero_point = (found.number, found.zero_point) if found else (_stored(lowered.table, lowered.element), None)
        if number is None:
            return None
        parts = parts_of(lowered.table, number, len(lowered.extents) - 1)
        return cls(lowered, number, zero_point, parts) if parts and parts.parts and (found or parts.rounded) else None

    def row(self, context: KernelContext, out: str, total: str, overwrites: bool) -> tuple[list[str], list[str]]:
        """The statements before all rows, and those of a row: ``count`` elements from ``begin`` on.

        ``total``: the local with the sum of an element, which is read from ``sums[first + begin]`` on.  The last block of a row
        begins earlier, so that it is whole: some elements are computed twice, unless the row ``overwrites`` an operand.
        """
        whole, last = self._block(context, "block", _whole, total), self._block(context, _END, _inside, total)
        place, at = self._written(context, self.lowered.offset)
        width, (store, store_inside) = f"{numbers_of_parts.__name__}()", self._stores()
        rounded = "" if self.zero_point is None else f"{_zero_point_text(self.zero_point)}, "
        stored = f"({_VECTORS}, {rounded}{out}, {at}"
        blocks = [*whole.inside, f"{self._index} = block", *place.regions[-1], f"{store.__name__}{stored})"]
        rest = [*last.inside, f"{self._index} = {_END}", *place.regions[-1], f"{store_inside.__name__}{stored}, {_LEFT})"]
        if overwrites:
            loops = [
                f"{_END} = begin + count // {width} * {width}",
                f"for block in range(begin, {_END}, {width}):",
                *indented(blocks),
            ]
        else:
            early = [f"block = min({_END}, begin + count - {width})", *blocks, f"{_END} += {width}"]
            loops = [f"{_END} = begin", f"while count >= {width} and {_END} < begin + count:", *indented(early)]
        row = [
            *(line for writer in (place, whole.writer, last.writer) for region in writer.regions[1:-1] for line in region),
            *loops,
            *(f"{_LEFT} = begin + count - {_END}", f"if {_LEFT} > 0:", *indented(rest)),
        ]
        return [line for writer in (place, whole.writer, last.writer) for line in writer.regions[0]], row

    @property
    def _is_of_words(self) -> bool:
        """Whether the lowest bytes of int32 are stored."""
        return self.lowered.table[self.number].dtype == "int32"

    def _stores(self) -> tuple[Callable[..., None], Callable[..., None]]:
        """The functions that store a block, and the first elements of one."""
        if self._is_of_words:
            return store_words, store_words_inside
        return (store_numbers, store_numbers_inside) if self.zero_point is None else (store_parts, store_parts_inside)

    @property
    def _index(self) -> str:
        """The local with the index of an element in the run."""
        return f"i{len(self.lowered.extents) - 1}"

    def _block(self, context: KernelContext, begin: str, read: Callable[[str, str], str], total: str) -> _Block:
        """The numbers of a block that begins at the local ``begin``; ``read``: see ``Parts``."""
        writer, value = self._written(context.with_language(Parts(self.parts, read)), self.number)
        place = [f"{self._index} = {begin} + part * {lanes_of_part.__name__}()"]
        part = [*place, f"{total} = {read('sums', f'first + {self._index}')}", *writer.regions[-1], f"{_VECTORS}[part] = {value}"]
        loop = [f"for part in {static_range.__name__}({PARTS}):", *indented(part)]
        return _Block(writer, [f"{_VECTORS} = {(no_words if self._is_of_words else no_parts).__name__}()", *loop])

    def _written(self, context: KernelContext, cell: int) -> tuple[Writer, str]:
        """A writer that has written a cell, and the cell's text."""
        writer = Writer(self.lowered.table, len(self.lowered.extents), context)
        return writer, writer.value(cell)


@frozen
class _Block:
    """The statements of a block: those that ``writer`` has outside of it, and those inside."""

    writer: Writer
    inside: list[str]


def _whole(array: str, at: str) -> str:
    return f"{part_of.__name__}({array}, {at})"


def _inside(array: str, at: str) -> str:
    return f"{part_inside.__name__}({array}, {at}, {_LEFT}, part)"
