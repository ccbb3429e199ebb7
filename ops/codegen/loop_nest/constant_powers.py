"""Powers with a constant exponent, as products, quotients and square roots.

``x ** 3`` takes 2 multiplications, the function of any exponent some 40 operations.  The error is less than 2 units in the last
place: of the exponents 4 and -2 1.92, of 3, 1.5 and -0.5 1.5, of all others 0.5.  No intermediate result is out of range where
the power is in range: ``x ** -2`` is the square of ``1 / x``, since the square of ``x`` may be subnormal and its inverse is not.

Special numbers are those of C's ``pow``: ``sqrt`` of -0.0 is -0.0 and of -inf NaN, the power 0.5 of them 0.0 and inf.  Roots
are therefore of ``x + 0``, which is 0.0 for -0.0, with inf for -inf.
"""

from __future__ import annotations

import math
from typing import Protocol


class Expressions(Protocol):
    """The constructors of expressions, which are numbers."""

    def apply(self, function: str, *args: int, dtype: str | None = None) -> int:
        """``function(args)``."""

    def literal(self, value: float, dtype: str) -> int:
        """A constant."""


def constant_power(make: Expressions, x: int, exponent: float, dtype: str) -> int | None:
    """``x ** exponent`` without a call of the function; None if the exponent has no such expression."""
    if exponent == 0:
        return make.literal(1.0, dtype)  # of NaN, too
    if exponent == 1:
        return x
    if exponent in (2, 3, 4):
        return _whole_power(make, x, int(exponent))
    if exponent in (-1, -2):
        return _whole_power(make, _inverse(make, x, dtype), -int(exponent))
    if exponent in (0.5, 1.5, -0.5):
        base = _base_of_root(make, x, dtype)
        root = make.apply("sqrt", base)
        return root if exponent == 0.5 else _inverse(make, root, dtype) if exponent < 0 else make.apply("multiply", base, root)
    return None


def _whole_power(make: Expressions, x: int, exponent: int) -> int:
    """``x ** exponent`` for 1 to 4."""
    if exponent == 1:
        return x
    square = make.apply("multiply", x, x)
    return square if exponent == 2 else make.apply("multiply", square, x if exponent == 3 else square)


def _inverse(make: Expressions, x: int, dtype: str) -> int:
    return make.apply("divide", make.literal(1.0, dtype), x)


def _base_of_root(make: Expressions, x: int, dtype: str) -> int:
    """``x`` with 0.0 for -0.0 and inf for -inf."""
    lowest = make.apply("equal", x, make.literal(-math.inf, dtype), dtype="bool")
    raised = make.apply("add", x, make.literal(0.0, dtype))
    return make.apply("where", lowest, make.literal(math.inf, dtype), raised, dtype=dtype)
