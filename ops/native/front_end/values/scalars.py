"""LLVM code of operations on numbers.  Division by zero of integers yields 0, and traps nowhere."""

from __future__ import annotations

import ast
from typing import Any

from llvmlite import ir

from ..llvm import half_conversions
from .machine_types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT64,
    UINT16,
    WORD,
    Boolean,
    Integer,
    Real,
    Scalar,
    Type,
    Value,
    arithmetic_type,
    decayed,
    is_number,
    joined_type,
    llvm_parts,
    quotient_type,
    shift_type,
)


class Outside(Exception):
    """A construct outside the subset of Python that native functions are written in."""


def llvm_type(kind: Type) -> ir.Type:
    """The LLVM type of a number."""
    (part,) = llvm_parts(kind)
    return part


def constant(kind: Scalar, value: Any) -> Value:
    """A constant."""
    return Value(kind, (ir.Constant(llvm_type(kind), value),))


def literal(value: bool | int | float) -> Value:
    """A Python number: a word if it fits."""
    if isinstance(value, bool):
        return constant(BOOL, int(value))
    if isinstance(value, float):
        return constant(FLOAT64, value)
    if -(1 << 63) <= value < 1 << 63:
        return constant(INT64, value)
    if value < 1 << 64:
        return constant(Integer(64, False), value)
    raise Outside(f"an integer of more than 64 bits, {value}")


def known_integer(value: Value) -> int | None:
    """The number of an integer constant; None for any other value."""
    value = decayed(value)
    part = value.parts[0] if len(value.parts) == 1 else None
    number = getattr(part, "constant", None) if isinstance(part, ir.Constant) else None
    return number if isinstance(number, int) and isinstance(value.type, Integer) else None


def cast(b: Any, value: Value, to: Type) -> Value:
    """Convert a number, or each item of a tuple, as C does.  Raises Outside for other types."""
    if value.type == to:
        return value
    value = decayed(value)
    if not (is_number(value.type) and is_number(to)):
        raise Outside(f"a conversion from {value.type} to {to}")
    return Value(to, (_converted(b, value, to),))


def _converted(b: Any, value: Value, to: Type) -> Any:
    source, kind, number = value.type, llvm_type(to), value.scalar
    if isinstance(to, Boolean):
        return truth(b, value).scalar
    if isinstance(number, ir.Constant) and isinstance(number.constant, (int, float)):
        folded = _folded(source, to, number.constant)
        if folded is not None:
            return ir.Constant(kind, folded)
    if isinstance(source, Boolean):
        return b.uitofp(number, kind) if isinstance(to, Real) else b.zext(number, kind)
    if isinstance(source, Integer):
        if isinstance(to, Real):
            return b.sitofp(number, kind) if source.signed else b.uitofp(number, kind)
        assert isinstance(to, Integer)
        if to.bits <= source.bits:
            return number if to.bits == source.bits else b.trunc(number, kind)
        return b.sext(number, kind) if source.signed else b.zext(number, kind)
    if isinstance(to, Integer):
        return b.fptosi(number, kind) if to.signed else b.fptoui(number, kind)
    return b.fpext(number, kind) if to == FLOAT64 else b.fptrunc(number, kind)


def _folded(source: Type, to: Type, number: Any) -> Any:
    """A converted constant; None if the conversion is left to LLVM."""
    if isinstance(to, Integer) and isinstance(source, Integer):
        number &= (1 << to.bits) - 1
        return number - (1 << to.bits) if to.signed and number >> (to.bits - 1) else number
    if to == FLOAT64 and isinstance(source, Integer) and abs(number) < 1 << 53:
        return float(number)
    return None


def truth(b: Any, value: Value) -> Value:
    """Whether a number is not zero."""
    value = decayed(value)
    if isinstance(value.type, Boolean):
        return value
    if not is_number(value.type):
        raise Outside(f"the truth of {value.type}")
    zero = ir.Constant(llvm_type(value.type), 0)
    if isinstance(value.type, Real):
        return Value(BOOL, (b.fcmp_unordered("!=", value.scalar, zero),))
    return Value(BOOL, (b.icmp_unsigned("!=", value.scalar, zero),))


# ---- binary operators ------------------------------------------------------------------------------------------------------

INTEGER = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
REAL = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul"}
BITS = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}


