"""Scalar expressions: what one element of an operator's result is, said once for every device.

An operator that can be fused describes *one* output element as an expression over its inputs' elements; a fused group
is the composition of these.  The kernel generators (``ops/kernels``) turn the expression into a loop nest of numba
source or, later, CUDA C.  Nothing here computes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..shape_funcs.dims import Dim, const


class Scalar:
    """An expression with a ``dtype``.  ``+ - * < <= > >=`` build expressions; both sides have one dtype."""

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
    """The loop variable of output axis ``number`` (``reduce`` axes are numbered on from the output rank)."""

    number: int
    dtype: str = "int64"


@dataclass(frozen=True, slots=True)
class Size(Scalar):
    """The run-time size of axis ``axis`` of a value of the group; ``dim`` is what is known of it at compile time."""

    value: int  # which value of the group: see ops.group.Group
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
    """``function(args)``: a name of SCALAR_FUNCTIONS of the generators."""

    function: str
    args: tuple[Scalar, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Cast(Scalar):
    value: Scalar
    dtype: str


@dataclass(frozen=True, slots=True)
class Select(Scalar):
    """``then`` where ``condition``, else ``otherwise``.

    Only the chosen side is evaluated: a load in the other may be out of range.
    """

    condition: Scalar
    then: Scalar
    otherwise: Scalar

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.then.dtype


@dataclass(frozen=True, slots=True)
class Guard(Scalar):
    """``value`` if ``condition``, else the kernel stops with status ``status`` (see ops.native.status)."""

    condition: Scalar
    status: int
    value: Scalar

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.value.dtype


def parts(scalar: Scalar) -> tuple[Scalar, ...]:
    """The expressions directly inside ``scalar``, the condition first."""
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
    """``function(args)``; the dtype is that of the first argument unless given.  A number has the first argument's dtype, too."""
    first = args[0]
    assert isinstance(first, Scalar), f"{function}: the first argument is an expression, which says the dtype"
    return Apply(function, tuple(_same(first, a) for a in args), dtype or first.dtype)


def _same(left: Scalar, right: Scalar | float) -> Scalar:
    if isinstance(right, Scalar):
        return right
    return Literal(float(right) if "float" in left.dtype else right, left.dtype)


def index(value: Scalar | int) -> Scalar:
    """An index expression from an int."""
    return value if isinstance(value, Scalar) else Literal(value, "int64")


@dataclass(frozen=True)
class Value:
    """What an operator's ``compute`` sees of an input or of its output: ``x(i, j)`` is the element there."""

    dtype: str
    shape: tuple[Dim, ...]
    number: int  # of the value in its group
    element: Callable[[tuple[Scalar, ...]], Scalar] | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    def size(self, axis: int) -> Scalar:
        """The size of ``axis`` as an index expression: a literal where it is known."""
        known = const(self.shape[axis])
        return Size(self.number, axis, self.shape[axis]) if known is None else Literal(known, "int64")

    def __call__(self, *at: Scalar | int) -> Scalar:
        assert self.element is not None and len(at) == self.rank, (self, at)
        return self.element(tuple(index(i) for i in at))


#: ``(inputs, axes, attrs, output) -> element``: ``inputs`` are Values (a tuple of them for a tuple input), ``axes`` the
#: index expressions of the output element wanted, ``output`` the Value computed (for its dtype and sizes).
#: An operator with several outputs gets a tuple of Values as ``output`` and returns one element per output.
#: A COMM_REDUCE operator's ``axes`` are those of its input.
Compute = Callable[[tuple[Any, ...], tuple[Scalar, ...], Any, Any], Any]


@dataclass(frozen=True)
class Reduction:
    """How a COMM_REDUCE operator folds elements.  ``compute`` of the operator gives the element to fold.

    ``combine``: ``sum prod max min all any argmax argmin``.  ``finish(total, count)`` makes the result of the folded
    value and the number of elements (an int64 index expression); None keeps it.  Sums of float32 accumulate in float64.
    """

    combine: str
    finish: Callable[[Scalar, Scalar], Scalar] | None = None
