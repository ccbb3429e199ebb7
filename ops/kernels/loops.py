"""The source of a fused group's kernel: one loop nest per result.

Where all operands lie in memory as the result does, one flat loop over all elements is written as well, which vectorises;
whether it holds is known at once or decided when the kernel runs.  Where no operand is repeated along an axis, but that is
known only then, the same goes for loops over rows and columns.
"""

from __future__ import annotations

import re

from ...shape_funcs.dims import const
from ..group import Group
from ..native import arithmetic, shares
from ..ty import is_float
from . import real_functions
from .addresses import Lowered, flat, general, unstretched
from .column_loops import ColumnText
from .division import GRAIN, LEVELS, Divided, loops, question
from .language import Python, element_of, indented, unless_empty
from .plan import plan, plans
from .row_loops import RowText
from .rows import Rows
from .sizes import Sizes
from .source import KernelSource
from .writer import Outside, Writer

#: The functions that texts may call, by name.
_MODULES = (arithmetic, real_functions, shares)
BODIES = {name: f for module in _MODULES for name, f in vars(module).items() if hasattr(f, "__native__")}
_CALLS = re.compile(r"\b[a-z]\w*(?=\()")


def source(group: Group) -> KernelSource:
    """The kernel of a group of fusable operators: plain Python in the subset that numba compiles.

    Equal groups give equal text.  Raises TooComplex when the operators should not have been fused.
    """
    kernel = _Kernel(group)
    asked = question(kernel, plans(group))
    kernel.outside.divided = bool(asked)
    kernel.prologue += asked
    body = [line for ref in group.results for line in kernel.lines(ref)]
    text = "\n".join(["def kernel(argv, n):", *indented([*kernel.prologue, *body, "return 0"])]) + "\n"
    bodies = tuple(BODIES[name] for name in sorted(set(_CALLS.findall(text)) & set(BODIES)))
    return KernelSource(text, bodies=bodies)


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

    def lines(self, ref: int) -> list[str]:
        """The statements that compute one result."""
        nest = plan(self.group, ref)
        if nest.columns:
            return self._loops(general(self.group, nest))
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
        ref = lowered.nest.result
        result = self.array(len(self.group.params) + self.group.results.index(ref))
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
