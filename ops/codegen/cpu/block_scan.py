"""Loops of folds that most elements do not change: the innermost loop scans a block of elements, and few of them twice.

The place of the largest of many values of an expensive function that never falls is found among the function's arguments.  The
largest argument has the largest value, but a smaller argument may have the same value after rounding.  If the value at a bound
below the largest argument is smaller, and no other argument is above the bound, then no other argument has the same value.
Otherwise all values of the block are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....declarations.frozen_dataclass import frozen
from ..loop_nest.expression_text import indented, loops_around, zero_if_empty
from ..loop_nest.reduction import BlockScan
from ..loop_nest.scalar_functions import SCALAR_FUNCTIONS, literal_text

#: The number of elements that are scanned together for one that changes the fold.
BLOCK = 256
#: Fewer elements are searched faster one by one than in vectors.
FEW = 32
#: The most elements of a loop in one vector at a time: more are folded faster in several vectors.
SHORT = 128
#: The distance of the bound, in shares of the argument: large, so that the value at the bound is smaller, and small, so that
#: other arguments are below the bound.
BELOW = 2.0**-12


@frozen
class Elements:
    """The text of an element, and the statements in each loop before it."""

    text: str
    regions: list[list[str]]


@frozen
class Rising:
    """A function of one argument that never falls, and the arguments of which elements are the values."""

    function: str
    arguments: Elements
    dtype: str

    def of(self, argument: str) -> str:
        """The value at an argument."""
        return SCALAR_FUNCTIONS[self.function].python([argument], self.dtype, self.dtype)


def ranges(extent: str, longer: str = "range") -> str:
    """The function for the range of a loop that folds so many elements; ``longer``: of a loop over many.

    Those of halves fill registers.
    """
    short = "filled_short_range" if longer.startswith("filled") else "short_range"
    return short if is_short(extent) else longer


def is_short(extent: str) -> bool:
    """Whether a loop is known to have few iterations."""
    return extent.isdigit() and int(extent) <= SHORT


def block_scan_loops(
    elements: Elements, rising: Rising | None, extents: list[str], scan: BlockScan, position: str, first: int
) -> list[str]:
    """Loops around a fold, numbered from ``first``; ``rising``: how the elements are made, if that is known."""
    axis, size = f"i{first + len(extents) - 1}", extents[-1]
    (best, start), *_ = scan.best.state

    def each(of: Elements, step: Sequence[str]) -> list[str]:
        inside = [f"{axis} = {axis}_run * {BLOCK} + {axis}_at", *of.regions[-1]]
        inside += [line.format(e=of.text, at=position, within=f"int32({axis}_at)") for line in step]
        return [f"for {axis}_at in {ranges(size)}(min({BLOCK}, {size} - {axis}_run * {BLOCK})):", *indented(inside)]

    def joined(place: str) -> list[str]:
        return [f"{axis} = {axis}_run * {BLOCK} + {place}", *(line.format(at=position) for line in scan.find.join)]

    found = [f"{name} = {value}" for name, value in scan.find.state]
    found += [*each(elements, scan.find.step), *joined(scan.place)]
    found = [f"if {size} < {FEW}:", *indented(each(elements, scan.find_among_few)), "else:", *indented(found)]
    scanned, regions = elements, elements.regions[:-1]
    lines = [f"{best} = {start}"]
    if rising is None:
        lines += each(elements, scan.best.step)
    else:
        scanned, largest, bound = rising.arguments, f"{best}_argument", f"{best}_bound"
        regions = [[*outer, *inner] for outer, inner in zip(scanned.regions[:-1], regions, strict=True)]
        lines += [*each(scanned, scan.best.step), f"{largest} = {best}", f"{best} = {rising.of(largest)}"]
        sign, beyond = ("-", ">") if scan.is_largest else ("+", "<")
        low, high = f"{best}_first", f"{best}_last"
        step = (
            f"{low} = min({low}, {{within}} if {{e}} {beyond} {bound} else int32({BLOCK}))",
            f"{high} = max({high}, {{within}} if {{e}} {beyond} {bound} else int32(-1))",
        )
        found = [
            f"{bound} = {largest} {sign} abs({largest}) * {literal_text(BELOW, rising.dtype)}",
            f"{low}, {high} = int32({BLOCK}), int32(-1)",
            *each(scanned, step),
            f"if ({low} == {high}) & ({best} {beyond} {rising.of(bound)}):",
            *indented(joined(low)),
            "else:",
            *indented(found),
        ]
    lines += [f"if not ({scan.nothing}):", *indented(found)]
    lines = [f"for {axis}_run in range(({size} + {BLOCK - 1}) // {BLOCK}):", *indented(lines)]
    return loops_around(regions, zero_if_empty(extents)[:-1], lines, first)
