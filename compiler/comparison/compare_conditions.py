"""Conditions on a comparison, for CI: ``b.dtoh_bytes > 0``, ``b.time > a.time * 1.05 and not b.syncs == 1``.

A condition is parsed as Python's syntax and evaluated here: names of figures, numbers, ``+ - * /``, comparisons,
``and or not``, and parentheses; nothing else.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping

from ...declarations.frozen_dataclass import frozen
from ...ops.core.similar_names import did_you_mean
from ...vm.diagnostics.source import InputError
from ...vm.report.profile_report import Profile
from ...vm.state.state_layout import COUNTERS
from .compare import Comparison
from .compare_rows import RUN, Difference

#: Figures that are times, in nanoseconds, by the name of their row.
TIMES = {"time": "wall time", "kernel_time": "kernels time", "dtoh_time": "[memcpy DtoH] time", "htod_time": "[memcpy HtoD] time"}
#: The ratio to the first side's time of a run, and the ends of its 95 % interval, for conditions that are robust to noise.
RATIOS = ("time_ratio", "time_ratio_low", "time_ratio_high")
FIGURES = (*TIMES, *RATIOS, *COUNTERS)

_ARITHMETIC: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type, tuple[str, Callable[[float, float], bool]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
}


class ConditionError(ValueError):
    """A text that is no condition; the message names the mistake and the valid forms."""


Values = Mapping[tuple[str, str], float]


@frozen
class Condition:
    """A parsed condition.  ``text``: the source."""

    text: str
    tree: ast.expr

    def holds(self, values: Values) -> str | None:
        """None if the condition does not hold; else the comparison with numbers.  Raises InputError for a division by 0."""
        seen: list[str] = []
        try:
            return ", ".join(seen) if _truth(self.tree, values, seen) else None
        except ZeroDivisionError:
            raise InputError(f"fail-if: {self.text} divides by 0", help="multiply the other side instead") from None


def parse_condition(text: str, sides: tuple[str, ...]) -> Condition:
    """Parse a condition about these sides.  Raises ConditionError."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConditionError(f"{text!r} is no condition such as 'b.dtoh_bytes > 0' or 'b.time > a.time * 1.05'") from None
    _check(tree, text, sides, truth=True)
    return Condition(text.strip(), tree)


def failures(conditions: list[Condition], comparison: Comparison) -> Iterator[str]:
    """One line for each condition that holds, in any case.  Raises InputError for a division by 0."""
    for condition in conditions:
        for case, rows in zip(comparison.cases, comparison.tables, strict=True):
            numbers = condition.holds(_values(comparison.sides, rows, case.profiles))
            if numbers is not None:
                where = f" in the case {case.name}" if len(comparison.cases) > 1 else ""
                yield f"fail-if: {condition.text} holds{where} ({numbers})"


def _values(sides: tuple[str, ...], rows: tuple[Difference, ...], profiles: tuple[Profile, ...]) -> Values:
    by_name = {r.name: r for r in rows if r.key.kind == RUN}
    wall, out = by_name[TIMES["time"]], dict[tuple[str, str], float]()
    for i, side in enumerate(sides):
        verdict = wall.verdict(i)
        ratios = (1.0, 1.0, 1.0) if verdict is None else (verdict.ratio, verdict.low, verdict.high)
        out |= {(side, name): ratio for name, ratio in zip(RATIOS, ratios, strict=True)}
        out |= {(side, name): by_name[row].values[i] or 0 for name, row in TIMES.items()}
        out |= {(side, name): profiles[i].per_run(name) for name in COUNTERS}
    return out


# ---- validation ------------------------------------------------------------------------------------------------------------


def _check(node: ast.expr, text: str, sides: tuple[str, ...], truth: bool) -> None:
    """Raises ConditionError if the node is not a truth value (``truth``) or not a number."""
    match node:
        case ast.BoolOp(values=parts) if truth:
            for part in parts:
                _check(part, text, sides, truth=True)
        case ast.UnaryOp(op=ast.Not(), operand=part) if truth:
            _check(part, text, sides, truth=True)
        case ast.Compare(left=left, ops=ops, comparators=rest) if truth and all(type(o) in _COMPARISONS for o in ops):
            for part in (left, *rest):
                _check(part, text, sides, truth=False)
        case ast.BinOp(left=left, op=op, right=right) if not truth and type(op) in _ARITHMETIC:
            _check(left, text, sides, truth=False)
            _check(right, text, sides, truth=False)
        case ast.UnaryOp(op=ast.USub(), operand=part) if not truth:
            _check(part, text, sides, truth=False)
        case ast.Constant(value=value) if not truth and type(value) in (int, float):
            pass
        case ast.Attribute(value=ast.Name(id=side), attr=figure) if not truth:
            _check_name(side, figure, sides)
        case _:
            shown = ast.unparse(node)
            what = "a comparison, or several with and, or, not" if truth else "a number, SIDE.FIGURE, or these with + - * /"
            raise ConditionError(f"{shown!r} in {text!r} must be {what}")


def _check_name(side: str, figure: str, sides: tuple[str, ...]) -> None:
    if side not in sides:
        raise ConditionError(f"there is no side {side!r}{did_you_mean(side, sides)}; the sides are {', '.join(sides)}")
    if figure not in FIGURES:
        raise ConditionError(f"there is no figure {figure!r}{did_you_mean(figure, FIGURES)}; there are {', '.join(FIGURES)}")


# ---- evaluation ------------------------------------------------------------------------------------------------------------


def _truth(node: ast.expr, values: Values, seen: list[str]) -> bool:
    """Whether the node is true.  Comparisons that hold are added to ``seen``, with numbers."""
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_truth(p, values, seen) for p in parts)
        case ast.BoolOp(values=parts):
            return any(_truth(p, values, seen) for p in parts)
        case ast.UnaryOp(operand=part):
            inner: list[str] = []
            if _truth(part, values, inner):
                return False
            seen.append(f"not {' '.join(_shown(part, values))}")
            return True
        case ast.Compare(left=left, ops=ops, comparators=rest):
            numbers = [_number(n, values) for n in (left, *rest)]
            if not all(_COMPARISONS[type(o)][1](x, y) for o, x, y in zip(ops, numbers, numbers[1:], strict=False)):
                return False
            seen.append(" ".join(_shown(node, values)))
            return True
    raise AssertionError(ast.dump(node))


def _shown(node: ast.expr, values: Values) -> Iterator[str]:
    """A condition with its expressions replaced by their values."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=rest):
            yield _text(_number(left, values))
            for op, part in zip(ops, rest, strict=True):
                yield f"{_COMPARISONS[type(op)][0]} {_text(_number(part, values))}"
        case ast.BoolOp(op=op, values=parts):
            joined = " and " if isinstance(op, ast.And) else " or "
            yield f"({joined.join(' '.join(_shown(p, values)) for p in parts)})"
        case ast.UnaryOp(operand=part):
            yield f"not {' '.join(_shown(part, values))}"


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6g}"


def _number(node: ast.expr, values: Values) -> float:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_number(left, values), _number(right, values))
        case ast.UnaryOp(operand=part):
            return -_number(part, values)
        case ast.Constant(value=value):
            assert isinstance(value, (int, float))
            return value
        case ast.Attribute(value=ast.Name(id=side), attr=figure):
            return values[side, figure]
    raise AssertionError(ast.dump(node))
