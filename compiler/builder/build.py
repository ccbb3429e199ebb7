"""The Python API of the language with Relay's names: ``var``, ``const``, operators on expressions; nodes are in ``constructors``.

The operators themselves are at ``operators``: ``operators.nn.dense(x, w)`` (see ``operator_functions``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from typing import Any as AnyValue
from weakref import WeakKeyDictionary

import numpy as np

from ...ops.core.adt_types import TypeKind, TypeVar
from ...ops.core.dtype_words import DTypeProblem, read_dtype
from ...ops.core.op import Op, TypeRelError
from ...ops.core.tensor_types import DTYPES, FuncType, TensorType, TupleType, Type, is_float, numpy_dtype
from ...shape_funcs.symbolic.dim import ANY, MAX_RANK, Dim, IntLike, Size, dim, sym
from ...vm.diagnostics.argument_errors import a_count, a_sequence, a_text, described, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError, Span
from ..ir import expr as ir
from ..ir.expr import Constant, Expr, Var
from ..text.infix import MINUS, PYTHON_SIGNS, SIGNS
from .type_arguments import an_annotation

__all__ = ["Any", "a_dtype", "a_name", "a_shape", "as_expr", "const", "make_call", "scalar_type", "var"]

#: A name of a function, as the text format reads it.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*([./][A-Za-z_][A-Za-z0-9_]*)*")
#: A name of a size, likewise.
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_SIZE = 2**63 - 1


class _OpenSize(type):
    """The constructor of a size that answers ``isinstance`` for every size that is known only at run time."""

    def __call__(cls, name: str | None = None) -> Dim:
        return ANY if name is None else sym(a_size_name(name, "Any: the name"))

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Dim) and not isinstance(instance, Size)


if TYPE_CHECKING:

    class Any(Dim):
        def __init__(self, name: str | None = None) -> None: ...

else:

    class Any(metaclass=_OpenSize):
        """``Any()``, an unknown dimension: ``?``; ``Any("n")``, ``?n``, is one size everywhere in a function.

        Raises ArgumentError.
        """


def var(
    name: str, shape: Sequence[IntLike] | Type | str | None = None, dtype: str = "float32",
    type_annotation: Type | str | None = None, span: Span | None = None,
) -> Var:  # fmt: skip
    """A variable: a parameter, or the variable of a ``Let``.

    With ``shape`` it is a tensor of that shape and ``dtype``; with neither shape nor ``type_annotation`` its type is inferred.
    The second argument may be the annotation; an annotation that is a dtype is a scalar's type.
    ``span``: its place, by default that of the caller.  Raises ArgumentError for an invalid name, size or dtype, or for both a
    shape and an annotation.
    """
    name = a_name(name, "var: the name", "%")
    if isinstance(shape, (Type, str)) and type_annotation is None:
        shape, type_annotation = None, shape
    if isinstance(type_annotation, str):
        type_annotation = scalar_type(type_annotation)
    if type_annotation is None and shape is not None:
        type_annotation = TensorType(a_shape(shape, f"var {name!r}"), a_dtype(dtype))
    elif shape is not None:
        raise ArgumentError(f"var {name!r}: give a shape or a type_annotation, not both", here())
    else:
        type_annotation = an_annotation(
            type_annotation, f"var {name!r}: the type_annotation", "relay.TensorType((relay.Any(), 4))"
        )
    return Var(name, type_annotation, span=span or here())


def scalar_type(dtype: AnyValue) -> TensorType:
    """The type of a scalar tensor: ``TensorType((), dtype)``.  Raises ArgumentError."""
    return TensorType((), a_dtype(dtype))


def a_name(value: AnyValue, what: str, sign: str) -> str:
    """A name without its sign.  The text format must be able to express a function's name; a variable's name is adapted when
    printed, and "" is ``_``.

    Raises ArgumentError.
    """
    name = a_text(value, what).removeprefix(sign) or "_" * (sign == "%")
    if not name or (sign == "@" and not _NAME.fullmatch(name)):
        raise wrong(what, "letters, digits and underlines, with dots between words", value)
    return name


def a_size_name(value: AnyValue, what: str) -> str:
    """The name of a size, without its ``?``.  Raises ArgumentError."""
    name = a_text(value, what).removeprefix("?")
    if not _WORD.fullmatch(name):
        raise wrong(what, "letters, digits and underlines", value)
    return name


def a_shape(value: AnyValue, who: str) -> tuple[Dim, ...]:
    """Sizes as dims.  Raises ArgumentError."""
    sizes = a_sequence(value, f"{who}: the shape", "such as (relay.Any(), 4); () is a scalar's")
    if len(sizes) > MAX_RANK:
        raise ArgumentError(f"{who}: a tensor has at most {MAX_RANK} dimensions, not {len(sizes)}", here())
    return tuple(_a_size(n, f"{who}: the size of axis {axis}") for axis, n in enumerate(sizes))


def _a_size(value: AnyValue, what: str) -> Dim:
    if isinstance(value, Dim):
        return value
    if isinstance(value, str) or (isinstance(value, TypeVar) and value.kind is TypeKind.ShapeVar):
        return sym(a_size_name(str(value), what))
    size = a_count(value, what, help="relay.Any() is a size that is not known")
    if size > _MOST_SIZE:
        raise wrong(what, f"at most {_MOST_SIZE}", value)
    return dim(size)


def const(value: AnyValue, dtype: str | None = None, span: Span | None = None) -> Constant:
    """A constant from a number, a list or an array.

    Without ``dtype`` Python's ints become int32 and floats float32, as in Relay; an array keeps its dtype.  Raises ArgumentError
    for an unknown dtype and for values that are not numbers.
    """
    if isinstance(value, Constant):
        return value
    value = value.value if isinstance(value, Size) else value
    wanted: np.dtype | str | None = None if dtype is None else a_dtype(dtype)
    try:
        if wanted is None and not hasattr(value, "dtype"):
            wanted = _default_dtype(np.asarray(value))
        data = np.array(value, numpy_dtype(wanted) if isinstance(wanted, str) else wanted, order="C")
    except (ValueError, OverflowError, TypeError) as error:
        raise ArgumentError(f"no constant can be made of {described(value)}: {error}", here()) from error
    if data.dtype.name not in DTYPES or not data.dtype.isnative:
        message = f"no constant can be made of {described(value)}: the dtypes are {', '.join(DTYPES)}, not {data.dtype}"
        raise ArgumentError(message, here())
    data.setflags(write=False)
    return Constant(data, span=span or here())


def _default_dtype(data: np.ndarray) -> np.dtype | str:
    """The dtype of Python's numbers: the 32-bit types, int64 if they do not fit."""
    if data.dtype == "int64":
        return "int32" if not data.size or -(2**31) <= data.min() <= data.max() < 2**31 else "int64"
    return "float32" if data.dtype == "float64" else data.dtype


