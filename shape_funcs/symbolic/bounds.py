"""Bounds of differences of Dims, by which comparisons and limits are decided."""

from __future__ import annotations

import functools

from .dim import INT, KEPT, Dim, const, difference
from .int_operations import MAX, MIN


def gap(a: Dim, b: Dim) -> tuple[int | None, int | None]:
    """Bounds of ``a - b``: lower and upper, each None if unknown."""
    if a is b:
        return 0, 0
    if a.op == INT == b.op:
        difference = a.args[0] - b.args[0]
        return difference, difference
    return _unknown_gap(a, b)


@functools.lru_cache(KEPT)
def _unknown_gap(a: Dim, b: Dim) -> tuple[int | None, int | None]:
    """Bounds of ``a - b`` for different sizes of which one at least is unknown."""
    terms = difference(a, b)
    rest = terms.pop((), 0)
    low: int | None = rest
    high: int | None = rest
    for atoms, c in terms.items():
        least, most = _product_bounds(atoms) if c else (0, 0)
        least, most = (least, most) if c > 0 else (most, least)
        low = None if low is None or least is None else low + c * least
        high = None if high is None or most is None else high + c * most
    return low, high


def _product_bounds(atoms: tuple[Dim, ...]) -> tuple[int | None, int | None]:
    """Bounds of a product: 0 below if all factors are nonnegative; those of a single factor that is a limit by a number."""
    if len(atoms) > 1 or atoms[0].op not in (MIN, MAX):
        return (0 if all(a.nonneg for a in atoms) else None), None
    limits = [number for number in map(const, atoms[0].args) if number is not None]
    least = 0 if atoms[0].nonneg else None
    if atoms[0].op == MIN:
        return least, min(limits, default=None)
    return max((n for n in (least, *limits) if n is not None), default=None), None
