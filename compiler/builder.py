"""The Python face of the language, with Relay's names: ``var``, ``const``, ``Function``, operators on expressions.

The operators themselves are at ``operators``: ``operators.nn.dense(x, w)`` (see ``operator_calls``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue
from weakref import WeakKeyDictionary

import numpy as np

from ..ops.op import Op, TypeRelError
from ..ops.ty import DTYPES, TensorType, Type, is_float, numpy_dtype
from ..shape_funcs.dims import ANY, Dim, IntLike
from . import ir
from .ir import Constant, Expr, GlobalVar, If, Let, TupleGetItem, Var
from .text.infix import MINUS, SIGNS
from .visitor import free_vars

__all__ = [
    "Any", "Call", "Constant", "Expr", "Function", "GlobalVar", "IRModule", "If", "Let", "Tuple", "TupleGetItem", "Var",
    "as_expr", "const", "make_call", "var",
]  # fmt: skip


def Any() -> Dim:
    """A dimension that is not known: ``?``."""
    return ANY


def var(name: str, shape: Sequence[IntLike] | None = None, dtype: str = "float32", type_annotation: Type | None = None) -> Var:
    """A variable: a parameter, or what a ``Let`` binds.

    With ``shape`` it is a tensor of that shape and ``dtype``; with neither shape nor ``type_annotation`` its type is
    inferred.  Raises TypeError for an unknown dtype or for both a shape and an annotation.
    """
    if type_annotation is None and shape is not None:
        type_annotation = TensorType.of(tuple(shape), _dtype_name(dtype))
    elif shape is not None:
        raise TypeError(f"var {name!r}: give a shape or a type_annotation, not both")
    return Var(name.removeprefix("%"), type_annotation)


def const(value: AnyValue, dtype: str | None = None) -> Constant:
    """A constant from a number, a list or an array.

    Without ``dtype`` Python's ints become int32 and floats float32, as in Relay; an array keeps its dtype.  Raises
    TypeError for a dtype there is none of and for values that are no numbers.
    """
    if isinstance(value, Constant):
        return value
    wanted = None if dtype is None else _dtype_name(dtype)
    try:
        if wanted is None and not hasattr(value, "dtype"):
            wanted = _default_dtype(np.asarray(value))
        data = np.array(value, numpy_dtype(wanted) if isinstance(wanted, str) else wanted, order="C")
    except (ValueError, OverflowError) as error:
        raise TypeError(f"no constant can be made of {value!r}: {error}") from error
    if data.dtype.name not in DTYPES or not data.dtype.isnative:
        raise TypeError(f"no constant can be made of {value!r}: the dtypes are {', '.join(DTYPES)}, not {data.dtype}")
    data.setflags(write=False)
    return Constant(data)


def _default_dtype(data: np.ndarray) -> np.dtype | str:
    """What Python's numbers become: the 32-bit types, int64 if they do not fit."""
    if data.dtype == "int64":
        return "int32" if not data.size or -(2**31) <= data.min() <= data.max() < 2**31 else "int64"
    return "float32" if data.dtype == "float64" else data.dtype


def _dtype_name(dtype: AnyValue) -> str:
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    if name not in DTYPES:
        raise TypeError(f"unknown dtype {name!r}; there are {', '.join(DTYPES)}")
    return name


def as_expr(value: AnyValue, dtype: str | None = None) -> Expr:
    """``value`` as an expression: lists and tuples that hold expressions become tuples, numbers and arrays constants.

    A Python number takes the dtype ``dtype`` if that is given.  Raises TypeError for anything else, and for a float
    where an integer is wanted.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(v, (Expr, list, tuple)) for v in value):
        return ir.Tuple(tuple(as_expr(v) for v in value))
    if isinstance(value, bool):
        return const(value)
    if isinstance(value, (int, float)):
        if dtype == "bool" or (isinstance(value, float) and dtype is not None and not is_float(dtype)):
            raise TypeError(f"{value!r} is no {dtype}: write relay.const({value!r}, dtype) or cast the other side")
        return const(value, dtype)
    if isinstance(value, (list, tuple, np.ndarray, np.generic)):
        return const(value)
    raise TypeError(f"an expression is wanted, not {type(value).__name__} {value!r}")


# ---- nodes as people write them ----------------------------------------------------------------------------------


class _Face(type):
    """A constructor that takes what people write, makes the IR's node, and answers ``isinstance`` for it."""

    node: type
    make: Callable[..., AnyValue]

    def __call__(cls, *args: AnyValue, **named: AnyValue) -> AnyValue:
        return cls.make(*args, **named)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.node)