def binary(b: Any, op: type[ast.operator], x: Value, y: Value) -> Value:
    """The result of a binary operator."""
    x, y = decayed(x), decayed(y)
    if not (is_number(x.type) and is_number(y.type)):
        raise Outside(f"{op.__name__} of {x.type} and {y.type}")
    if op in BITS:
        return _bitwise(b, op, x, y)
    if op in (ast.LShift, ast.RShift):
        return _shifted(b, op, x, y)
    kind = quotient_type(x.type, y.type) if op is ast.Div else arithmetic_type(x.type, y.type)
    p, q = cast(b, x, kind).scalar, cast(b, y, kind).scalar
    if op is ast.Div:
        return Value(kind, (b.fdiv(p, q),))
    if op in (ast.FloorDiv, ast.Mod):
        quotient, rest = _divided(b, kind, p, q) if isinstance(kind, Integer) else _divided_reals(b, p, q)
        return Value(kind, (quotient if op is ast.FloorDiv else rest,))
    if op not in INTEGER:
        raise Outside(f"the operator {op.__name__}")
    if isinstance(kind, Real):
        return Value(kind, (getattr(b, REAL[op])(p, q),))
    folded = _folded_integer(op, p, q) if kind == INT64 else None
    if folded is not None:
        return constant(INT64, folded)
    # overflow of signed words is undefined: LLVM then knows the sign of an index
    return Value(kind, (getattr(b, INTEGER[op])(p, q, flags=["nsw"] if kind.signed else []),))


def _folded_integer(op: type[ast.operator], p: Any, q: Any) -> int | None:
    if not (isinstance(p, ir.Constant) and isinstance(q, ir.Constant)):
        return None
    x, y = p.constant, q.constant
    if not (isinstance(x, int) and isinstance(y, int)):
        return None
    result: int = x + y if op is ast.Add else x - y if op is ast.Sub else x * y
    return result if -(1 << 63) <= result < 1 << 63 else None


def _bitwise(b: Any, op: type[ast.operator], x: Value, y: Value) -> Value:
    kind = BOOL if x.type == y.type == BOOL else arithmetic_type(x.type, y.type)
    if isinstance(kind, Real):
        raise Outside(f"{op.__name__} of a float")
    return Value(kind, (getattr(b, BITS[op])(cast(b, x, kind).scalar, cast(b, y, kind).scalar),))


def _shifted(b: Any, op: type[ast.operator], x: Value, y: Value) -> Value:
    if isinstance(x.type, Real) or isinstance(y.type, Real):
        raise Outside(f"{op.__name__} of a float")
    kind = shift_type(x.type)
    p, q = cast(b, x, kind).scalar, cast(b, y, kind).scalar
    if op is ast.LShift:
        return Value(kind, (b.shl(p, q),))
    return Value(kind, (b.ashr(p, q) if kind.signed else b.lshr(p, q),))


def _divided(b: Any, kind: Integer, p: Any, q: Any) -> tuple[Any, Any]:
    """The quotient, rounded down, and the remainder; both 0 for a divisor 0, and for the only quotient out of range."""
    zero, one = p.type(0), p.type(1)
    known = q.constant if isinstance(q, ir.Constant) and isinstance(q.constant, int) else None
    wrong = None
    if known is None or known == 0:
        wrong = b.icmp_unsigned("==", q, zero)
    if kind.signed and (known is None or known == -1):
        overflow = b.and_(b.icmp_signed("==", p, p.type(-(1 << 63))), b.icmp_signed("==", q, p.type(-1)))
        wrong = overflow if wrong is None else b.or_(wrong, overflow)
    divisor = q if wrong is None else b.select(wrong, one, q)
    if kind.signed:
        quotient, rest = b.sdiv(p, divisor), b.srem(p, divisor)
        apart = b.and_(b.icmp_signed("!=", rest, zero), b.icmp_signed("<", b.xor(rest, q), zero))
        quotient = b.sub(quotient, b.zext(apart, p.type))
        rest = b.add(rest, b.select(apart, q, zero))
    else:
        quotient, rest = b.udiv(p, divisor), b.urem(p, divisor)
    if wrong is None:
        return quotient, rest
    return b.select(wrong, zero, quotient), b.select(wrong, zero, rest)


def _divided_reals(b: Any, p: Any, q: Any) -> tuple[Any, Any]:
    """The quotient, rounded down, and the remainder with the sign of the divisor: as CPython's ``float_divmod``."""
    zero, one = p.type(0.0), p.type(1.0)
    rest = b.frem(p, q)
    quotient = b.fdiv(b.fsub(p, rest), q)
    below = b.fcmp_ordered("<", q, zero)
    is_rest = b.fcmp_unordered("!=", rest, zero)
    apart = b.and_(is_rest, b.xor(below, b.fcmp_ordered("<", rest, zero)))
    signed_zero = b.select(below, p.type(-0.0), zero)
    result = b.select(is_rest, b.select(apart, b.fadd(rest, q), rest), signed_zero)
    quotient = b.select(apart, b.fsub(quotient, one), quotient)
    down = b.call(b.module.declare_intrinsic("llvm.floor", [p.type]), [quotient])
    snapped = b.select(b.fcmp_ordered(">", b.fsub(quotient, down), p.type(0.5)), b.fadd(down, one), down)
    tiny = b.fdiv(b.fmul(b.fmul(quotient, quotient), p), q)
    floor = b.select(b.fcmp_unordered("!=", quotient, zero), snapped, tiny)
    no_divisor = b.fcmp_ordered("==", q, zero)
    return b.select(no_divisor, b.fdiv(p, q), floor), b.select(no_divisor, b.frem(p, q), result)


