"""The source of a fused group's kernel: one loop nest per result.

Where all operands lie in memory as the result does, one flat loop over all elements is written as well, which vectorises;
whether it holds is known at once or decided when the kernel runs.
"""

from __future__ import annotations

import re

from ...shape_funcs.dims import const
from ..group import Group
from ..native.status import EMPTY_REDUCTION
from ..ty import is_float
from .addresses import Lowered, Table, flat, general
from .composition import Nest, nests
from .expression import LOCAL, Cell
from .folding import Fold, fold
from .functions import cast_text
from .language import Python, indented
from .sizes import Sizes
from .source import KernelSource
from .writer import Outside, Writer

#: How many folds run at a time, where the innermost loop has at most so many lines.
LANES, MAX_LANE_LINES = 8, 12


def source(group: Group) -> KernelSource:
    """The kernel of a group of fusable operators: plain Python in the subset that numba compiles.

    Equal groups give equal text.  Raises TooComplex when the operators should not have been fused.
    """
    kernel = _Kernel(group)
    body = [line for nest in nests(group) for line in kernel.nest(nest)]
    lines = ["def kernel(argv, n):", *indented([*kernel.prologue, *body, "return 0"])]
    return KernelSource("\n".join(lines) + "\n")


class _Kernel(Sizes):
    """The text of one kernel, and what stands once at its beginning: addresses, sizes and arrays."""

    def __init__(self, group: Group) -> None:
        super().__init__(group, Python())
        self.outside = Outside(self.size, self.array, self.language)

    # ---- the beginning of the kernel -----------------------------------------------------------------------------------

    def define(self, name: str, text: str) -> str:
        return f"{name} = {text}"

    def _address(self, position: int) -> str:
        return self.once(("address", position), "t", f"load_i64(argv + {8 * position})")

    def array(self, position: int) -> str:
        """The array of a parameter, or of a result behind them."""
        tensor = self.tensors[position]
        sizes = [self.size(d) for d in tensor.shape if const(d) != 1] or ["1"]
        count = sizes[0] if len(sizes) == 1 else self.once(("count", tensor.shape), "c", " * ".join(sizes))
        address = self._address(position)
        return self.once(("array", position), "x", f"array_{tensor.dtype}(tensor({address}).data, {count})")

    def axis(self, position: int, axis: int) -> str:
        return f"tensor({self._address(position)}).shape[{axis}]"

    def element(self, position: int, number: int) -> str:
        return f"{'float64' if is_float(self.tensors[position].dtype) else 'int64'}({self.array(position)}[{number}])"

    # ---- loops -----------------------------------------------------------------------------------------------------------

    def nest(self, nest: Nest) -> list[str]:
        """The statements that compute one result."""
        short = flat(self.group, nest)
        if short is None:
            return self._loops(general(self.group, nest))
        if not short.equal:
            return self._loops(short)
        condition = " and ".join(f"{self.size(a)} == {self.size(b)}" for a, b in short.equal)
        long = self._loops(general(self.group, nest))
        return [f"if {condition}:", *indented(self._loops(short)), "else:", *indented(long)]

    def _loops(self, lowered: Lowered) -> list[str]:
        depth = len(lowered.extents)
        writer = Writer(lowered.table, depth, self.outside)
        result = self.array(len(self.group.params) + self.group.results.index(lowered.nest.result))
        element = writer.value(lowered.element)
        target = f"{result}[{_offset(writer.value(lowered.offset))}]"
        extents = [self.size(d) for d in lowered.extents]
        if lowered.nest.reduction is None:
            lines = _nested(writer.regions, extents, [f"{target} = {element}"])
            return _unless_empty(extents, lines) if writer.hoisted else lines
        return self._folding(lowered, writer, extents, element, target)

    def _folding(self, lowered: Lowered, writer: Writer, extents: list[str], element: str, target: str) -> list[str]:
        """The loops of a reduction: the folded axes are the innermost ones."""
        kept = len(extents) - lowered.folded
        reduction = lowered.nest.reduction
        assert reduction is not None and reduction.operator.reduction is not None
        dtype = lowered.table[lowered.element].dtype
        folding = fold(reduction.operator.reduction.combine, dtype, reduction.attrs, self.outside.fresh())
        begin = [f"{name} = {value}" for name, value in folding.state]
        regions, inside = [[], *writer.regions[kept + 1 :]], extents[kept:]
        step = [line.format(e=element, at=_position(extents, kept)) for line in folding.step]
        wide = folding.join and lowered.folded and len(regions[-1]) <= MAX_LANE_LINES
        inner = _lanes(regions, inside, folding, step, kept) if wide else _nested(regions, inside, step, kept)
        finish, total = self._finish(lowered, folding, extents[kept:])
        end = [*finish, f"{target} = {total}"]
        lines = _nested(writer.regions[: kept + 1], extents[:kept], [*begin, *inner, *end])
        if folding.needs_one:
            refuse = _unless_empty(extents[:kept], [f"return {EMPTY_REDUCTION}"])
            if lowered.folded:
                lines = [f"if {' or '.join(f'{e} == 0' for e in extents[kept:])}:", *indented(refuse), *lines]
        if not writer.hoisted:
            return lines
        # nothing may be read ahead for an empty axis: there the result is what the fold begins with
        lines = _unless_empty(extents, lines)
        if folding.needs_one:
            return lines
        where = Writer(lowered.table, kept, self.outside)
        place = f"{target.partition('[')[0]}[{_offset(where.value(lowered.offset))}]"
        empty = _nested(where.regions, extents[:kept], [*begin, *finish, f"{place} = {total}"])
        return [*lines, "else:", *indented(empty)]

    def _finish(self, lowered: Lowered, folding: Fold, extents: list[str]) -> tuple[list[str], str]:
        """The statements that make the result of what was folded, and its text."""
        reduction, table = lowered.nest.reduction, Table()
        assert reduction is not None and reduction.operator.reduction is not None
        finish = reduction.operator.reduction.finish
        total = table.put(Cell(LOCAL, folding.dtype, (), folding.value))
        if finish is not None:
            count = table.put(Cell(LOCAL, "int64", (), f"({' * '.join(extents or ['1'])})"))
            total = table.expression(finish(table.reference(total), table.reference(count)))
        writer = Writer(table, 0, self.outside)
        value, dtype = writer.value(total), reduction.outputs[0].dtype
        return writer.regions[0], value if table[total].dtype == dtype else cast_text(value, table[total].dtype, dtype)