class Tuple(metaclass=_Face):
    """``Tuple([a, b])``."""

    node = ir.Tuple

    @staticmethod
    def make(fields: Sequence[AnyValue]) -> ir.Tuple:
        return ir.Tuple(tuple(as_expr(field) for field in fields))


class Call(metaclass=_Face):
    """``Call(op, args, attrs=None)``: of an operator, or of an expression whose value is a function."""

    node = ir.Call

    @staticmethod
    def make(op: Op | Expr, args: Sequence[AnyValue], attrs: AnyValue = None) -> ir.Call:
        return make_call(op, tuple(as_expr(arg) for arg in args), attrs)


class Function(metaclass=_Face):
    """``Function([x, y], body, ret_type=None, attrs=None)``."""

    node = ir.Function

    @staticmethod
    def make(
        params: Sequence[Var], body: AnyValue, ret_type: Type | None = None, attrs: Mapping[str, AnyValue] | None = None
    ) -> ir.Function:
        for param in params:
            if not isinstance(param, Var):
                raise TypeError(f"a parameter is a relay.var, not {type(param).__name__}")
        if len(set(map(id, params))) < len(params):
            raise TypeError("a function has one variable twice among its parameters")
        return ir.Function(tuple(params), as_expr(body), ret_type, dict(attrs or {}))


class IRModule(metaclass=_Face):
    """``IRModule({"main": function})``, or ``IRModule.from_expr(function_or_expression)``."""

    node = ir.IRModule

    @staticmethod
    def make(functions: Mapping[str | GlobalVar, ir.Function] | None = None) -> ir.IRModule:
        named = {k.name if isinstance(k, GlobalVar) else k.removeprefix("@"): f for k, f in (functions or {}).items()}
        for name, function in named.items():
            if not isinstance(function, ir.Function):
                raise TypeError(f"@{name} must be a relay.Function, not {type(function).__name__}")
        return ir.IRModule(named)

    @staticmethod
    def from_expr(expr: AnyValue) -> ir.IRModule:
        """A module whose ``main`` is ``expr``.

        An expression that is no function becomes one: its free variables are the parameters, in order of appearance.
        """
        expr = as_expr(expr)
        if not isinstance(expr, ir.Function):
            expr = ir.Function(tuple(free_vars(expr)), expr)
        return ir.IRModule({"main": expr})


# ---- calls and operators on expressions --------------------------------------------------------------------------

#: The dtype of calls made here, where it is known: what a number beside them becomes.
_DTYPE_OF: WeakKeyDictionary[Expr, str] = WeakKeyDictionary()


def known_dtype(expr: Expr) -> str | None:
    """The dtype of a tensor expression as far as it is known before type inference."""
    if isinstance(expr.ty, TensorType):
        return expr.ty.dtype
    if isinstance(expr, Constant):
        return expr.data.dtype.name
    if isinstance(expr, Var):
        return expr.annotation.dtype if isinstance(expr.annotation, TensorType) else None
    return _DTYPE_OF.get(expr)


def make_call(op: Op | Expr, args: tuple[Expr, ...], attrs: AnyValue = None) -> ir.Call:
    """The call; ``attrs`` is the operator's attrs object, None for one made of its defaults."""
    if not isinstance(op, Op):
        return ir.Call(op, args, attrs)
    call = ir.Call(op, args, op.attrs() if attrs is None else attrs)
    dtypes = [known_dtype(arg) for arg in args]
    if None not in dtypes:
        try:
            dtype = op.dtype(tuple(dtypes), call.attrs)
        except TypeRelError:
            dtype = ()  # type inference will say so, with the place
        if isinstance(dtype, str):
            _DTYPE_OF[call] = dtype
    return call


def _binary(op: Op, swap: bool) -> Callable[[Expr, AnyValue], AnyValue]:
    def method(self: Expr, other: AnyValue) -> AnyValue:
        if not isinstance(other, (Expr, bool, int, float, np.ndarray, np.generic)):
            return NotImplemented
        right = as_expr(other, known_dtype(self))
        return make_call(op, (right, self) if swap else (self, right))

    return method


def _install() -> None:
    for sign in SIGNS.values():
        if sign.method is not None:
            setattr(Expr, f"__{sign.method}__", _binary(sign.op, swap=False))
            if sign.is_arithmetic:
                setattr(Expr, f"__r{sign.method}__", _binary(sign.op, swap=True))
    setattr(Expr, f"__{MINUS.method}__", lambda self: make_call(MINUS.op, (self,)))
    # numpy would otherwise take an expression for an element of an object array
    Expr.__array_ufunc__ = None  # type: ignore[attr-defined]


_install()
