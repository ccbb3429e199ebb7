"""The operations of symbolic dims on ints: their names, and the semantics that the native evaluator must have."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

ADD, MUL, FLOORDIV, MOD, MIN, MAX, EQ, LT, WHERE, ARANGE, SCALED, DIVISION = (
    "add", "mul", "floordiv", "mod", "min", "max", "eq", "lt", "where", "arange_length", "scaled", "division",
)  # fmt: skip

#: The least and the greatest int64, the integers of shape programs.
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def as_float(bits: int) -> float:
    """The float64 with these bits."""
    (value,) = struct.unpack("<d", struct.pack("<q", bits))
    return float(value)


def _arange_length(start: int, stop: int, step: int) -> int:
    a, b, s = map(as_float, (start, stop, step))
    if s == 0.0 or math.isnan(a + b + s) or math.isinf(a + b + s):
        return 0
    ratio = (b - a) / s
    if ratio <= 0.0:
        return 0
    return 2**63 if ratio >= 4e18 else math.ceil(ratio)  # 2**63 is no valid size: the users report an overflow


def _scaled(size: int, factor: int) -> int:
    number = as_float(factor)
    if not number > 0:
        return 0
    product = float(size) * number
    return math.floor(product) if abs(product) < 4e18 else 2**63  # also for NaN: no valid size


#: Bits of the factors of a narrow and of a wide division.
NARROW, WIDE = 32, 55


def _division(by: int, total: int) -> int:
    if total > 2**WIDE:
        return 2**63  # no int64: the users report an overflow
    by = max(min(by, total), 1)  # all numbers are smaller than the total: their quotients are 0 for it, too
    bits, shift = WIDE if total >= 2**31 else NARROW, (by - 1).bit_length()
    factor = ((1 << bits) * ((1 << shift) - by)) // by + 1
    return factor << 8 | (bits == WIDE) << 7 | shift


#: Semantics of each operation on ints; a polynomial is evaluated with ``add`` and ``mul``.
SCALAR: dict[str, Callable[..., int]] = {
    ADD: lambda a, b: a + b,
    MUL: lambda a, b: a * b,
    FLOORDIV: lambda a, b: a // b if b else 0,
    MOD: lambda a, b: a % b if b else 0,
    MIN: min,
    MAX: max,
    EQ: lambda a, b: int(a == b),
    LT: lambda a, b: int(a < b),
    WHERE: lambda c, a, b: a if c else b,
    ARANGE: _arange_length,
    SCALED: _scaled,
    DIVISION: _division,
}
