"""Symbolic dimensions: the values of shape functions.

A :class:`Dim` is an immutable, hash-consed integer expression: an int, a symbol, or arithmetic on Dims.
Structurally equal expressions are the *same object*, so ``is`` tests whether two dimensions are known to be equal.

Sums and products are kept in a normal form (a polynomial over *atoms*), hence ``n + m is m + n`` and
``(n * 6) // 3 is n * 2``.  All other operations (division, minimum, comparison, selection) are atoms.
Comparisons and conditions are Dims with the value 0 or 1.  ``where`` replaces ``if``, because a Dim that is no number has no
truth value.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
import operator
import weakref
from collections.abc import Callable, Container, Iterable, Mapping
from numbers import Number
from typing import Any, ClassVar, Union

from .int_operations import (
    ARANGE,
    DIVISION,
    EQ,
    FLOORDIV,
    INT64_MAX,
    INT64_MIN,
    LT,
    MAX,
    MIN,
    MOD,
    MUL,
    SCALAR,
    SCALED,
    WHERE,
    as_float,
)

IntLike = Union["Dim", int]

INT, SYM, POLY, ANY_DIM, RESULT, ELEMENT, AXIS = "int", "sym", "poly", "any", "result", "element", "axis"

#: The leaves without a value at compile time.
UNKNOWNS = (SYM, ELEMENT, AXIS)

#: Maximum rank of a tensor.
MAX_RANK = 8
#: Maximum number of terms of an expanded product.  A larger product of sums is not expanded: the expansion could be exponential.
MAX_TERMS = 64
#: The number of results of each operation that are kept: programs repeat the arithmetic of their layers.
_KEPT = 1 << 13
#: Maximum length of a key in characters.  A longer text is replaced by a digest: texts cannot share subexpressions.
MAX_KEY = 120


class Dim:
    """A hash-consed integer expression: ``op`` and ``args``.  Construct Dims with the functions of this module.

    ===========  ====================================================================
    op           args
    ===========  ====================================================================
    int          ``(value,)``
    sym          ``(name, is_size)``; a size is known to be >= 0
    poly         ``((coefficient, (atom, ...)), ...)``: a sum of products of atoms
    mul          ``(a, b)``: a product of two long sums, not multiplied out
    floordiv     ``(a, b)``, rounds towards minus infinity; 0 where ``b`` is 0
    mod          ``(a, b)``, sign of the divisor; 0 where ``b`` is 0
    min max      ``(a, b)``
    eq lt        ``(a, b)``: 1 or 0
    where        ``(condition, a, b)``
    arange_length  ``(start, stop, step)``, three *float64 bit patterns*: ``ceil((stop-start)/step)``, at least 0
    scaled       ``(size, factor)``: the product rounded down; the factor is a *float64 bit pattern*
    division     ``(by, total)``: a word for divisions by multiplication (see ``division``), no size
    result       ``(bound, index)``: a size reported by the kernel, at most ``bound``
    element      ``(param, index)``: the value of an element of a primitive's parameter
    axis         ``(tensor, axis)``: the size of an axis of a primitive's tensor, for which no dim is known
    any          ``()``: the ``?`` of an annotation, before type inference names it
    ===========  ====================================================================
    """

    __slots__ = ("__weakref__", "args", "depth", "has_result", "is_wide", "key", "nonneg", "op", "operands")
    op: str
    args: tuple[Any, ...]
    key: str  # text that orders expressions; equal for equal expressions, in every process
    nonneg: bool  # known to be >= 0
    operands: tuple[Dim, ...]  # those of ``args`` that are dims, of a polynomial its atoms
    depth: int  # of the expression tree: 1 for a symbol or an int
    has_result: bool  # whether a size that a kernel reports is part of the expression
    is_wide: bool  # whether a number in the expression does not fit int64
    _table: ClassVar[weakref.WeakValueDictionary[tuple[Any, ...], Dim]] = weakref.WeakValueDictionary()

    def __new__(cls, op: str, *args: object) -> Dim:
        interned = cls._table.get((op, args))
        if interned is None:
            new = super().__new__(Size if op == INT else cls)
            new.op, new.args, new.operands = op, args, _operands_of(op, args)
            if isinstance(new, Size):
                new.hash = hash(args[0])
            new.key = _key_of(new)
            new.nonneg = _nonneg_of(new)
            new.depth, new.has_result, new.is_wide = 1, op == RESULT, _is_wide(op, args)
            for c in new.operands:
                new.depth = max(new.depth, 1 + c.depth)
                new.has_result, new.is_wide = new.has_result or c.has_result, new.is_wide or c.is_wide
            interned = cls._table.setdefault((op, args), new)
        return interned

    def __reduce__(self) -> tuple[Any, ...]:
        return Dim, (self.op, *self.args)

    def __repr__(self) -> str:
        return self.key

    def __add__(self, other: IntLike) -> Dim:
        b = dim(other)
        return dim(self.args[0] + b.args[0]) if self.op == INT == b.op else _added(self, b)

    __radd__ = __add__

    def __sub__(self, other: IntLike) -> Dim:
        b = dim(other)
        return dim(self.args[0] - b.args[0]) if self.op == INT == b.op else _subtracted(self, b)

    def __rsub__(self, other: IntLike) -> Dim:
        return dim(other) - self

    def __neg__(self) -> Dim:
        return self * -1

    def __mul__(self, other: IntLike) -> Dim:
        b = dim(other)
        return dim(self.args[0] * b.args[0]) if self.op == INT == b.op else _multiplied(self, b)

    __rmul__ = __mul__

    def __floordiv__(self, other: IntLike) -> Dim:
        return _floordiv(self, dim(other))

    def __rfloordiv__(self, other: IntLike) -> Dim:
        return _floordiv(dim(other), self)

    def __mod__(self, other: IntLike) -> Dim:
        b = dim(other)
        x, y = const(self), const(b)
        if x is not None and y is not None:
            return dim(x % y if y else 0)
        return dim(0) if y in (1, -1) else Dim(MOD, self, b)

    def __bool__(self) -> bool:
        raise TypeError(
            f"the dimension {self} has no truth value at compile time: use `where_`, `check` or `known_size` of relay.custom_op"
        )


class Size(Dim):
    """A Dim that is a number: an int to Python, equal to that int, with its hash.

    To hash it takes longer than to hash any other Dim, so arithmetic of numbers looks nothing up.
    """

    __slots__ = ("hash",)
    hash: int

    @property
    def value(self) -> int:
        """The number, by the name that it has in Relay's ``IntImm``."""
        number: int = self.args[0]
        return number

    def __index__(self) -> int:
        return self.value

    def __int__(self) -> int:
        return self.value

    def __float__(self) -> float:
        return float(self.value)

    def __truediv__(self, other: Any) -> Any:
        return self.value / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.value

    def __pow__(self, other: Any) -> Any:
        return self.value**other

    def __abs__(self) -> int:
        return abs(self.value)

    def __round__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return self.value != 0

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            return self is other
        number = getattr(other, "value", other)
        return bool(self.args[0] == number) if isinstance(number, Number) else NotImplemented

    def __lt__(self, other: Any) -> bool:
        return self._compared(other, operator.lt)

    def __le__(self, other: Any) -> bool:
        return self._compared(other, operator.le)

    def __gt__(self, other: Any) -> bool:
        return self._compared(other, operator.gt)

    def __ge__(self, other: Any) -> bool:
        return self._compared(other, operator.ge)

    def _compared(self, other: Any, compare: Callable[[Any, Any], bool]) -> bool:
        number = getattr(other, "value", other)
        return compare(self.value, number) if isinstance(number, Number) else NotImplemented


