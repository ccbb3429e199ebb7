"""Scalar expressions: device-independent definition of an element of an operator's result.

A fusable operator defines *one* output element as an expression over elements of its inputs; fusion composes these
expressions.  The code generators (``ops/codegen``) lower an expression to a loop nest in Python or CUDA C.  This module
only builds expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import Dim, const


class Scalar:
    """An expression with a ``dtype``.  ``+ - * < <= > >=`` build expressions; both operands have the same dtype."""

    __slots__ = ()
    dtype: str

    def __add__(self, other: Scalar | int) -> Scalar:
        return apply("add", self, _same(self, other))

    def __sub__(self, other: Scalar | int) -> Scalar:
        return apply("subtract", self, _same(self, other))

    def __mul__(self, other: Scalar | int) -> Scalar:
        return apply("multiply", self, _same(self, other))

    def __lt__(self, other: Scalar | int) -> Scalar:
        return apply("less", self, _same(self, other), dtype="bool")

    def __ge__(self, other: Scalar | int) -> Scalar:
        return apply("greater_equal", self, _same(self, other), dtype="bool")


@dataclass(frozen=True, slots=True)
class Literal(Scalar):
    value: float | int | bool
    dtype: str


@dataclass(frozen=True, slots=True)
class Axis(Scalar):
    """The loop variable of output axis ``number`` (the numbers of reduced axes start at the output rank)."""

    number: int
    dtype: str = "int64"


@dataclass(frozen=True, slots=True)
class Size(Scalar):
    """The run-time size of axis ``axis`` of a value of the group; ``dim``: its symbolic size at compile time."""

    value: int  # ref of the value: see ops.core.group.Group
    axis: int
    dim: Dim
    dtype: str = "int64"


@dataclass(frozen=True, slots=True)
class Load(Scalar):
    """Element ``index`` of parameter ``param`` of the group."""

    param: int
    index: tuple[Scalar, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Apply(Scalar):
    """``function(args)``; ``function``: a key of SCALAR_FUNCTIONS of the code generators."""

    function: str
    args: tuple[Scalar, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Cast(Scalar):
    value: Scalar
    dtype: str


@dataclass(frozen=True, slots=True)
class Select(Scalar):
    """``then`` if ``condition``, else ``otherwise``.

    Only the selected operand is evaluated: a load in the other operand may be out of range.
    """

    condition: Scalar
    then: Scalar
    otherwise: Scalar

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.then.dtype


@dataclass(frozen=True, slots=True)
class Guard(Scalar):
    """``value`` if ``condition``; otherwise the kernel stops with status ``status`` (see ops.native.status)."""

    condition: Scalar
    status: int
    value: Scalar

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.value.dtype


def parts(scalar: Scalar) -> tuple[Scalar, ...]:
    """The operands of ``scalar``, the condition first."""
    match scalar:
        case Load():
            return scalar.index
        case Apply():
            return scalar.args
        case Cast():
            return (scalar.value,)
        case Select():
            return scalar.condition, scalar.then, scalar.otherwise
        case Guard():
            return scalar.condition, scalar.value
    return ()


def apply(function: str, *args: Scalar | float, dtype: str | None = None) -> Scalar:
    """``function(args)``.  The default dtype is the dtype of the first argument; numbers become literals of that dtype."""
    first = args[0]
    assert isinstance(first, Scalar), f"{function}: the first argument is an expression, which says the dtype"
    return Apply(function, tuple(_same(first, a) for a in args), dtype or first.dtype)


def _same(left: Scalar, right: Scalar | float) -> Scalar:
    if isinstance(right, Scalar):
        return right
    return Literal(float(right) if "float" in left.dtype else right, left.dtype)


def cast(value: Scalar, dtype: str) -> Scalar:
    """``value`` in ``dtype``."""
    return value if value.dtype == dtype else Cast(value, dtype)


def index(value: Scalar | int) -> Scalar:
    """``value`` as an index expression: an int becomes an int64 literal."""
    return value if isinstance(value, Scalar) else Literal(value, "int64")


@frozen
class Value:
    """An input or output as an argument of an operator's ``compute``: ``x(i, j)`` is the element at index ``(i, j)``."""

    dtype: str
    shape: tuple[Dim, ...]
    number: int  # ref of the value in its group
    element: Callable[[tuple[Scalar, ...]], Scalar] | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    def size(self, axis: int) -> Scalar:
        """The size of ``axis`` as an index expression: a literal if it is known."""
        known = const(self.shape[axis])
        return Size(self.number, axis, self.shape[axis]) if known is None else Literal(known, "int64")

    def __call__(self, *at: Scalar | int) -> Scalar:
        assert self.element is not None and len(at) == self.rank, (self, at)
        return self.element(tuple(index(i) for i in at))


#: ``(inputs, axes, attrs, output) -> element``: ``inputs``: Values (a tuple of Values for a tuple input); ``axes``: the index
#: expressions of the output element; ``output``: the output Value, for its dtype and sizes.
#: For an operator with several outputs, ``output`` is a tuple of Values and the result has one element per output.
#: For a COMM_REDUCE operator, ``axes`` are the index expressions of the input element.
Compute = Callable[[tuple[Any, ...], tuple[Scalar, ...], Any, Any], Any]


@frozen
class Reduction:
    """Reduction of a COMM_REDUCE operator; the operator's ``compute`` yields the reduced element.

    ``combine``: ``sum prod max min all any argmax argmin``.  ``finish(total, count)``: the result from the reduced value and the
    number of elements (an int64 index expression); None: the reduced value.  Sums of float32 accumulate in float64.
    """

    combine: str
    finish: Callable[[Scalar, Scalar], Scalar] | None = None
