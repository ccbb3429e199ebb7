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
from collections.abc import Callable, Container, Iterable
from numbers import Number
from typing import Any, ClassVar, Union

from .int_operations import (
    FLOORDIV,
    INT64_MAX,
    INT64_MIN,
    MOD,
    MUL,
    SCALAR,
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
KEPT = 1 << 13
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


@functools.lru_cache(KEPT)
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


# ---- sums and products of many -------------------------------------------------------------------------------


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
    terms: Terms = {}
    for v in values:
        for atoms, coefficient in _terms(dim(v)).items():
            terms[atoms] = terms.get(atoms, 0) + coefficient
    return _from_terms(terms)


def content(d: Dim) -> tuple[int, Dim]:
    """The greatest integer that divides all coefficients of ``d``, and the quotient; 0 has the quotient 1."""
    terms = _terms(d)
    divisor = math.gcd(*terms.values())
    return (divisor, _floordiv(d, dim(divisor))) if divisor else (0, dim(1))


# ---- the normal form -------------------------------------------------------------------------------------------

Terms = dict[tuple[Dim, ...], int]  # product of atoms (sorted) -> coefficient


def _key(d: Dim) -> str:
    return d.key


@functools.lru_cache(KEPT)
def _added(a: Dim, b: Dim) -> Dim:
    return _from_terms(_sum(_terms(a), _terms(b)))


@functools.lru_cache(KEPT)
def _subtracted(a: Dim, b: Dim) -> Dim:
    return _from_terms(difference(a, b))


@functools.lru_cache(KEPT)
def _multiplied(a: Dim, b: Dim) -> Dim:
    x, y = _terms(a), _terms(b)
    if len(x) > 1 and len(y) > 1 and len(x) * len(y) > MAX_TERMS:
        return Dim(MUL, *sorted((a, b), key=_key))
    return _from_terms(_product(x, y))


def _terms(d: Dim) -> Terms:
    if d.op == INT:
        return {(): d.args[0]} if d.args[0] else {}
    if d.op == POLY:
        return {atoms: coefficient for coefficient, atoms in d.args}
    return {(d,): 1}


def difference(a: Dim, b: Dim) -> Terms:
    """The terms of ``a - b``; a coefficient may be 0."""
    return _sum(_terms(a), {atoms: -c for atoms, c in _terms(b).items()})


def _sum(a: Terms, b: Terms) -> Terms:
    out = dict(a)
    for atoms, coefficient in b.items():
        out[atoms] = out.get(atoms, 0) + coefficient
    return out


def _product(a: Terms, b: Terms) -> Terms:
    out: Terms = {}
    for (p, x), (q, y) in itertools.product(a.items(), b.items()):
        atoms = tuple(sorted(p + q, key=_key))
        out[atoms] = out.get(atoms, 0) + x * y
    return out


def _from_terms(terms: Terms) -> Dim:
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
