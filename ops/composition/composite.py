"""Composite operators: operators defined by expansion into calls of other operators.

    def _expand(inputs, attrs):
        (x,) = inputs
        return x / call(SQRT, call(SUM, x * x, attrs=ReduceAttrs(attrs.axis, keepdims=True)))

The function runs over *terms* with a dtype and a shape; each call applies the type rules of the called operator.  Therefore
the expansion also defines the shape rule and the run-time checks of a composite operator.  The pass ``expand_composites``
replaces a call of the composite operator by the calls of its expansion.  The expansion reports user errors in terms of the
composite operator: a ``ShapeError`` at compile time, or ``equal_sizes`` for sizes known only at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.symbolic.argument_checks import axis_in, need_rank, same_size
from ...shape_funcs.symbolic.dim import Shape, dim
from ...shape_funcs.symbolic.registry import Operand, register_shape_func
from ..core.op import DTypeRule, InputRule, NoAttrs, Op, OpPattern, get
from ..core.parameters import Parameters
from ..core.tensor_types import HALVES
from ..core.type_relation import apply_shape_func, dtypes_of


@frozen(eq=False)
class Term:
    """A value of an expansion.  ``+ - * /`` with a term or a number, and unary ``-``, build calls."""

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

    def __add__(self, other: Term | float) -> CallTerm:
        return _call_term(get("add"), self, self._as_term(other))

    def __sub__(self, other: Term | float) -> CallTerm:
        return _call_term(get("subtract"), self, self._as_term(other))

    def __mul__(self, other: Term | float) -> CallTerm:
        return _call_term(get("multiply"), self, self._as_term(other))

    def __truediv__(self, other: Term | float) -> CallTerm:
        return _call_term(get("divide"), self, self._as_term(other))

    def __neg__(self) -> CallTerm:
        return _call_term(get("negative"), self)

    def _as_term(self, other: Term | float) -> Term:
        return other if isinstance(other, Term) else number(other, self.dtype)


@frozen(eq=False)
class InputTerm(Term):
    """Input ``input`` of the composite operator; ``field``: the field of a tuple input, else None."""

    input: int
    field: int | None = None


@frozen(eq=False)
class Number(Term):
    """A constant: a scalar, or a tensor as nested tuples."""

    value: float | int | bool | tuple[Any, ...]


@frozen(eq=False)
class CallTerm(Term):
    """The result of a call of ``op``; a tuple input is a tuple of terms.  ``others``: the results after the first."""

    op: Op
    attrs: Any
    args: tuple[Term | tuple[Term, ...], ...]
    others: tuple[Operand, ...] = ()


@frozen(eq=False)
class Projection(Term):
    """Result ``field`` of a call with several results."""

    of: CallTerm
    field: int


#: Result of an expansion: one value, or the fields of a tuple.
Expansion = Term | tuple[Term, ...]


def composite(
    *, name: str, doc: str, inputs: tuple[str, ...], dtype: DTypeRule, expand: Callable[..., Expansion], attrs: type = NoAttrs,
    infer_inputs: InputRule | None = None, python: Parameters | None = None, data_dependent: bool | Sequence[bool] = False,
) -> Op:  # fmt: skip
    """Declare the composite operator ``name`` with the expansion ``expand(inputs, attrs)``.

    ``dtype``: the dtype rule; it restricts the input dtypes, and its result must agree with the dtypes of the expansion.
    ``data_dependent``: the flags of the inputs whose values decide a shape.
    """

    def shapes(operands: tuple[Any, ...], attrs: Any) -> Shape | list[Shape]:
        results = expand(input_terms(operands), attrs)
        return [t.shape for t in results] if isinstance(results, tuple) else results.shape

    register_shape_func(name, data_dependent)(shapes)
    return Op(
        name=name, doc=doc, inputs=inputs, attrs=attrs, pattern=OpPattern.COMPOSITE, dtype=dtype, expand=expand,
        infer_inputs=infer_inputs, python=python,
    )  # fmt: skip


def expansion(op: Op, operands: tuple[Any, ...], attrs: Any) -> Expansion:
    """The terms of a call, of a composite ``op`` or to be legalized, on ``operands`` (a tuple of operands for a tuple input)."""
    expanded: Expansion = call(op, *input_terms(operands), attrs=attrs)
    return expanded


def input_terms(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of an expansion for ``operands``; terms stay as they are."""

    def term(operand: Operand | Term, n: int, field: int | None = None) -> Term:
        return operand if isinstance(operand, Term) else InputTerm(operand, n, field)

    return tuple(
        tuple(term(field, n, k) for k, field in enumerate(operand)) if isinstance(operand, tuple) else term(operand, n)
        for n, operand in enumerate(operands)
    )


