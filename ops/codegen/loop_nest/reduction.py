"""Folds of reductions as Python statements: state, step and result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...core.tensor_types import HALVES, computed_in, int_range, is_float
from .expression import CAST, LOAD, Cells
from .expression_text import indented, loops_around, zero_if_empty
from .scalar_functions import SCALAR_FUNCTIONS, cast_text, literal_text

#: The largest length of a run: each lane of a vectorised loop then adds at most some tens of elements.
RUN = 4096


@frozen
class Pair:
    """Two elements that are combined in float32 before the state takes them: the statement for each of them."""

    first: str
    second: str


@frozen
class Run:
    """Up to RUN neighbouring elements folded in their own dtype: state and step of the fold, and the statement for the run."""

    state: tuple[tuple[str, str], ...]
    step: tuple[str, ...]
    join: tuple[str, ...]


@frozen
class BlockScan:
    """A fast scan of neighbouring elements: a fold of them, the condition ``nothing`` that none changes the outer fold, and the
    run that finds the element that does; ``find_among_few``: the statements of a loop that finds it; ``is_largest``: whether the
    element is the largest, not the smallest.

    The run folds positions ``{within}`` the block, in ``place``; its statement for the run has the ``{at}`` of the place found.
    """

    best: Fold
    nothing: str
    find: Run
    place: str
    find_among_few: tuple[str, ...]
    is_largest: bool


@frozen
class Fold:
    """A reduction as statements.

    ``state``: the variables with their initial values.  ``step``: statements, with ``{e}`` for the element and ``{at}`` for
    its position among the folded elements.  ``value``: the result, of dtype ``dtype``, with ``{count}`` for their number.
    ``needs_one``: an empty axis has no result.  ``dtypes``: of the variables.  ``run``: for elements that are loaded faster
    than they can be widened.  ``pair``: for elements that were halves: two have as many bits as a float32, and are widened once.
    ``block_scan``: for folds that most elements do not change.
    """

    state: tuple[tuple[str, str], ...]
    step: tuple[str, ...]
    value: str
    dtype: str
    dtypes: tuple[str, ...]
    needs_one: bool = False
    run: Run | None = None
    pair: Pair | None = None
    block_scan: BlockScan | None = None

    @property
    def is_wide(self) -> bool:
        """Whether a variable is a float64: LLVM then chooses vectors by it, also of halves, which are converted twice."""
        return "float64" in self.dtypes


def fold(combine: str, element: str, attrs: Any, name: str) -> Fold:
    """The fold of elements of dtype ``element``; its variables begin with ``name``."""
    match combine:
        case "sum" | "prod":
            return _arithmetic("+" if combine == "sum" else "*", 0 if combine == "sum" else 1, element, name)
        case "all" | "any":
            sign = "&" if combine == "all" else "|"
            return Fold(((name, str(combine == "all")),), (f"{name} = {name} {sign} {{e}}",), name, "bool", ("bool",))
        case "max" | "min":
            larger = SCALAR_FUNCTIONS["maximum" if combine == "max" else "minimum"].python([name, "{e}"], element, element)
            if is_float(element):
                larger = f"{'larger' if combine == 'max' else 'smaller'}({name}, {{e}})"
            return Fold(
                ((name, _extreme(combine == "max", element)),),
                (f"{name} = {larger}",),
                name,
                element,
                (computed_in(element),),
                True,
            )
        case "argmax" | "argmin":
            return _position(combine == "argmax", element, attrs.select_last_index, name)
        case "variance":
            return _variance(element, name)
    raise AssertionError(combine)


def is_widened(cells: Cells, element: int) -> bool:
    """Whether an element is a half that a cast makes float32: a sum in float64 converts it twice, longer than reading takes."""
    cast = cells[element]
    if cast.kind != CAST or cast.dtype != "float32":
        return False
    read = cells[cast.args[0]]
    return read.kind == LOAD and read.dtype in HALVES


def folded(text: str, cells: Cells, element: int, made: Fold) -> str:
    """The text of an element that a fold takes.

    A float16 becomes float32, then float64: CPUs that have an instruction for both take twice as long by it.
    """
    if not made.is_wide or not is_widened(cells, element):
        return text
    return f"settled({text})" if cells[cells[element].args[0]].dtype == "float16" else text


def fold_dtype(combine: str, element: str, attrs: Any) -> str:
    """The result dtype of a fold of elements of dtype ``element``."""
    return fold(combine, element, attrs, "").dtype


def pair_loops(
    made: Fold, cells: Cells, element: int, text: str, regions: list[list[str]], extents: Sequence[str], first: int, called: str
) -> list[str]:
    """Loops around a fold of pairs, numbered from ``first``; ``regions``: per loop, the statements before it.

    ``called``: the function for the range of the pairs.  To widen halves to float64 one by one takes twice as long as float32.

    Two neighbouring bfloat16s are a word, whose upper half is one float32, and whose lower half is shifted.  An instruction
    converts neighbouring float16s, so the second element of their pairs is half a loop away.
    """
    assert made.pair is not None
    axis, size = f"i{first + len(extents) - 1}", extents[-1]
    at, count = f"{axis}_at", f"({size} // 2)"
    are_words = cells[cells[element].args[0]].dtype == "bfloat16"
    where = (f"2 * {at}", f"2 * {at} + 1") if are_words else (at, f"{count} + {at}")
    pair = []
    for index, step in zip(where, (made.pair.first, made.pair.second), strict=True):
        pair += [f"{axis} = {index}", *regions[-1], step.format(e=text)]
    last = [step.format(e=folded(text, cells, element, made)) for step in made.step]
    lines = [f"for {at} in {called}({count}):", *indented(pair)]
    lines += [f"for {axis} in range({count} * 2, {size}):", *indented([*regions[-1], *last])]
    return loops_around(regions[:-1], zero_if_empty(list(extents))[:-1], lines, first)


def _arithmetic(sign: str, start: int, element: str, name: str) -> Fold:
    # the widest dtype of the kind; integers wrap to the same final value
    wide = "float64" if is_float(element) else "uint64" if element.startswith("u") else "int64"
    taken, run, pair = f"{name} {sign} {wide}({{e}})", None, None
    if is_float(element):
        taken = f"{'add' if sign == '+' else 'multiply'}_in_any_order({name}, {wide}({{e}}))"
    if sign == "+" and computed_in(element) == "float32":
        short = f"{name}run"
        step = f"{short} = add_in_any_order({short}, {{e}})"
        run = Run(((short, "float32(0)"),), (step,), (f"{name} = {name} + float64({short})",))
    if sign == "*" and computed_in(element) == "float32":
        product = f"float64({name}first * {{e}})"
        pair = Pair(f"{name}first = {{e}}", f"{name} = multiply_in_any_order({name}, {product})")
    return Fold(((name, f"{wide}({start})"),), (f"{name} = {taken}",), name, wide, (wide,), run=run, pair=pair)


def _extreme(smallest: bool, dtype: str) -> str:
    """The neutral element: every other value replaces it."""
    if is_float(dtype):
        return literal_text(float("-inf") if smallest else float("inf"), dtype)
    return f"{dtype}({int_range(dtype)[0 if smallest else 1]})"


def _position(largest: bool, element: str, last: bool, name: str) -> Fold:
    # the comparison is inverted, so that NaN enters the branch; NaN is rare, and the branch predictable
    worse = ("<" if largest else ">") + ("" if last else "=")
    # NaN is both the largest and the smallest value: the first (or last) NaN is the result
    nan = f"({name} == {name})" + (" | ({e} != {e})" if last else "") if is_float(element) else "True"
    steps = (f"if not ({{e}} {worse} {name}):", f"    if {nan}:", f"        {name} = {{e}}", f"        {name}_at = {{at}}")
    state = ((name, _extreme(largest, element)), (f"{name}_at", "0"))
    best, extreme = fold("max" if largest else "min", element, None, f"{name}run"), f"{name}run"
    # a block with NaN, whose extreme is NaN, changes the fold, until the fold is NaN itself; then a last NaN changes it
    stays = f" | (({name} != {name}) & ({extreme} == {extreme}))" if last else f" | ({name} != {name})"
    nothing = f"({extreme} {worse} {name})" + (stays if is_float(element) else "")
    found = f"({{e}} == {extreme})" + (" | ({e} != {e})" if is_float(element) else "")
    few = (f"if {found}:", f"    {name} = {{e}}", f"    {name}_at = {{at}}", *(() if last else ("    break",)))
    # among many, no loop that ends at the first: all positions are compared side by side, in vectors of 32 bits
    place, nearer, nowhere = f"{name}place", "max" if last else "min", f"int32({-1 if last else 2**31 - 1})"
    step = f"{place} = {nearer}({place}, {{within}} if {found} else {nowhere})"
    find = Run(((place, nowhere),), (step,), (f"{name} = {extreme}", f"{name}_at = {{at}}"))
    block_scan = BlockScan(best, nothing, find, place, few, largest)
    return Fold(state, steps, f"{name}_at", "int64", (computed_in(element), "int64"), True, block_scan=block_scan)


def _variance(element: str, name: str) -> Fold:
    # Sums of distances from the first element.  Its distance from the mean is at most sqrt(count) standard deviations, so the
    # difference below loses at most a factor of count of float64's precision; one pass needs no division.
    first, total, away = f"{name}_first", f"{name}_total", f"{name}_away"
    x = cast_text("{e}", element, "float64") if element != "float64" else "{e}"
    steps = (
        f"{first} = {x} if {{at}} == 0 else {first}",
        f"{away} = {x} - {first}",
        f"{total} = {total} + {away}",
        f"{name} = {name} + {away} * {away}",
    )
    zero, count = "float64(0.0)", "float64({count})"
    # if squares overflow or an element is infinite, only the sums tell infinity from NaN
    apart = f"{name} - {total} * ({total} / {count}) if math.isfinite({name}) else {name} + ({total} - {total})"
    value = f"(({apart}) / {count})"
    return Fold(((name, zero), (first, zero), (total, zero)), steps, value, "float64", ("float64",) * 3)