Shape = tuple[Dim, ...]


# ---- construction ----------------------------------------------------------------------------------------------


def dim(value: IntLike) -> Dim:
    """``value`` itself if it is a Dim, else the constant Dim."""
    if isinstance(value, Dim):
        return value
    small = _SMALL.get(value)
    return _number(value) if small is None else small


@functools.lru_cache(_KEPT)
def _number(value: int) -> Dim:
    return Dim(INT, int(value))


def sym(name: str, *, is_size: bool = True) -> Dim:
    """The symbol called ``name``; ``is_size`` declares the value nonnegative."""
    return Dim(SYM, name, is_size)


#: First character of the names that no program has.
_UNNAMED = "."


def unnamed(text: str, *, is_size: bool = True) -> Dim:
    """The symbol of ``text`` that has no name in a program; it prints as ``?``."""
    return sym(_UNNAMED + text, is_size=is_size)


def name_of(d: Dim) -> str | None:
    """The name of a symbol of a program; None for any other dim."""
    return d.args[0] if d.op == SYM and not d.args[0].startswith(_UNNAMED) else None


_fresh = itertools.count()


def fresh(hint: str = "") -> Dim:
    """A new unnamed symbol for a size."""
    return unnamed(f"{hint}{next(_fresh)}")


def element_of(param: int, index: int) -> Dim:
    """The value of element ``index`` of a primitive's parameter ``param``, known at run time."""
    return Dim(ELEMENT, param, index)