def _nested(regions: list[list[str]], extents: list[str], innermost: list[str], first: int = 0) -> list[str]:
    """Loops around ``innermost``; ``regions[k]`` stands in the k-th.  The loop variables count from ``first`` on."""
    lines = innermost
    for k in reversed(range(len(extents))):
        inside = regions[k + 1] if k + 1 < len(regions) else []
        lines = [f"for i{first + k} in range({extents[k]}):", *indented([*inside, *lines])]
    return [*(regions[0] if regions else []), *lines]


def _lanes(regions: list[list[str]], extents: list[str], folding: Fold, step: list[str], first: int) -> list[str]:
    """Loops around ``step``, the innermost one with LANES folds at a time, which are joined after it."""
    axis, size = f"i{first + len(extents) - 1}", extents[-1]
    own = re.compile("|".join(rf"\b{name}\b" for name, _ in folding.state))
    lines, block, joined = [], [], []
    for k in range(LANES):
        lane = f"_{k}"
        lines += [f"{name}{lane} = {start}" for name, start in folding.state]
        block += [f"{axis} = {axis}_block * {LANES} + {k}", *regions[-1]]
        block += [own.sub(lambda found, lane=lane: found[0] + lane, line) for line in step]
        joined += [line.format(lane=lane) for line in folding.join]
    lines += [f"for {axis}_block in range({size} // {LANES}):", *indented(block), *joined]
    lines += [f"for {axis} in range({size} // {LANES} * {LANES}, {size}):", *indented([*regions[-1], *step])]
    return _nested(regions[:-1], extents[:-1], lines, first)


def _position(extents: list[str], first: int) -> str:
    """The number of an element among those of the loops from ``first`` on."""
    text = ""
    for loop, extent in list(enumerate(extents))[first:]:
        text = f"({text} * {extent} + i{loop})" if text else f"i{loop}"
    return text or "0"


def _unless_empty(extents: list[str], lines: list[str]) -> list[str]:
    return [f"if {' and '.join(f'{e} > 0' for e in extents)}:", *indented(lines)] if extents else lines


def _offset(text: str) -> str:
    # an unsigned index: numba would count a negative one from the end
    return text if text.isdigit() else f"uint64({text})"
