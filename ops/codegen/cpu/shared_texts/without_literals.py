"""Kernels that differ in literals only are compiled once: scales and zero points of quantised layers, known sizes.

The text of such a kernel becomes a text without these literals: numbers, in the order of their first use, stand for them
(see ``ops.native.given_literals``).  A literal stays in the text where LLVM makes better code of its value: 0, powers of two
that multiply or divide, ones of functions, factors of integers, bounds of comparisons.  Only literals beside an arithmetic
operator are taken out, and sizes (see ``given_sizes``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from ....native.given_literals import MOST, Literal
from .given_sizes import without_sizes

_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_REAL = rf"(float32|float64)\(({_NUMBER})\)"
_INTEGER = r"(int8|int16|int32)\((-?\d+)\)"
#: Literals after and before an operator of real numbers; after a plus or a minus of integers.
_POSITIONS = re.compile(rf"(?<=[-+*/] ){_REAL}|{_REAL}(?= [-+*/] )|(?<=[-+] ){_INTEGER}")


def without_literals(text: str, bodies: Iterable[Callable[..., Any]] = ()) -> tuple[str, tuple[Literal, ...]]:
    """The text of a kernel with its literals taken out, and the literals; ``bodies``: the functions that it calls."""
    found: dict[tuple[str, str], int] = {}

    def number_of(match: re.Match[str]) -> str:
        dtype, digits = match[1] or match[3] or match[5], match[2] or match[4] or match[6]
        if _stays(dtype, digits, is_added=_operator_at(text, match) in "+-"):
            return match[0]
        kind = "float" if dtype.startswith("float") else "integer"
        number = found.setdefault((kind, digits), len(found))
        return f"{dtype}(given_{kind}({number}, COUNT))"

    shared = _POSITIONS.sub(number_of, text)
    if len(found) > MOST:
        shared, found = text, {}
    shared, sizes = without_sizes(shared, bodies, len(found), MOST - len(found))
    numbers = (*(float(digits) if kind == "float" else int(digits) for kind, digits in found), *sizes)
    return shared.replace(", COUNT)", f", {len(numbers)})"), numbers


def _operator_at(text: str, literal: re.Match[str]) -> str:
    """The operator beside a literal of a text: ``(v1 + float32(0.3))``, ``(float32(0.3) + v1)``."""
    before = text[literal.start() - 2]
    return before if before in "+-*/" else text[literal.end() + 1]


def _stays(dtype: str, digits: str, is_added: bool) -> bool:
    """Whether LLVM makes other code of this value than of other values; ``is_added``: added or subtracted.

    Halves and ones of functions, such as a sigmoid's, stay as well: a table would be read again in each row.
    """
    if not dtype.startswith("float"):
        return int(digits) == 0
    value = float(digits)
    is_power = abs(math.frexp(value)[0]) == 0.5
    return value == 0 or math.isinf(value) or (is_power and (not is_added or abs(value) <= 1))