def axis_size(tensor: int, axis: int) -> Dim:
    """The size of an axis of a primitive's tensor, numbered as in the argv of a kernel."""
    return Dim(AXIS, tensor, axis)


def result_size(bound: IntLike, index: int = 0) -> Dim:
    """A size that the kernel reports after it has run (its ``index``-th count); storage is allocated for ``bound``."""
    return Dim(RESULT, dim(bound), index)


def shape(values: Iterable[IntLike]) -> Shape:
    """The values as a tuple of Dims."""
    return tuple(dim(v) for v in values)


# ---- queries ---------------------------------------------------------------------------------------------------


def const(d: IntLike) -> int | None:
    """The value of ``d`` if it is known, else None."""
    if isinstance(d, int):
        return d
    return d.args[0] if d.op == INT else None


def is_static(dims: Iterable[Dim]) -> bool:
    """Whether all of ``dims`` are constants."""
    return all(d.op == INT for d in dims)


def _operands_of(op: str, args: tuple[Any, ...]) -> tuple[Dim, ...]:
    if op == POLY:
        return tuple(atom for _, atoms in args for atom in atoms)
    return tuple(a for a in args if isinstance(a, Dim))


def _is_wide(op: str, args: tuple[Any, ...]) -> bool:
    """Whether a number among the args does not fit int64."""
    if op == INT:
        return not INT64_MIN <= args[0] <= INT64_MAX
    return op == POLY and not all(INT64_MIN <= number <= INT64_MAX for number, _ in args)


def is_nonneg(d: Dim) -> bool:
    """Whether ``d`` is known to be >= 0."""
    return d.nonneg


def postorder(dims: Iterable[Dim], stop: Container[Dim] = ()) -> list[Dim]:
    """All subexpressions of ``dims``, each once, operands before their users; subexpressions in ``stop`` are not expanded."""
    out: list[Dim] = []
    seen: set[Dim] = set()
    stack = [(d, False) for d in reversed(list(dims))]
    while stack:
        d, ready = stack.pop()
        if ready:
            out.append(d)
        elif d not in seen:
            seen.add(d)
            if d.operands and d not in stop:
                stack.append((d, True))
                stack += [(c, False) for c in reversed(d.operands)]
            else:
                out.append(d)
    return out


def symbols(*dims: Dim) -> dict[str, Dim]:
    """The symbols in ``dims`` by name, in order of first occurrence."""
    return {d.args[0]: d for d in postorder(dims) if d.op == SYM}


# ---- arithmetic beyond + - * // % ------------------------------------------------------------------------------


def min_(a: IntLike, b: IntLike) -> Dim:
    """The minimum."""
    a, b = dim(a), dim(b)
    low, high = _gap(a, b)
    if high is not None and high <= 0:
        return a
    return b if low is not None and low >= 0 else _limit(MIN, min, a, b)