def a_dtype(dtype: AnyValue) -> str:
    """The name of a dtype, also of numpy's.  Raises ArgumentError."""
    try:
        if dtype is None:
            raise TypeError("numpy's dtype of None is float64")
        return read_dtype(dtype if isinstance(dtype, str) else np.dtype(dtype).name)
    except DTypeProblem as problem:
        raise ArgumentError(str(problem), here(), help=problem.help) from None
    except (TypeError, ValueError):
        raise wrong("the dtype", "the name of a dtype", dtype, f"there are {', '.join(DTYPES)}") from None


def as_expr(value: AnyValue, dtype: str | None = None) -> Expr:
    """``value`` as an expression: lists and tuples of expressions become tuples, numbers and arrays constants.

    A Python number takes the dtype ``dtype`` if that is given.  Raises ArgumentError for anything else, and for a float where an
    integer is wanted.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(v, (Expr, list, tuple)) for v in value):
        return ir.Tuple(tuple(as_expr(v) for v in value), span=here())
    if isinstance(value, bool):
        return const(value)
    value = value.value if isinstance(value, Size) else value
    if isinstance(value, (int, float)):
        if dtype == "bool" or (isinstance(value, float) and dtype is not None and not is_float(dtype)):
            message = f"{value!r} is no {dtype}"
            raise ArgumentError(message, here(), help=f"write relay.const({value!r}, dtype) or cast the other side")
        return const(value, dtype)
    if isinstance(value, (list, tuple, np.ndarray, np.generic)):
        return const(value)
    help = f'relay.var("{value}", shape) is a variable' if isinstance(value, str) and _NAME.fullmatch(value) else None
    raise ArgumentError(f"an expression is wanted, not {described(value)}", here(), help=help)


# ---- calls and operators on expressions --------------------------------------------------------------------------

#: The known dtypes of calls built here, which numbers beside them take; per field for a tuple.
_DTYPE_OF: WeakKeyDictionary[Expr, str | tuple[str, ...]] = WeakKeyDictionary()
#: The stated numbers of results of calls of functions.
_STATED_COUNT: WeakKeyDictionary[Expr, int] = WeakKeyDictionary()
#: ``field_count`` of an expression whose value is no tuple.
TENSOR = -1


def known_dtype(expr: Expr) -> str | None:
    """The dtype of a tensor expression if it is known before type inference."""
    if isinstance(expr.ty, TensorType):
        return expr.ty.dtype
    if isinstance(expr, Constant):
        return expr.data.dtype.name
    if isinstance(expr, Var):
        return expr.annotation.dtype if isinstance(expr.annotation, TensorType) else None
    if isinstance(expr, ir.TupleGetItem):
        dtypes = _DTYPE_OF.get(expr.tuple_value, ())
        return dtypes[expr.index] if isinstance(dtypes, tuple) and expr.index < len(dtypes) else None
    dtype = _DTYPE_OF.get(expr)
    return dtype if isinstance(dtype, str) else None


def declared_type(expr: Expr) -> Type | None:
    """The type of an expression that is typed or an annotated variable; of a call, the result in its callee's type."""
    if expr.ty is not None or not isinstance(expr, (Var, ir.Call)):
        return expr.ty
    if isinstance(expr, Var):
        return expr.annotation
    callee = expr.op.annotation if isinstance(expr.op, Var) else None
    if isinstance(expr.op, ir.Function):
        return expr.op.ret_type
    return callee.result if isinstance(callee, FuncType) else None


