"""Composite operators: an operator said as calls of other operators, as plain data.

    def _expand(inputs, attrs):
        (x,) = inputs
        return x / call(SQRT, call(SUM, x * x, attrs=ReduceAttrs(attrs.axis, keepdims=True)))

The function runs over *terms*, which know their dtype and their shape: each call runs the rules of the operator called.  So
the shape rule of a composite operator is its expansion, and so are its run-time checks; the pass ``expand_composites`` puts
the calls where the operator stood.  What a user can do wrong is checked by the expansion itself, in the words of the
composite operator: a ``ShapeError`` at once, or ``equal_sizes`` where only the run can tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..shape_funcs.axes import axis_in, need_rank, same_size
from ..shape_funcs.dims import Shape
from ..shape_funcs.registry import Operand, register_shape_func
from .broadcast import ADD, DIVIDE, MULTIPLY, SUBTRACT
from .elementwise import CAST, NEGATIVE
from .machine import ASSERT_SAME_SIZE
from .op import DTypeRule, NoAttrs, Op, OpPattern, get
from .relate import apply_shape_func
from .transform import ExpandDimsAttrs
from .ty import HALVES


@dataclass(frozen=True, eq=False)
class Term:
    """A value in an expansion.  ``+ - * /`` with a term or a number and unary ``-`` build calls."""

    operand: Operand

    @property
    def dtype(self) -> str:
        return self.operand.dtype

    @property
    def shape(self) -> Shape:
        return self.operand.shape

    @property
    def rank(self) -> int:
        return self.operand.rank

    def __add__(self, other: Term | float) -> Called:
        return call(ADD, self, self._beside(other))

    def __sub__(self, other: Term | float) -> Called:
        return call(SUBTRACT, self, self._beside(other))

    def __mul__(self, other: Term | float) -> Called:
        return call(MULTIPLY, self, self._beside(other))

    def __truediv__(self, other: Term | float) -> Called:
        return call(DIVIDE, self, self._beside(other))

    def __neg__(self) -> Called:
        return call(NEGATIVE, self)

    def _beside(self, other: Term | float) -> Term:
        return other if isinstance(other, Term) else number(other, self.dtype)


@dataclass(frozen=True, eq=False)
class Given(Term):
    """Input ``input`` of the composite operator; of a tuple input the field ``field``."""

    input: int
    field: int | None = None


@dataclass(frozen=True, eq=False)
class Number(Term):
    """A scalar constant."""

    value: float | int | bool


@dataclass(frozen=True, eq=False)
class Called(Term):
    """The one result of ``op``; a tuple input is a tuple of terms."""

    op: Op
    attrs: Any
    args: tuple[Term | tuple[Term, ...], ...]


#: What an expansion gives: one value, or the fields of a tuple.
Expansion = Term | tuple[Term, ...]


def composite(
    *, name: str, doc: str, inputs: tuple[str, ...], dtype: DTypeRule, expand: Callable[..., Expansion], attrs: type = NoAttrs
) -> Op:
    """Declare the composite operator ``name``: ``expand(inputs, attrs)`` is its one rule beside ``dtype``.

    ``dtype`` says which dtypes it takes, and must agree with the expansion about the result's.
    """

    def shapes(operands: tuple[Any, ...], attrs: Any) -> Shape | list[Shape]:
        results = expand(_given(operands), attrs)
        return [t.shape for t in results] if isinstance(results, tuple) else results.shape

    register_shape_func(name)(shapes)
    return Op(name=name, doc=doc, inputs=inputs, attrs=attrs, pattern=OpPattern.COMPOSITE, dtype=dtype, expand=expand)


def expansion(op: Op, operands: tuple[Any, ...], attrs: Any) -> Expansion:
    """The terms that a call of the composite ``op`` on ``operands`` (a tuple of them for a tuple input) stands for."""
    assert op.expand is not None, op
    return op.expand(_given(operands), attrs)  # type: ignore[no-any-return]


def _given(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        tuple(Given(field, n, k) for k, field in enumerate(operand)) if isinstance(operand, tuple) else Given(operand, n)
        for n, operand in enumerate(operands)
    )


# ---- building terms --------------------------------------------------------------------------------------------------


def call(op: Op, *args: Any, attrs: Any = None) -> Any:
    """The result of ``op`` on terms (tuples of them for tuple inputs); that of a composite operator is its expansion.

    ``attrs``: None for those of its defaults.  Raises TypeRelError.
    """
    attrs = op.attrs() if attrs is None else attrs
    if op.expand is not None:
        return op.expand(args, attrs)
    operands = tuple(tuple(t.operand for t in a) if isinstance(a, tuple) else a.operand for a in args)
    (result,), _ = apply_shape_func(op, operands, attrs)
    return Called(Operand(result.shape, result.dtype), op, attrs, args)


def number(value: float | int | bool, dtype: str) -> Number:
    """A scalar constant of ``dtype``."""
    return Number(Operand((), dtype), value)


def cast(x: Term, dtype: str) -> Term:
    """``x`` in another dtype; ``x`` itself where it has it."""
    return x if x.dtype == dtype else call(CAST, x, attrs=CAST.attrs(dtype))


def widened(*terms: Term) -> tuple[Term, ...]:
    """The terms in the dtype that is computed in: halves as float32, so that a chain of calls rounds once, at its end."""
    return tuple(cast(t, "float32") if t.dtype in HALVES else t for t in terms)


def equal_sizes(data: Term, axis: int, other: Term, other_axis: int, message: str, input: int) -> Term:
    """``data``, whose axis ``axis`` must be as long as axis ``other_axis`` of ``other``.

    ``message`` has a hole for each of the two sizes and begins with the name of the composite operator; ``input`` is the
    position of ``data`` among its inputs.  Raises ShapeError where both sizes are known; else the expansion checks it.
    """
    mine, theirs = data.shape[axis], other.shape[other_axis]
    if mine is theirs:
        return data
    same_size(mine, theirs, message, input, axis)
    shape = (*data.shape[:axis], theirs, *data.shape[axis + 1 :])
    attrs = ASSERT_SAME_SIZE.attrs(axis, other_axis, message)
    return Called(Operand(shape, data.dtype), ASSERT_SAME_SIZE, attrs, (data, other))


def along(op: str, vector: Term, data: Term, axis: int, what: str, input: int) -> Term:
    """``vector``, one element per index of ``axis`` of ``data``, in a shape that broadcasts to it.

    ``op`` is the composite operator's name, ``what`` its word for the vector, ``input`` the vector's position.  Raises
    ShapeError; sizes that only the run knows are checked there.
    """
    need_rank(vector.operand, 1, what, input)
    axis = axis_in(axis, data.rank)
    message = f"{op}: {what} has {{}} elements, but axis {axis} of the data has size {{}}"
    vector = equal_sizes(vector, 0, data, axis, message, input)
    after = data.rank - 1 - axis
    return call(get("expand_dims"), vector, attrs=ExpandDimsAttrs(1, after)) if after else vector
