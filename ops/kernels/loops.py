"""The source of a fused group's kernel: one loop nest per result.

Where all operands lie in memory as the result does, one flat loop over all elements is written as well, which vectorises;
whether it holds is known at once or decided when the kernel runs.  Where no operand is repeated along an axis, but that is
known only then, the same goes for loops over rows and columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...shape_funcs.dims import Dim, const
from ..group import Group
from ..native import arithmetic, shares, transposition
from ..ty import is_float
from . import real_functions
from .addresses import Lowered, flat, general, unstretched
from .column_loops import ColumnText
from .division import GRAIN, LEVELS, Divided, loops, question
from .language import Python, element_of, indented, unless_empty
from .pieces import Piece, pieces
from .plan import plan, plans
from .row_loops import RowText
from .rows import Rows
from .sizes import Sizes
from .source import KernelSource, either, same_place
from .tiles import TileText, crossings, in_tile_order, word_of
from .writer import Outside, Writer

#: The functions that texts may call, by name.
_MODULES = (arithmetic, real_functions, shares, transposition)
BODIES = {name: f for module in _MODULES for name, f in vars(module).items() if hasattr(f, "__native__")}
_CALLS = re.compile(r"\b[a-z]\w*(?=\()")


def source(group: Group) -> KernelSource:
    """The kernel of a group of fusable operators: plain Python in the subset that numba compiles.

    Equal groups give equal text.  Raises TooComplex when the operators should not have been fused.
    """
    text = _text(group, {})
    if group.in_place:
        # one address for both, said in so many words: else the compiler must expect that they overlap in another way
        places = {param: len(group.params) + result for param, result in group.in_place}
        text = either(same_place(places), _text(group, places), text)
    bodies = tuple(BODIES[name] for name in sorted(set(_CALLS.findall(text)) & set(BODIES)))
    return KernelSource(text, bodies=bodies)


def _text(group: Group, places: Mapping[int, int]) -> str:
    """The kernel where the parameters ``places`` lie at the address of other tensors, by their positions."""
    kernel = _Kernel(group, places)
    asked = question(kernel, plans(group))
    kernel.outside.divided = bool(asked)
    kernel.prologue += asked
    body = [line for ref in group.results for line in kernel.lines(ref)]
    return "\n".join(["def kernel(argv, n):", *indented([*kernel.prologue, *body, "return 0"])]) + "\n"


class _Kernel(Sizes):
    """The text of one kernel, and what stands once at its beginning: addresses, sizes and arrays."""

    def __init__(self, group: Group, places: Mapping[int, int]) -> None:
        super().__init__(group, Python())
        self.places = places
        self.outside = Outside(self.size, self.array, self.language)

    # ---- the beginning of the kernel -----------------------------------------------------------------------------------

    def define(self, name: str, text: str) -> str:
        return f"{name} = {text}"

    def _address(self, position: int) -> str:
        position = self.places.get(position, position)
        return self.once(("address", position), "t", f"load_i64(argv + {8 * position})")

    def array(self, position: int) -> str:
        """The array of a parameter, or of a result behind them."""
        return self._elements(position, self.tensors[position].dtype, "x")

    def words(self, position: int) -> str:
        """The same elements as unsigned integers."""
        return self._elements(position, word_of(self.tensors[position].dtype), "w")

    def _elements(self, position: int, dtype: str, prefix: str) -> str:
        tensor = self.tensors[position]
        sizes = [self.size(d) for d in tensor.shape if const(d) != 1] or ["1"]
        count = sizes[0] if len(sizes) == 1 else self.once(("count", tensor.shape), "c", " * ".join(sizes))
        address = self._address(position)
        return self.once((prefix, position), prefix, f"array_{dtype}(tensor({address}).data, {count})")

    def axis(self, position: int, axis: int) -> str:
        return f"tensor({self._address(position)}).shape[{axis}]"

    def element(self, position: int, number: int) -> str:
        return f"{'float64' if is_float(self.tensors[position].dtype) else 'int64'}({self.array(position)}[{number}])"

    # ---- loops -----------------------------------------------------------------------------------------------------------

    def lines(self, ref: int) -> list[str]:
        """The statements that compute one result."""
        nest = in_tile_order(self.group, plan(self.group, ref))
        if nest.columns:
            return self._loops(general(self.group, nest))
        found = self._in_pieces(ref, pieces(nest))
        if found is not None:
            return found
        variants = [v for v in (flat(self.group, nest), unstretched(self.group, nest)) if v is not None]
        # the first one that holds
        text: list[str] = []
        for variant in variants[:1] if variants and not nest.folded else variants:
            if not variant.equal:
                return [*text, "else:", *indented(self._loops(variant))] if text else self._loops(variant)
            condition = " and ".join(f"{self.size(a)} == {self.size(b)}" for a, b in variant.equal)
            text += [f"{'el' if text else ''}if {condition}:", *indented(self._loops(variant))]
        long = self._loops(general(self.group, nest))
        return [*text, "else:", *indented(long)] if text else long

    def _loops(self, lowered: Lowered) -> list[str]:
        folded = len(lowered.extents) - lowered.folded - lowered.nest.columns
        kept = [*lowered.extents[:folded], *lowered.extents[len(lowered.extents) - lowered.nest.columns :]]
        return self._unless_empty(kept, self._nest(lowered))

    def _unless_empty(self, kept: Sequence[Dim], lines: list[str]) -> list[str]:
        """Statements that run where there is a result: else an outer loop would run 2**60 times if the axis is as long."""
        sizes = [self.size(d) for d in kept if const(d) in (None, 0)]
        return unless_empty(sizes, lines) if len(kept) > 1 else lines

    def _nest(self, lowered: Lowered) -> list[str]:
        ref = lowered.nest.result
        position = len(self.group.params) + self.group.results.index(ref)
        found = crossings(self.group, lowered)
        if found:
            return TileText(self.group, lowered, found, self.outside, position, self.words).lines()
        result = self.array(position)
        if isinstance(lowered.nest, Rows):
            return RowText(lowered, self.outside, result, self.group.values()[ref].dtype).lines()
        if lowered.nest.columns:
            return ColumnText(lowered, self.outside, result).lines()
        writer = Writer(lowered.table, len(lowered.extents), self.outside)
        element = writer.value(lowered.element)
        target = element_of(result, writer.value(lowered.offset))
        extents = [self.size(d) for d in lowered.extents]
        # the innermost of several loops runs as it would alone
        n = min(len(extents) - 1, LEVELS) if len(extents) > 1 else len(extents)
        divided = Divided(extents[:n], grain=GRAIN if len(extents) == 1 else 1)
        lines = loops(self.outside, writer.regions, divided, extents[n:], [f"{target} = {element}"])
        return unless_empty(extents, lines) if writer.hoisted else lines

    def _in_pieces(self, ref: int, found: Sequence[Piece]) -> list[str] | None:
        """One innermost loop after the other.  None where there is one, or where something is read ahead of an empty one."""
        if len(found) == 1:
            return None
        result = self.array(len(self.group.params) + self.group.results.index(ref))
        around, inside = [self.size(d) for d in found[0].nest.dims[:-1]], list[str]()
        outer: list[list[str]] = [[] for _ in range(len(around) + 1)]
        for piece in found:
            lowered = general(self.group, piece.nest)
            writer = Writer(lowered.table, len(lowered.extents), self.outside)
            element = writer.value(lowered.element)
            stored = f"{element_of(result, writer.value(lowered.offset))} = {element}"
            if writer.hoisted:
                return None
            for lines, more in zip(outer, writer.regions, strict=False):
                lines += more
            start, stop = self.size(piece.start), self.size(piece.stop)
            if self.outside.divided and not around:
                start, stop = f"max({start}, low0)", f"min({stop}, high0)"
            inside += [f"for i{len(around)} in range({start}, {stop}):", *indented([*writer.regions[-1], stored])]
        if self.outside.divided and not around:
            return [*Divided([self.size(found[0].nest.dims[-1])], GRAIN).bounds(), *outer[0], *inside]
        lines = loops(self.outside, outer, Divided(around[:LEVELS]), around[LEVELS:], inside)
        return self._unless_empty(self.group.values()[ref].shape, lines)