def max_(a: IntLike, b: IntLike) -> Dim:
    """The maximum."""
    a, b = dim(a), dim(b)
    low, high = _gap(a, b)
    if low is not None and low >= 0:
        return a
    return b if high is not None and high <= 0 else _limit(MAX, max, a, b)


def _gap(a: Dim, b: Dim) -> tuple[int | None, int | None]:
    """Bounds of ``a - b``: lower and upper, each None if unknown."""
    if a is b:
        return 0, 0
    if a.op == INT == b.op:
        gap = a.args[0] - b.args[0]
        return gap, gap
    return _unknown_gap(a, b)


@functools.lru_cache(_KEPT)
def _unknown_gap(a: Dim, b: Dim) -> tuple[int | None, int | None]:
    """Bounds of ``a - b`` for different sizes of which one at least is unknown."""
    terms = _sum(_terms(a), {atoms: -c for atoms, c in _terms(b).items()})
    rest = terms.pop((), 0)
    signs = {c > 0 for c in terms.values() if c}
    if len(signs) == 2 or not all(x.nonneg for atoms, c in terms.items() if c for x in atoms):
        return None, None
    return None if False in signs else rest, None if True in signs else rest


def _limit(op: str, choose: Callable[[int, int], int], a: Dim, b: Dim) -> Dim:
    """A minimum or maximum; ``max(max(x, 2), 3)`` is ``max(x, 3)``."""
    for nested, limit in ((a, const(b)), (b, const(a))):
        if nested.op == op and limit is not None:
            for x, other in (nested.args, nested.args[::-1]):
                known = const(other)
                if known is not None:
                    a, b = x, dim(choose(known, limit))
    return Dim(op, *sorted((a, b), key=_key))


def eq(a: IntLike, b: IntLike) -> Dim:
    """1 if ``a == b``, else 0."""
    a, b = dim(a), dim(b)
    low, high = _gap(a, b)
    if low == 0 == high:
        return dim(1)
    # n + 1 is never 0 if n is a size
    if (low is not None and low > 0) or (high is not None and high < 0):
        return dim(0)
    return Dim(EQ, *sorted((a, b), key=_key))


def lt(a: IntLike, b: IntLike) -> Dim:
    """1 if ``a < b``, else 0."""
    a, b = dim(a), dim(b)
    low, high = _gap(a, b)
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
    return a if a is b else Dim(WHERE, condition, a, b)


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


def product(values: Iterable[IntLike]) -> Dim:
    """The product of ``values``; 1 if there are none."""
    number, rest = 1, []
    for v in values:
        known = const(v)
        if known is None:
            rest.append(dim(v))
        else:
            number *= known
    if not rest or not number:
        return dim(number)
    out = rest[0]
    for v in rest[1:]:
        out = out * v
    return out if number == 1 else out * number


def total(values: Iterable[IntLike]) -> Dim:
    """The sum of ``values``; 0 if there are none."""
    terms: _Terms = {}
    for v in values:
        for atoms, coefficient in _terms(dim(v)).items():
            terms[atoms] = terms.get(atoms, 0) + coefficient
    return _from_terms(terms)


def content(d: Dim) -> tuple[int, Dim]:
    """The greatest integer that divides all coefficients of ``d``, and the quotient; 0 has the quotient 1."""
    terms = _terms(d)
    divisor = math.gcd(*terms.values())
    return (divisor, _floordiv(d, dim(divisor))) if divisor else (0, dim(1))


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


# ---- the normal form -------------------------------------------------------------------------------------------

_Terms = dict[tuple[Dim, ...], int]  # product of atoms (sorted) -> coefficient


def _key(d: Dim) -> str:
    return d.key


@functools.lru_cache(_KEPT)
def _added(a: Dim, b: Dim) -> Dim:
    return _from_terms(_sum(_terms(a), _terms(b)))


@functools.lru_cache(_KEPT)
def _subtracted(a: Dim, b: Dim) -> Dim:
    return _from_terms(_sum(_terms(a), {atoms: -c for atoms, c in _terms(b).items()}))