# ---- building terms --------------------------------------------------------------------------------------------------


def _call_term(op: Op, *args: Term) -> CallTerm:
    term = call(op, *args)
    assert isinstance(term, CallTerm)
    return term


def call(op: Op, *args: Any, attrs: Any = None) -> Any:
    """The result of ``op`` on terms (tuples of terms for tuple inputs); a composite operator is expanded, and so is a call that
    must be legalized.

    ``attrs``: None for the default attributes.  Raises TypeRelError.
    """
    attrs = op.attrs() if attrs is None else attrs
    operands = tuple(tuple(t.operand for t in a) if isinstance(a, tuple) else a.operand for a in args)
    if op.legalization is not None and not op.is_legal(dtypes_of(operands), attrs):
        return op.legalization.expand(op, args, attrs)
    if op.expand is not None:
        return op.expand(args, attrs)
    (result, *others), _ = apply_shape_func(op, operands, attrs)
    more = tuple(Operand(t.shape, t.dtype) for t in others)
    return CallTerm(Operand(result.shape, result.dtype), op, attrs, args, more)


def results(term: CallTerm) -> tuple[Projection, ...]:
    """The results of a call with several."""
    return tuple(Projection(operand, term, k) for k, operand in enumerate((term.operand, *term.others)))


def number(value: float | int | bool, dtype: str) -> Number:
    """A scalar constant of ``dtype``."""
    return Number(Operand((), dtype), value)


def table(values: tuple[Any, ...], dtype: str) -> Number:
    """A constant tensor; ``values``: its rows, as nested tuples of numbers."""
    sizes, rows = [], values
    while isinstance(rows, tuple):
        sizes.append(dim(len(rows)))
        rows = rows[0]
    return Number(Operand(tuple(sizes), dtype), values)


def known(value: int) -> Number:
    """An int64 constant whose value a shape function reads."""
    return Number(Operand((), "int64", (dim(value),)), value)


def cast(x: Term, dtype: str) -> Term:
    """``x`` cast to ``dtype``; ``x`` itself if it has that dtype."""
    return x if x.dtype == dtype else call(get("cast"), x, attrs=get("cast").attrs(dtype))


def widened(*terms: Term) -> tuple[Term, ...]:
    """The terms in their compute dtype: float16 and bfloat16 as float32, so that a chain of calls rounds once, at its end."""
    return tuple(cast(t, "float32") if t.dtype in HALVES else t for t in terms)


def equal_sizes(data: Term, axis: int, other: Term, other_axis: int, message: str, input: int) -> Term:
    """``data``, checked to have the same size along ``axis`` as ``other`` along ``other_axis``.

    ``message``: a format string with a ``{}`` for each size; it begins with the name of the composite operator.  ``input``: the
    position of ``data`` among its inputs.  Raises ShapeError if both sizes are known; else the expansion contains a run-time
    check.
    """
    mine, theirs = data.shape[axis], other.shape[other_axis]
    if mine is theirs:
        return data
    same_size(mine, theirs, message, input, axis)
    shape = (*data.shape[:axis], theirs, *data.shape[axis + 1 :])
    check = get("vm.assert_same_size")
    return CallTerm(Operand(shape, data.dtype), check, check.attrs(axis, other_axis, message), (data, other))


def along(op: str, vector: Term, data: Term, axis: int, what: str, input: int) -> Term:
    """``vector``, with one element per index of ``axis`` of ``data``, reshaped to broadcast to ``data``.

    ``op``: the name of the composite operator; ``what``: its name for the vector; ``input``: the position of the vector.
    Raises ShapeError; sizes known only at run time are checked at run time.
    """
    need_rank(vector.operand, 1, what, input)
    axis = axis_in(axis, data.rank)
    message = f"{op}: {what} has {{}} elements, but axis {axis} of the data has size {{}}"
    vector = equal_sizes(vector, 0, data, axis, message, input)
    after = data.rank - 1 - axis
    return call(get("expand_dims"), vector, attrs=get("expand_dims").attrs(1, after)) if after else vector
