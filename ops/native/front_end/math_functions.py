"""LLVM code of Python's built-in and mathematical functions of numbers."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from .values.machine_types import (
    BOOL,
    CONVERSIONS,
    FLOAT32,
    FLOAT64,
    INT64,
    Boolean,
    Integer,
    Real,
    Type,
    Value,
    arithmetic_type,
    is_number,
    joined_type,
)
from .values.scalars import Outside, cast, compare, constant, llvm_type

#: ``function(builder, arguments)``.
Emit = Callable[[Any, list[Value]], Value]


def number_function(function: Any) -> Emit | None:
    """The code of a function of numbers; None for any other object."""
    try:
        kind = CONVERSIONS.get(function)
        known = FUNCTIONS.get(function)
    except TypeError:  # not hashable
        return None
    if kind is not None:
        return lambda b, args: cast(b, _only(args), kind)
    return known


def _only(args: list[Value]) -> Value:
    if len(args) != 1:
        raise Outside(f"{len(args)} arguments")
    return args[0]


def _float_type(args: list[Value]) -> Real:
    """float32 if all arguments are float32, else float64."""
    if not all(is_number(a.type) for a in args):
        raise Outside("a mathematical function of no numbers")
    return FLOAT32 if all(a.type == FLOAT32 for a in args) else FLOAT64


def intrinsic(name: str, count: int = 1) -> Emit:
    """A function that LLVM knows: ``llvm.name``."""

    def emit(b: Any, args: list[Value]) -> Value:
        kind = _float_type(args)
        if len(args) != count:
            raise Outside(f"{len(args)} arguments of {name}")
        function = b.module.declare_intrinsic(f"llvm.{name}", [llvm_type(kind)], _signature(kind, count))
        return Value(kind, (b.call(function, [cast(b, a, kind).scalar for a in args]),))

    return emit


def library(name: str, count: int = 1) -> Emit:
    """A function of the C library, ``name`` for float64 and ``namef`` for float32, that writes no memory."""

    def emit(b: Any, args: list[Value]) -> Value:
        kind = _float_type(args)
        if len(args) != count:
            raise Outside(f"{len(args)} arguments of {name}")
        symbol = name if kind == FLOAT64 else f"{name}f"
        function = b.module.globals.get(symbol)
        if function is None:
            function = ir.Function(b.module, _signature(kind, count), symbol)
            function.attributes.add("readonly")
            function.attributes.add("nounwind")
        return Value(kind, (b.call(function, [cast(b, a, kind).scalar for a in args]),))

    return emit


def _signature(kind: Real, count: int) -> ir.FunctionType:
    return ir.FunctionType(llvm_type(kind), [llvm_type(kind)] * count)


def _whole(emit: Emit) -> Emit:
    """As a word; an integer is returned as it is."""

    def whole(b: Any, args: list[Value]) -> Value:
        given = _only(args)
        if isinstance(given.type, (Integer, Boolean)):
            return cast(b, given, arithmetic_type(given.type))
        return cast(b, emit(b, args), INT64)

    return whole


def _test(real: Callable[[Any, Any], Any], of_integer: int) -> Emit:
    def emit(b: Any, args: list[Value]) -> Value:
        given = _only(args)
        if not isinstance(given.type, Real):
            return constant(BOOL, of_integer)
        return Value(BOOL, (real(b, given.scalar),))

    return emit


def _is_infinite(b: Any, x: Any) -> Any:
    return b.or_(b.fcmp_ordered("==", x, x.type(math.inf)), b.fcmp_ordered("==", x, x.type(-math.inf)))


def _is_finite(b: Any, x: Any) -> Any:
    difference = b.fsub(x, x)
    return b.fcmp_ordered("ord", difference, difference)


def _absolute(b: Any, args: list[Value]) -> Value:
    given = _only(args)
    if isinstance(given.type, Real):
        return intrinsic("fabs")(b, args)
    if not isinstance(given.type, Integer):
        raise Outside(f"abs of {given.type}")
    if not given.type.signed:
        return given
    x = given.scalar
    return Value(given.type, (b.select(b.icmp_signed("<", x, x.type(0)), b.neg(x), x),))


def _extreme(op: type[ast.cmpop]) -> Emit:
    """``min`` or ``max``: as Python's, the first of equal ones, and NaN if it is the first."""

    def emit(b: Any, args: list[Value]) -> Value:
        if len(args) < 2:
            raise Outside("min or max of one argument")
        best = args[0]
        for given in args[1:]:
            kind: Type | None = joined_type(best.type, given.type)
            if kind is None or not is_number(kind):
                raise Outside(f"min or max of {best.type} and {given.type}")
            x, y = cast(b, best, kind), cast(b, given, kind)
            best = Value(kind, (b.select(compare(b, op, y, x).scalar, y.scalar, x.scalar),))
        return best

    return emit


def _to_int(b: Any, args: list[Value]) -> Value:
    given = _only(args)
    return cast(b, given, INT64 if isinstance(given.type, Real) else arithmetic_type(given.type))


def _to_float(b: Any, args: list[Value]) -> Value:
    given = _only(args)
    return given if isinstance(given.type, Real) else cast(b, given, FLOAT64)


FUNCTIONS: dict[Any, Emit] = {
    builtins.abs: _absolute, builtins.min: _extreme(ast.Lt), builtins.max: _extreme(ast.Gt), int: _to_int, float: _to_float,
    math.isnan: _test(lambda b, x: b.fcmp_unordered("uno", x, x), 0),
    math.isinf: _test(_is_infinite, 0),
    math.isfinite: _test(_is_finite, 1),
    math.floor: _whole(intrinsic("floor")), math.ceil: _whole(intrinsic("ceil")), math.trunc: _whole(intrinsic("trunc")),
    math.copysign: intrinsic("copysign", 2), math.pow: intrinsic("pow", 2), math.atan2: library("atan2", 2),
    **{getattr(math, name): intrinsic(name) for name in ("fabs", "exp", "log", "log10", "sin", "cos", "sqrt")},
    **{
        getattr(math, name): library(name)
        for name in (
            "log2", "log1p", "expm1", "erf", "erfc", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
            "atanh", "lgamma",
        )
    },
}  # fmt: skip