@functools.lru_cache(_KEPT)
def _multiplied(a: Dim, b: Dim) -> Dim:
    x, y = _terms(a), _terms(b)
    if len(x) > 1 and len(y) > 1 and len(x) * len(y) > MAX_TERMS:
        return Dim(MUL, *sorted((a, b), key=_key))
    return _from_terms(_product(x, y))


def _terms(d: Dim) -> _Terms:
    if d.op == INT:
        return {(): d.args[0]} if d.args[0] else {}
    if d.op == POLY:
        return {atoms: coefficient for coefficient, atoms in d.args}
    return {(d,): 1}


def _sum(a: _Terms, b: _Terms) -> _Terms:
    out = dict(a)
    for atoms, coefficient in b.items():
        out[atoms] = out.get(atoms, 0) + coefficient
    return out


def _product(a: _Terms, b: _Terms) -> _Terms:
    out: _Terms = {}
    for (p, x), (q, y) in itertools.product(a.items(), b.items()):
        atoms = tuple(sorted(p + q, key=_key))
        out[atoms] = out.get(atoms, 0) + x * y
    return out


def _from_terms(terms: _Terms) -> Dim:
    kept = {atoms: c for atoms, c in terms.items() if c}
    if not kept:
        return dim(0)
    if len(kept) == 1:
        (atoms, coefficient), *_ = kept.items()
        if not atoms:
            return dim(coefficient)
        if coefficient == 1 and len(atoms) == 1:
            return atoms[0]
    ordered = sorted(kept.items(), key=lambda item: (-len(item[0]), [a.key for a in item[0]]))
    return Dim(POLY, *((coefficient, atoms) for atoms, coefficient in ordered))


def _floordiv(a: Dim, b: Dim) -> Dim:
    x, y = const(a), const(b)
    if x is not None and y is not None:
        return dim(SCALAR[FLOORDIV](x, y))
    if y == 1:
        return a
    if x == 0 or y == 0:
        return dim(0)
    if y is not None and all(c % y == 0 for c in _terms(a).values()):
        return _from_terms({atoms: c // y for atoms, c in _terms(a).items()})
    return Dim(FLOORDIV, a, b)


def _nonneg_of(d: Dim) -> bool:
    match d.op:
        case "int":
            return bool(d.args[0] >= 0)
        case "sym":
            return bool(d.args[1])
        case "poly":
            return all(c >= 0 and all(map(is_nonneg, atoms)) for c, atoms in d.args)
        case "min" | "floordiv" | "mul":
            return all(map(is_nonneg, d.args))
        case "scaled":
            return is_nonneg(d.args[0])
        case "max":
            return any(map(is_nonneg, d.args))
        case "mod":
            return is_nonneg(d.args[1])
        case "where":
            return is_nonneg(d.args[1]) and is_nonneg(d.args[2])
        case "eq" | "lt" | "arange_length" | "division" | "result" | "axis" | "any":
            return True
    return False


def _key_of(d: Dim) -> str:
    text = _text(d)
    return text if len(text) <= MAX_KEY else f"{d.op}#{hashlib.sha1(text.encode()).hexdigest()[:20]}"


def _text(d: Dim) -> str:
    a = d.args
    match d.op:
        case "int":
            return str(a[0])
        case "sym":
            return str(a[0])
        case "element":
            return f".p{a[0]}.{a[1]}"
        case "axis":
            return f".t{a[0]}.{a[1]}"
        case "any":
            return "?"
        case "poly":
            return "(" + " + ".join("*".join([*([str(c)] if c != 1 or not m else []), *map(repr, m)]) for c, m in a) + ")"
        case "floordiv" | "mod" | "eq" | "lt" | "mul":
            sign = {"floordiv": "//", "mod": "%", "eq": "==", "lt": "<", "mul": "*"}[d.op]
            return f"({a[0]!r} {sign} {a[1]!r})"
    return f"{d.op}({', '.join(map(repr, a))})"


#: Small ints, used by nearly every shape function; the table keeps them alive.
_SMALL = {value: Dim(INT, value) for value in range(-8, 65)}
#: The nameless ``?`` of an annotation.
ANY = Dim(ANY_DIM)