def state_field_count(expr: Expr, count: int) -> None:
    """Record the number of results of an expression."""
    _STATED_COUNT[expr] = count


def field_count(expr: Expr) -> int | None:
    """The number of fields of an expression's value; TENSOR for a tensor, None if it is not known before type inference."""
    known = declared_type(expr)
    if known is not None:
        return len(known.fields) if isinstance(known, TupleType) else TENSOR
    if isinstance(expr, ir.Tuple):
        return len(expr.fields)
    if isinstance(expr, Constant):
        return TENSOR
    if isinstance(expr, ir.Call) and isinstance(expr.op, Op):
        dtypes = _DTYPE_OF.get(expr) or _result_dtypes(expr.op, expr.args, expr.attrs)
        return None if dtypes is None else len(dtypes) if isinstance(dtypes, tuple) else TENSOR
    return _STATED_COUNT.get(expr)


def _result_dtypes(op: Op, args: tuple[Expr, ...], attrs: AnyValue) -> str | tuple[str, ...] | None:
    """The result of the dtype rule with float32 for unknown dtypes: the number of results rarely depends on them."""
    guessed = [known_dtype(arg) or "float32" for arg in args]
    inputs = [(d,) if name.endswith("*") else d for d, name in zip(guessed, op.inputs, strict=False)]
    try:
        return op.dtype(tuple(inputs), attrs)
    except TypeRelError:
        return None


def make_call(op: Op | Expr, args: tuple[Expr, ...], attrs: AnyValue = None, span: Span | None = None) -> ir.Call:
    """The call; ``attrs`` is the operator's attrs object, None for its defaults."""
    if not isinstance(op, Op):
        return ir.Call(op, args, attrs, span=span)
    call = ir.Call(op, args, op.attrs() if attrs is None else attrs, span=span)
    dtypes = [known_dtype(arg) for arg in args]
    if None not in dtypes:
        try:
            dtype = op.dtype(tuple(dtypes), call.attrs)
        except TypeRelError:
            dtype = ()  # type inference reports the error, with its place
        if dtype:
            _DTYPE_OF[call] = dtype
    return call


def _binary(op: Op, swap: bool) -> Callable[[Expr, AnyValue], AnyValue]:
    def method(self: Expr, other: AnyValue) -> AnyValue:
        if not isinstance(other, (Expr, bool, int, float, Size, np.ndarray, np.generic)):
            return NotImplemented
        right = as_expr(other, known_dtype(self))
        return make_call(op, (right, self) if swap else (self, right), span=here())

    return method


def _install() -> None:
    for sign in (*SIGNS.values(), *PYTHON_SIGNS):
        if sign.method is not None:
            setattr(Expr, f"__{sign.method}__", _binary(sign.op, swap=False))
            if sign.is_arithmetic:
                setattr(Expr, f"__r{sign.method}__", _binary(sign.op, swap=True))
    setattr(Expr, f"__{MINUS.method}__", lambda self: make_call(MINUS.op, (self,), span=here()))
    # otherwise numpy treats an expression as an element of an object array
    Expr.__array_ufunc__ = None  # type: ignore[attr-defined]


_install()
