"""Kernels that differ in literals only are compiled once: scales and zero points of quantised layers, known sizes.

The text of such a kernel becomes a text without these literals: numbers, in the order of their first use, stand for them
(see ``ops.native.given_literals``).  Equal literals have one number where their lines are equal, as in the copies of a loop:
scales of a layer that are equal by chance make no other text.  A literal stays in the text where LLVM makes better code of its
value: 0, powers of two that multiply or divide real numbers, 1 that multiplies integers, ones of functions, bounds of
comparisons.  A zero point that is added to a rounded number is taken out whatever it is.  Only literals beside an arithmetic
operator are taken out, and sizes (see ``given_sizes``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

from ....native.given_literals import MOST, Literal
from .given_sizes import without_sizes

_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_REAL = rf"(float32|float64)\(({_NUMBER})\)"
_INTEGER = r"(int8|int16|int32)\((-?\d+)\)"
#: Literals after and before an operator of real numbers; after an operator of integers.
_POSITIONS = re.compile(rf"(?<=[-+*/] ){_REAL}|{_REAL}(?= [-+*/] )|(?<=[-+*] ){_INTEGER}")
#: The beginning of a sum of a rounded number and its zero point: of reals, whose name ends it, and of integers.
_SUM = re.compile(r"\((\w+) \+ $|int32\(0\) \+ $")
_ROUNDED = re.compile(r"(\w+) = round_float32\(")


def without_literals(text: str, bodies: Iterable[Callable[..., Any]] = ()) -> tuple[str, tuple[Literal, ...]]:
    """The text of a kernel with its literals taken out, and the literals; ``bodies``: the functions that it calls."""
    found: dict[tuple[str, str, str], int] = {}
    rounded = set(_ROUNDED.findall(text))
    shared = "\n".join([_line(line, found, rounded) for line in text.split("\n")])
    if len(found) > MOST:
        shared, found = text, {}
    shared, sizes = without_sizes(shared, tuple(bodies), len(found), MOST - len(found))
    numbers = (*(float(digits) if kind == "float" else int(digits) for _, kind, digits in found), *sizes)
    return shared.replace(", COUNT)", f", {len(numbers)})"), numbers


def _line(line: str, found: dict[tuple[str, str, str], int], rounded: Collection[str]) -> str:
    """A line of a text without its literals; ``found``: the numbers of literals, by line, kind and digits.

    ``rounded``: the names of rounded numbers.
    """
    matches = [match for match in _POSITIONS.finditer(line) if _is_zero_point(line, match, rounded) or not _stays(line, match)]
    if not matches:
        return line
    ends = [0, *(end for match in matches for end in match.span()), len(line)]
    between = [line[begin:end] for begin, end in zip(ends[::2], ends[1::2], strict=True)]
    parts, rest = [between[0]], "#".join(between).strip()
    for match, after in zip(matches, between[1:], strict=True):
        dtype, digits = _literal(match)
        kind = "float" if dtype.startswith("float") else "integer"
        number = found.setdefault((rest, kind, digits), len(found))
        parts += [f"{dtype}(given_{kind}({number}, COUNT))", after]
    return "".join(parts)


def _literal(match: re.Match[str]) -> tuple[str, str]:
    """The dtype and the digits of a literal."""
    return match[1] or match[3] or match[5], match[2] or match[4] or match[6]


def _operator_at(line: str, literal: re.Match[str]) -> str:
    """The operator beside a literal of a line: ``(v1 + float32(0.3))``, ``(float32(0.3) + v1)``."""
    before = line[literal.start() - 2]
    return before if before in "+-*/" else line[literal.end() + 1]


def _is_zero_point(line: str, literal: re.Match[str], rounded: Collection[str]) -> bool:
    """Whether a literal is added to a rounded number: zero points are 0 and 1 as well."""
    before = _SUM.search(line, 0, literal.start())
    return before is not None and (before[1] is None or before[1] in rounded)


def _stays(line: str, literal: re.Match[str]) -> bool:
    """Whether LLVM makes other code of this value than of other values.

    Halves and ones of functions, such as a sigmoid's, stay as well: a table would be read again in each row.
    """
    dtype, digits = _literal(literal)
    operator = _operator_at(line, literal)
    if not dtype.startswith("float"):
        return int(digits) == 0 or (operator == "*" and int(digits) == 1)
    value = float(digits)
    is_power = abs(math.frexp(value)[0]) == 0.5
    return value == 0 or math.isinf(value) or (is_power and (operator in "*/" or abs(value) <= 1))
