"""How reductions fold: what they keep between elements, what an element does to it, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ty import computed_in, int_range, is_float
from .functions import SCALAR_FUNCTIONS, cast_text, literal_text

#: A run is no longer, so that each of the many lanes of a vectorised loop adds some tens of elements at most.
RUN = 4096


@dataclass(frozen=True)
class Run:
    """Up to RUN neighbouring elements folded in their own dtype: as state and step of a fold, and how it takes up the run."""

    state: tuple[tuple[str, str], ...]
    step: tuple[str, ...]
    join: tuple[str, ...]


@dataclass(frozen=True)
class Fold:
    """A reduction as statements.

    ``state``: the variables with their initial values.  ``step``: statements, with ``{e}`` for the element and ``{at}`` for
    its position among those folded.  ``value``: the result, of dtype ``dtype``.  ``needs_one``: an empty axis has no result.
    ``join``: statements that take up a second fold, whose variables end in ``{lane}``, where a loop takes one element at a
    time unless it is told to make several folds.  ``dtypes``: of the variables.  ``run``: where elements in memory are read
    faster than they can be made wider.
    """

    state: tuple[tuple[str, str], ...]
    step: tuple[str, ...]
    value: str
    dtype: str
    dtypes: tuple[str, ...]
    needs_one: bool = False
    join: tuple[str, ...] = ()
    run: Run | None = None


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


def fold_dtype(combine: str, element: str, attrs: Any) -> str:
    """The dtype of what a fold of elements of dtype ``element`` gives."""
    return fold(combine, element, attrs, "").dtype


def _arithmetic(sign: str, start: int, element: str, name: str) -> Fold:
    # the widest of its kind; integers wrap to the same value in the end
    wide = "float64" if is_float(element) else "uint64" if element.startswith("u") else "int64"
    taken, run = f"{name} {sign} {wide}({{e}})", None
    if is_float(element):
        taken = f"{'add' if sign == '+' else 'multiply'}_in_any_order({name}, {wide}({{e}}))"
    if sign == "+" and computed_in(element) == "float32":
        short = f"{name}run"
        step = f"{short} = add_in_any_order({short}, {{e}})"
        run = Run(((short, "float32(0)"),), (step,), (f"{name} = {name} + float64({short})",))
    return Fold(((name, f"{wide}({start})"),), (f"{name} = {taken}",), name, wide, (wide,), run=run)


def _extreme(smallest: bool, dtype: str) -> str:
    """The value that every other one replaces."""
    if is_float(dtype):
        return literal_text(float("-inf") if smallest else float("inf"), dtype)
    return f"{dtype}({int_range(dtype)[0 if smallest else 1]})"


def _position(largest: bool, element: str, last: bool, name: str) -> Fold:
    # turned round, so that a comparison with NaN asks further; that is rare, and so a predictable branch
    worse = ("<" if largest else ">") + ("" if last else "=")
    # NaN counts as the largest and as the smallest: the first (or last) one is the result
    nan = f"({name} == {name})" + (" | ({e} != {e})" if last else "") if is_float(element) else "True"
    steps = (f"if not ({{e}} {worse} {name}):", f"    if {nan}:", f"        {name} = {{e}}", f"        {name}_at = {{at}}")
    state = ((name, _extreme(largest, element)), (f"{name}_at", "0"))
    other, sign, order = f"{name}{{lane}}", ">" if largest else "<", ">" if last else "<"
    better, equal = f"({other} {sign} {name})", f"({other} == {name})"
    if is_float(element):
        better += f" | (({other} != {other}) & ({name} == {name}))"
        equal = f"({equal} | (({other} != {other}) & ({name} != {name})))"
    joined = (
        f"if {better} | ({equal} & ({name}_at{{lane}} {order} {name}_at)):",
        f"    {name} = {other}",
        f"    {name}_at = {name}_at{{lane}}",
    )
    return Fold(state, steps, f"{name}_at", "int64", (computed_in(element), "int64"), True, joined)


def _variance(element: str, name: str) -> Fold:
    # Welford's recurrence: one pass, and no difference of two large numbers
    number, mean, away = f"{name}_n", f"{name}_mean", f"{name}_away"
    x = cast_text("{e}", element, "float64") if element != "float64" else "{e}"
    steps = (
        f"{number} = {number} + float64(1.0)",
        f"{away} = {x} - {mean}",
        f"{mean} = {mean} + {away} / {number}",
        f"{name} = {name} + {away} * ({x} - {mean})",
    )
    zero = "float64(0.0)"
    return Fold(
        ((name, zero), (number, zero), (mean, zero), (away, zero)), steps, f"({name} / {number})", "float64", ("float64",) * 4
    )
