"""LLVM code of operators on vectors: arithmetic, comparison, parts, conversions, lane by lane."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ....core.tensor_types import ITEMSIZE
from ..values import static_values
from ..values.machine_types import (
    BOOL,
    CONVERSIONS,
    Boolean,
    Integer,
    Real,
    Scalar,
    Static,
    Value,
    Vector,
    decayed,
    is_number,
    known,
)
from ..values.scalars import BITS, INTEGER, REAL, SIGNS, Outside, cast, llvm_type

#: The type of numbers of lanes.
NUMBER = ir.IntType(32)


def is_vector(*values: Value) -> bool:
    """Whether one of the values is a vector."""
    return any(isinstance(value.type, Vector) for value in values)


def dtype_name(element: Scalar) -> str:
    """The name of numpy's dtype of a lane."""
    if isinstance(element, Boolean):
        return "bool"
    return f"float{element.bits}" if isinstance(element, Real) else f"{'' if element.signed else 'u'}int{element.bits}"


def vector_type(value: Value) -> Vector:
    """The type of a vector.  Raises Outside for another value."""
    if not isinstance(value.type, Vector):
        raise Outside(f"{value.type} instead of a vector")
    return value.type


def suffix(kind: ir.Type) -> str:
    """A type in the names of LLVM's intrinsics."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{suffix(kind.element)}"
    if isinstance(kind, ir.PointerType):
        return "p0"
    return f"i{kind.width}" if isinstance(kind, ir.IntType) else "f32" if isinstance(kind, ir.FloatType) else "f64"


# ---- operators ---------------------------------------------------------------------------------------------------------------


def splat(b: Any, value: Value, kind: Vector) -> Value:
    """A number in every lane, converted to the type of the lanes; a vector of this type as it is."""
    if value.type == kind:
        return value
    value = decayed(value)
    if not is_number(value.type) or (isinstance(value.type, Real) and not isinstance(kind.element, Real)):
        raise Outside(f"{value.type} beside {kind}")
    element, vector = llvm_type(kind.element), llvm_type(kind)
    part = value.scalar
    if isinstance(part, ir.Constant) and isinstance(part.constant, (int, float)):
        number = float(part.constant) if isinstance(kind.element, Real) else part.constant
        return Value(kind, (ir.Constant(vector, [ir.Constant(element, number)] * kind.lanes),))
    nothing, lanes = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(NUMBER, kind.lanes), [0] * kind.lanes)
    first = b.insert_element(nothing, cast(b, value, kind.element).scalar, NUMBER(0))
    return Value(kind, (b.shuffle_vector(first, nothing, lanes),))


def with_common_type(b: Any, x: Value, y: Value) -> tuple[Vector, Any, Any]:
    """The common type of two operands, and their registers."""
    kind = vector_type(x if is_vector(x) else y)
    return kind, splat(b, x, kind).scalar, splat(b, y, kind).scalar


def binary(b: Any, op: type[ast.operator], x: Value, y: Value) -> Value:
    """The result of a binary operator, lane by lane; integers wrap around."""
    kind, p, q = with_common_type(b, x, y)
    element = kind.element
    if isinstance(element, Real):
        name = "fdiv" if op is ast.Div else REAL.get(op)
    elif op is ast.RShift and isinstance(element, Integer):
        name = "ashr" if element.signed else "lshr"
    else:
        name = BITS.get(op) or ({**INTEGER, ast.LShift: "shl"}.get(op) if isinstance(element, Integer) else None)
    if name is None:
        raise Outside(f"{op.__name__} of {kind}")
    return Value(kind, (getattr(b, name)(p, q),))


def unary(b: Any, op: type[ast.unaryop], x: Value) -> Value:
    """The result of a unary operator."""
    kind = vector_type(x)
    if op is ast.Invert and not isinstance(kind.element, Real):
        ones = ir.Constant(llvm_type(kind), [1 if kind.element == BOOL else -1] * kind.lanes)
        return Value(kind, (b.xor(x.scalar, ones),))
    if op is not ast.USub or kind.element == BOOL:
        raise Outside(f"{op.__name__} of {kind}")
    return Value(kind, (b.fneg(x.scalar) if isinstance(kind.element, Real) else b.neg(x.scalar),))


def compare(b: Any, op: type[ast.cmpop], x: Value, y: Value) -> Value:
    """The mask of a comparison."""
    kind, p, q = with_common_type(b, x, y)
    if op not in SIGNS:
        raise Outside(f"{op.__name__} of {kind}")
    if isinstance(kind.element, Real):
        made = b.fcmp_unordered(SIGNS[op], p, q) if op is ast.NotEq else b.fcmp_ordered(SIGNS[op], p, q)
    else:
        is_signed = isinstance(kind.element, Integer) and kind.element.signed
        made = (b.icmp_signed if is_signed else b.icmp_unsigned)(SIGNS[op], p, q)
    return Value(Vector(BOOL, kind.lanes), (made,))


# ---- parts and conversions ---------------------------------------------------------------------------------------------------


def part(b: Any, vector: Value, lanes: slice) -> Value:
    """A slice of a vector."""
    return shuffled(b, vector, vector, range(vector_type(vector).lanes)[lanes])


def lane(b: Any, vector: Value, index: Value) -> Value:
    """One lane; its index is static."""
    kind, at = vector_type(vector), static_values.given(index)
    if not -kind.lanes <= at < kind.lanes:
        raise Outside(f"lane {at} of {kind.lanes}")
    return Value(kind.element, (b.extract_element(vector.scalar, NUMBER(at % kind.lanes)),))


def shuffled(b: Any, one: Value, other: Value, order: Sequence[int]) -> Value:
    """The lanes of two vectors at some places."""
    kind = vector_type(one)
    if other.type != kind or not order or not all(0 <= n < 2 * kind.lanes for n in order):
        raise Outside(f"the lanes {tuple(order)} of {kind} and {other.type}")
    lanes = ir.Constant(ir.VectorType(NUMBER, len(order)), list(order))
    return Value(Vector(kind.element, len(order)), (b.shuffle_vector(one.scalar, other.scalar, lanes),))


def attribute(vector: Value, name: str) -> Value | None:
    """An attribute of a vector; None if vectors have no such attribute."""
    dtype = dtype_name(vector_type(vector).element)
    if name == "dtype":
        return Value(Static(np.dtype(dtype)), ())
    return known(ITEMSIZE[dtype]) if name == "itemsize" else None


def converted(b: Any, vector: Value, to: Any) -> Value:
    """The lanes as numbers of another type, as C converts them; ``to``: numpy's type."""
    kind, element = vector_type(vector), lane_type(to)
    if kind.element == element:
        return vector
    x, target, signed = vector.scalar, llvm_type(Vector(element, kind.lanes)), getattr(kind.element, "signed", False)
    if element == BOOL:
        raise Outside("a mask of numbers instead of a comparison")
    if isinstance(element, Real):
        if isinstance(kind.element, Real):
            made = (b.fpext if element.bits > kind.element.bits else b.fptrunc)(x, target)
        else:
            made = (b.sitofp if signed else b.uitofp)(x, target)
    elif isinstance(kind.element, Real):
        made = (b.fptosi if getattr(element, "signed", False) else b.fptoui)(x, target)
    else:
        bits, wanted = getattr(kind.element, "bits", 1), getattr(element, "bits", 1)
        made = x if bits == wanted else b.trunc(x, target) if wanted < bits else (b.sext if signed else b.zext)(x, target)
    return Value(Vector(element, kind.lanes), (made,))


def viewed_as(b: Any, vector: Value, to: Any) -> Value:
    """The bits of the lanes as lanes of another type."""
    kind, element = vector_type(vector), lane_type(to)
    if BOOL in (kind.element, element):
        raise Outside("the bits of a mask")
    old, new = ITEMSIZE[dtype_name(kind.element)], ITEMSIZE[dtype_name(element)]
    made = Vector(element, kind.lanes * old // new)
    return Value(made, (b.bitcast(vector.scalar, llvm_type(made)),))


def lane_type(to: Any) -> Scalar:
    """The type of a lane, of numpy's."""
    found = CONVERSIONS.get(to.type if isinstance(to, np.dtype) else to)
    if found is None:
        raise Outside(f"lanes of {to}")
    return found