# ---- unary operators and comparisons ---------------------------------------------------------------------------------------


def unary(b: Any, op: type[ast.unaryop], x: Value) -> Value:
    """The result of a unary operator."""
    x = decayed(x)
    if not is_number(x.type):
        raise Outside(f"{op.__name__} of {x.type}")
    if op is ast.Not:
        return Value(BOOL, (b.not_(truth(b, x).scalar),))
    if op is ast.Invert and x.type == BOOL:
        return Value(BOOL, (b.not_(x.scalar),))
    kind = arithmetic_type(x.type)
    number = cast(b, x, kind)
    if op is ast.UAdd:
        return number
    if isinstance(kind, Real):
        if op is ast.Invert:
            raise Outside("~ of a float")
        return _negated_real(b, number)
    if op is ast.Invert:
        return Value(kind, (b.not_(number.scalar),))
    known = known_integer(number)
    if kind == INT64 and known is not None and known != -(1 << 63):
        return constant(INT64, -known)
    return Value(kind, (b.neg(number.scalar),))


def _negated_real(b: Any, x: Value) -> Value:
    known = x.scalar.constant if isinstance(x.scalar, ir.Constant) else None
    return Value(x.type, (x.scalar.type(-known) if isinstance(known, float) else b.fneg(x.scalar),))


SIGNS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def compare(b: Any, op: type[ast.cmpop], x: Value, y: Value) -> Value:
    """The result of a comparison.  A signed and an unsigned integer compare as numbers."""
    x, y = decayed(x), decayed(y)
    if op not in SIGNS or not (is_number(x.type) and is_number(y.type)):
        raise Outside(f"{op.__name__} of {x.type} and {y.type}")
    sign = SIGNS[op]
    kind = joined_type(x.type, y.type)
    if isinstance(x.type, Integer) and isinstance(y.type, Integer) and isinstance(kind, Real):
        return Value(BOOL, (_mixed(b, sign, x, y),))
    assert kind is not None
    p, q = cast(b, x, kind).scalar, cast(b, y, kind).scalar
    if isinstance(kind, Real):
        made = b.fcmp_unordered(sign, p, q) if op is ast.NotEq else b.fcmp_ordered(sign, p, q)
    elif isinstance(kind, Integer) and kind.signed:
        made = b.icmp_signed(sign, p, q)
    else:
        made = b.icmp_unsigned(sign, p, q)
    return Value(BOOL, (made,))


def _mixed(b: Any, sign: str, x: Value, y: Value) -> Any:
    """A comparison of a signed integer with an unsigned word: a negative number is below all."""
    assert isinstance(x.type, Integer)
    p, q = (cast(b, v, INT64 if isinstance(v.type, Integer) and v.type.signed else Integer(64, False)).scalar for v in (x, y))
    zero = WORD(0)
    if x.type.signed:
        return b.select(b.icmp_signed("<", p, zero), b.icmp_signed(sign, p, zero), b.icmp_unsigned(sign, p, q))
    return b.select(b.icmp_signed("<", q, zero), b.icmp_signed(sign, zero, q), b.icmp_unsigned(sign, p, q))


# ---- halves ----------------------------------------------------------------------------------------------------------------


def half_value(emitter: Any, dtype: str, bits: Value, plain: Any) -> Value:
    """The float32 with the value of a half, from its bits; ``plain``: the function for other CPUs."""
    if half_conversions.has_conversions(dtype):
        return Value(FLOAT32, (half_conversions.widened(emitter.builder, dtype, cast(emitter.builder, bits, UINT16).scalar),))
    value: Value = emitter.call_native(plain, [bits])
    return value


def half_bits(emitter: Any, dtype: str, value: Value, plain: Any, stored: str = "") -> Value:
    """The bits of the half nearest to a number; ``plain``: the function for other CPUs; ``stored``: as of ``Array``."""
    if half_conversions.has_conversions(dtype):
        b, filled = emitter.builder, emitter.fills_registers
        return Value(UINT16, (half_conversions.narrowed(b, dtype, cast(b, value, FLOAT32).scalar, filled, stored),))
    bits: Value = emitter.call_native(plain, [value])
    return bits
