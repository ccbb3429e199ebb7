"""Operations on Dims beyond ``+ - * // %``: minimum, comparison, selection, lengths; substitution and evaluation."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from .bounds import gap
from .dim import POLY, RESULT, SYM, Dim, IntLike, const, dim, postorder, product, result_size, unnamed
from .int_operations import ARANGE, DIVISION, EQ, FLOORDIV, LT, MAX, MIN, MOD, MUL, SCALAR, SCALED, WHERE, as_float

_key = operator.attrgetter("key")
#: The depth of the deepest expressions whose value for 0 is compared with that for more.
_CASES_DEPTH = 8


def min_(a: IntLike, b: IntLike) -> Dim:
    """The minimum."""
    a, b = dim(a), dim(b)
    low, high = gap(a, b)
    if high is not None and high <= 0:
        return a
    return b if low is not None and low >= 0 else _limit(MIN, min, a, b)


def max_(a: IntLike, b: IntLike) -> Dim:
    """The maximum."""
    a, b = dim(a), dim(b)
    low, high = gap(a, b)
    if low is not None and low >= 0:
        return a
    if high is not None and high <= 0:
        return b
    simple = _by_cases(a, b)
    return _limit(MAX, max, a, b) if simple is None else simple


def _limit(op: str, choose: Callable[[int, int], int], a: Dim, b: Dim) -> Dim:
    """A minimum or maximum; ``max(max(x, 2), 3)`` is ``max(x, 3)``."""
    for nested, limit in ((a, const(b)), (b, const(a))):
        if nested.op == op and limit is not None:
            for x, other in (nested.args, nested.args[::-1]):
                known = const(other)
                if known is not None:
                    a, b = x, dim(choose(known, limit))
    return Dim(op, *sorted((a, b), key=_key))


def _by_cases(a: Dim, b: Dim) -> Dim | None:
    """The maximum of operands with ``min(1, n)``, if the expression for ``n >= 1`` holds for ``n = 0``, too.

    ``max(n + min(1, n) - 1, 0)`` is ``n``: the size of a slice from 1 on of a tensor with its first element in front.
    """
    if max(a.depth, b.depth) > _CASES_DEPTH:
        return None
    least = next((d for d in postorder((a, b)) if d.op == MIN and dim(1) in d.args), None)
    n = None if least is None else next((x for x in least.args if x.op == SYM and x.nonneg), None)
    if n is None:
        return None
    more = unnamed("more than none")
    above, at_none = (max_(*(substitute(d, {n: value}) for d in (a, b))) for value in (more + 1, dim(0)))
    found = substitute(above, {more: n - 1})
    return found if substitute(found, {n: dim(0)}) is at_none else None


def eq(a: IntLike, b: IntLike) -> Dim:
    """1 if ``a == b``, else 0."""
    a, b = dim(a), dim(b)
    low, high = gap(a, b)
    if low == 0 == high:
        return dim(1)
    # n + 1 is never 0 if n is a size
    if (low is not None and low > 0) or (high is not None and high < 0):
        return dim(0)
    return Dim(EQ, *sorted((a, b), key=_key))


def lt(a: IntLike, b: IntLike) -> Dim:
    """1 if ``a < b``, else 0."""
    a, b = dim(a), dim(b)
    low, high = gap(a, b)
    if high is not None and high < 0:
        return dim(1)
    return dim(0) if low is not None and low >= 0 else Dim(LT, a, b)


def le(a: IntLike, b: IntLike) -> Dim:
    """1 if ``a <= b``, else 0."""
    # a < b + 1 would overflow if b is the largest int64
    return not_(lt(b, a))


def not_(condition: IntLike) -> Dim:
    """1 if the condition is 0, else 0."""
    return 1 - dim(condition)


def all_(*conditions: IntLike) -> Dim:
    """1 if every condition is 1, else 0."""
    out = dim(1)
    for c in conditions:
        out = out * dim(c)
    return out


def any_(*conditions: IntLike) -> Dim:
    """1 if any condition is 1, else 0."""
    out = dim(0)
    for c in conditions:
        if const(c) == 1:
            return dim(1)
        out = max_(out, c)
    return out


def where(condition: IntLike, a: IntLike, b: IntLike) -> Dim:
    """``a`` if the condition is not 0, else ``b``."""
    condition, a, b = dim(condition), dim(a), dim(b)
    known = const(condition)
    if known is not None:
        return a if known else b
    if a is b or (condition.op == EQ and b in condition.args and _is_equal_there(condition, a, b)):
        return b
    return Dim(WHERE, condition, a, b)


def _is_equal_there(condition: Dim, a: Dim, b: Dim) -> bool:
    """Whether ``a`` equals ``b`` where ``condition`` holds, which says that ``b`` equals another size."""
    first, second = condition.args
    other = first if second is b else second
    return a is other or (b.op == SYM and substitute(a, {b: other}) is other)


def arange_length(start: Dim, stop: Dim, step: Dim) -> Dim:
    """``max(0, ceil((stop - start) / step))`` of three float64 *bit patterns* held as int64 (see ``Operand.values``)."""
    known = [const(x) for x in (start, stop, step)]
    if None not in known:
        return dim(SCALAR[ARANGE](*known))
    return Dim(ARANGE, start, stop, step)


def scaled(size: IntLike, factor: IntLike) -> Dim:
    """``floor(size * factor)`` for a float64 factor held as an int64 *bit pattern*; 0 if the factor is not above 0."""
    size, factor = dim(size), dim(factor)
    known = const(factor)
    if known is None:
        return Dim(SCALED, size, factor)
    number = as_float(known)
    if number.is_integer() and 0 < number < 2**31:
        return size * int(number)
    return Dim(SCALED, size, factor) if const(size) is None else dim(SCALAR[SCALED](size.args[0], known))


def division(by: IntLike, total: IntLike) -> Dim:
    """The word for divisions of numbers from 0 to ``total - 1`` by the size ``by``: ``factor << 8 | is_wide << 7 | shift``.

    The quotient of n is ``(n * factor // 2**bits + n) >> shift`` with 32 bits, and with 55 if the total is 2**31 or more
    (Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994).  A total above 2**55 is too large.
    """
    by, total = dim(by), dim(total)
    if const(by) is None or const(total) is None:
        return Dim(DIVISION, by, total)
    return dim(SCALAR[DIVISION](by.args[0], total.args[0]))


# ---- substitution and evaluation -------------------------------------------------------------------------------


def substitute(d: Dim, known: Mapping[Dim, Dim]) -> Dim:
    """``d`` with every key of ``known`` replaced by its value, simplified."""
    done: dict[Dim, Dim] = {}
    for part in postorder([d], stop=known):
        if part in known:
            done[part] = known[part]
        elif all(done[a] is a for a in part.operands):
            done[part] = part  # in normal form already
        elif part.op == POLY:
            out = dim(0)
            for coefficient, atoms in part.args:
                out = out + product([coefficient, *(done[a] for a in atoms)])
            done[part] = out
        else:
            done[part] = BUILD[part.op](*(done[a] if isinstance(a, Dim) else a for a in part.args))
    return done[d]


def evaluate(d: Dim, values: Mapping[str, int]) -> int:
    """The value of ``d`` under the assignment ``values`` of its symbols: the reference for the native evaluator.

    A ``result`` evaluates to its bound.  Raises KeyError for a symbol without a value.
    """
    done: dict[Dim, int] = {}
    for part in postorder([d]):
        match part.op:
            case "int":
                done[part] = part.args[0]
            case "sym":
                done[part] = values[part.args[0]]
            case "element" | "axis":
                done[part] = values[part.key]
            case "result":
                done[part] = done[part.args[0]]
            case "poly":
                done[part] = sum(c * math.prod(done[a] for a in atoms) for c, atoms in part.args)
            case _:
                done[part] = SCALAR[part.op](*(done[a] for a in part.args))
    return done[d]


#: Constructor of each operation: a simplified Dim from its args.
BUILD: dict[str, Callable[..., Dim]] = {
    MUL: lambda a, b: a * b,
    FLOORDIV: lambda a, b: a // b,
    MOD: lambda a, b: a % b,
    MIN: min_,
    MAX: max_,
    EQ: eq,
    LT: lt,
    WHERE: where,
    ARANGE: arange_length,
    SCALED: scaled,
    DIVISION: division,
    RESULT: result_size,
}
