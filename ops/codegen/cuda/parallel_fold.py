"""Folds of reductions on a CUDA device: many folds run in parallel and are combined in a fixed order.

Sums and products of float32 and float64 are accumulated in float64, as on the CPU: one conversion and one addition per four
bytes keep up with the memory of GPUs with full-rate float64 (16 conversions per clock and multiprocessor).  Of a row that
threads hold in registers, two packs are added in float32, as the CPU adds runs of elements, and their sum is converted: such a
kernel computes more of each element, and a conversion takes as long as eight additions.
Those of float16 and bfloat16 are accumulated in float32: each thread adds a few hundred elements, and then sums of similar size
are added.
"""

from __future__ import annotations

from string import Template
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...core.tensor_types import HALVES, ITEMSIZE, computed_in, int_range, is_float
from ..loop_nest.scalar_functions import SCALAR_FUNCTIONS
from .assembly import literal

_FOLD = Template("""\
struct $name {
  struct State {$fields };
  static constexpr bool commutes = $commutes, adds_packs = $adds_packs;
  static DEVICE State start() { return State{$start}; }
  static DEVICE void step(State& s, $element e, int64 at) { $step }
  static DEVICE void join(State& s, const State& o) { $join }
};
""")


@frozen
class Fold:
    """A reduction as CUDA C.

    ``state``: type, name and initial value of each variable.  ``step``: statements that fold the element ``e`` at position ``at``
    into the state ``s``.  ``join``: statements that combine ``s`` with another state ``o``.  ``value``: the result of
    the state ``s``, of dtype ``dtype``.  ``needs_one``: an empty axis has no result.  ``commutes``: whether states may be joined
    in either order, bit for bit.  ``adds_packs``: whether elements that a thread holds are added in float32, two packs together.
    """

    state: tuple[tuple[str, str, str], ...]
    step: str
    join: str
    value: str
    dtype: str
    needs_one: bool = False
    commutes: bool = False
    adds_packs: bool = False

    @property
    def nbytes(self) -> int:
        """An upper bound of the size of a state."""
        return 8 * len(self.state)

    def text(self, name: str, element: str) -> str:
        """The struct ``name`` of this fold, for elements of the dtype ``element``."""
        return _FOLD.substitute(
            name=name,
            fields="".join(f" {kind} {field};" for kind, field, _ in self.state),
            start=", ".join(value for _, _, value in self.state),
            commutes=str(self.commutes).lower(),
            adds_packs=str(self.adds_packs).lower(),
            element=computed_in(element),
            step=self.step,
            join=self.join,
        )


def fold(combine: str, element: str, attrs: Any) -> Fold:
    """The fold of elements of dtype ``element``."""
    match combine:
        case "sum" | "prod":
            return _arithmetic("+" if combine == "sum" else "*", int(combine == "prod"), element)
        case "all" | "any":
            sign = "&" if combine == "all" else "|"
            state = (("bool", "value", str(combine == "all").lower()),)
            step, join = (f"s.value = s.value {sign} {other};" for other in ("e", "o.value"))
            return Fold(state, step, join, "s.value", "bool", commutes=True)
        case "max" | "min":
            larger = SCALAR_FUNCTIONS["maximum" if combine == "max" else "minimum"]
            step, join = (larger.cuda_c(["s.value", other], element, element) for other in ("e", "o.value"))
            state = ((computed_in(element), "value", _extreme(combine == "max", element)),)
            return Fold(state, f"s.value = {step};", f"s.value = {join};", "s.value", element, True)
        case "argmax" | "argmin":
            return _position(combine == "argmax", element, attrs.select_last_index)
        case "variance":
            return _variance()
    raise AssertionError(combine)


def fold_dtype(combine: str, element: str, attrs: Any) -> str:
    """The result dtype of a fold of elements of dtype ``element``."""
    return fold(combine, element, attrs).dtype


def _arithmetic(sign: str, start: int, element: str) -> Fold:
    if is_float(element):
        wide = "float32" if element in HALVES else "float64"
    else:
        # a signed integer that is truncated at the end may overflow before; an unsigned one wraps
        wide = "uint64" if ITEMSIZE[element] == 8 else "uint32"
    state = ((wide, "value", f"{wide}({start})"),)
    step, join = (f"s.value = s.value {sign} {other};" for other in (f"{wide}(e)", "o.value"))
    adds_packs = sign == "+" and computed_in(element) == "float32"
    return Fold(state, step, join, "s.value", wide, commutes=True, adds_packs=adds_packs)


def _extreme(smallest: bool, dtype: str) -> str:
    """The neutral element: every other value replaces it."""
    if is_float(dtype):
        return literal(computed_in(dtype), float("-inf") if smallest else float("inf"))
    return literal(dtype, int_range(dtype)[0 if smallest else 1])


def _position(largest: bool, element: str, last: bool) -> Fold:
    sign, order = ">" if largest else "<", ">" if last else "<"

    def better(value: str, at: str) -> str:
        wins, equal = f"({value} {sign} s.value)", f"({value} == s.value)"
        if is_float(element):
            # NaN is both the largest and the smallest value: the first (or last) NaN is the result
            wins += f" | (({value} != {value}) & (s.value == s.value))"
            equal = f"({equal} | (({value} != {value}) & (s.value != s.value)))"
        return f"if ({wins} | ({equal} & ({at} {order} s.at)))"

    state = ((computed_in(element), "value", _extreme(largest, element)), ("int64", "at", "0"))
    step = f"{better('e', 'at')} {{ s.value = e; s.at = at; }}"
    return Fold(state, step, f"{better('o.value', 'o.at')} s = o;", "s.at", "int64", True)


def _variance() -> Fold:
    """Sums of the distances from one of the elements, and of their squares.

    The square of that element's distance from the mean is at most n times the variance of n elements: the difference of the
    sums loses at most that factor n of float64's precision.  Combined by the method of Chan, Golub and LeVeque (1979).
    """
    fields = ("number", "from", "sum", "squares")
    state = tuple(("float64", field, "0.0") for field in fields)
    step = (
        "if (s.number == 0.0) s.from = float64(e); "
        "const float64 away = float64(e) - s.from; "
        "s.number += 1.0; s.sum += away; s.squares += away * away;"
    )
    join = (
        "if (o.number == 0.0) return; "
        "if (s.number == 0.0) { s = o; return; } "
        "const float64 n = s.number + o.number, mean = s.from + s.sum / s.number; "
        "const float64 apart = o.from + o.sum / o.number - mean; "
        "s.squares = s.squares - s.sum * (s.sum / s.number) + (o.squares - o.sum * (o.sum / o.number)) "
        "+ apart * apart * (s.number * (o.number / n)); "
        "s.from = mean + apart * (o.number / n); s.sum = 0.0; s.number = n;"
    )
    value = "((s.squares - s.sum * (s.sum / s.number)) / s.number)"
    return Fold(state, step, join, value, "float64")
