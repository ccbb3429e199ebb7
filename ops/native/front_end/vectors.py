"""LLVM code of vectors: operators, conversions, parts, and the emission of instructions (see ``ops.native.vectors``)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ...core.tensor_types import HALVES, ITEMSIZE
from ..halves import BY_ARITHMETIC
from . import static_values
from .llvm import half_conversions, host
from .llvm.instructions import annotate
from .machine_forms import assume_aligned
from .machine_types import (
    BOOL,
    CONVERSIONS,
    FLOAT32,
    FLOAT64,
    INT64,
    NOTHING,
    UINT16,
    Array,
    Boolean,
    Integer,
    Known,
    Real,
    Scalar,
    Static,
    Tuple,
    Type,
    Value,
    Vector,
    decayed,
    is_number,
    items,
    known,
    llvm_parts,
    scalar_type,
)
from .scalars import BITS, INTEGER, REAL, SIGNS, Outside, cast, half_bits, half_value, llvm_type

_NUMBER = ir.IntType(32)
#: The instruction of x86 for the nearest integers of so many float32; and its other operands, by the type of its result.
_NEAREST: dict[int, tuple[Any, ...]] = {
    4: ("sse2.cvtps2dq",),
    8: ("avx.cvt.ps2dq.256",),
    16: (
        "avx512.mask.cvtps2dq.512",
        lambda result: ir.Constant(result, ir.Undefined),
        lambda result: ir.IntType(16)(-1),
        lambda result: _NUMBER(4),  # by the rounding of the process
    ),
}
#: The names of instructions of x86 that limit integers of registers of so many bytes; and of integers to others.
_NARROWED = {16: "sse2.pack{}.128", 32: "avx2.pack{}", 64: "avx512.pack{}.512"}
_LIMITED: dict[tuple[Scalar, Scalar], str] = {
    (Integer(32, True), Integer(16, True)): "ssdw",
    (Integer(16, True), Integer(8, True)): "sswb",
    (Integer(16, True), Integer(8, False)): "uswb",
}
#: The names of instructions of x86 that add up 2 products of bytes in 16 bits, by the number of int32 of a register.
_LIMITED_DOTS = {4: "ssse3.pmadd.ub.sw.128", 8: "avx2.pmadd.ub.sw", 16: "avx512.pmaddubs.w.512"}


def is_vector(*values: Value) -> bool:
    """Whether one of the values is a vector."""
    return any(isinstance(value.type, Vector) for value in values)


def dtype_name(element: Scalar) -> str:
    """The name of numpy's dtype of a lane."""
    if isinstance(element, Boolean):
        return "bool"
    return f"float{element.bits}" if isinstance(element, Real) else f"{'' if element.signed else 'u'}int{element.bits}"


def _vector(value: Value) -> Vector:
    if not isinstance(value.type, Vector):
        raise Outside(f"{value.type} instead of a vector")
    return value.type


def _suffix(kind: ir.Type) -> str:
    """A type in the names of LLVM's intrinsics."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{_suffix(kind.element)}"
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
    nothing, lanes = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(_NUMBER, kind.lanes), [0] * kind.lanes)
    first = b.insert_element(nothing, cast(b, value, kind.element).scalar, _NUMBER(0))
    return Value(kind, (b.shuffle_vector(first, nothing, lanes),))


def _both(b: Any, x: Value, y: Value) -> tuple[Vector, Any, Any]:
    """The common type of two operands, and their registers."""
    kind = _vector(x if is_vector(x) else y)
    return kind, splat(b, x, kind).scalar, splat(b, y, kind).scalar


def binary(b: Any, op: type[ast.operator], x: Value, y: Value) -> Value:
    """The result of a binary operator, lane by lane; integers wrap around."""
    kind, p, q = _both(b, x, y)
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
    kind = _vector(x)
    if op is ast.Invert and not isinstance(kind.element, Real):
        ones = ir.Constant(llvm_type(kind), [1 if kind.element == BOOL else -1] * kind.lanes)
        return Value(kind, (b.xor(x.scalar, ones),))
    if op is not ast.USub or kind.element == BOOL:
        raise Outside(f"{op.__name__} of {kind}")
    return Value(kind, (b.fneg(x.scalar) if isinstance(kind.element, Real) else b.neg(x.scalar),))


def compare(b: Any, op: type[ast.cmpop], x: Value, y: Value) -> Value:
    """The mask of a comparison."""
    kind, p, q = _both(b, x, y)
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
    return shuffled(b, vector, vector, range(_vector(vector).lanes)[lanes])


def lane(b: Any, vector: Value, index: Value) -> Value:
    """One lane; its index is static."""
    kind, at = _vector(vector), static_values.given(index)
    if not -kind.lanes <= at < kind.lanes:
        raise Outside(f"lane {at} of {kind.lanes}")
    return Value(kind.element, (b.extract_element(vector.scalar, _NUMBER(at % kind.lanes)),))


def shuffled(b: Any, one: Value, other: Value, order: Sequence[int]) -> Value:
    """The lanes of two vectors at some places."""
    kind = _vector(one)
    if other.type != kind or not order or not all(0 <= n < 2 * kind.lanes for n in order):
        raise Outside(f"the lanes {tuple(order)} of {kind} and {other.type}")
    lanes = ir.Constant(ir.VectorType(_NUMBER, len(order)), list(order))
    return Value(Vector(kind.element, len(order)), (b.shuffle_vector(one.scalar, other.scalar, lanes),))


def attribute(vector: Value, name: str) -> Value | None:
    """An attribute of a vector; None if vectors have no such attribute."""
    dtype = dtype_name(_vector(vector).element)
    if name == "dtype":
        return Value(Static(np.dtype(dtype)), ())
    return known(ITEMSIZE[dtype]) if name == "itemsize" else None


def converted(b: Any, vector: Value, to: Any) -> Value:
    """The lanes as numbers of another type, as C converts them; ``to``: numpy's type."""
    kind, element = _vector(vector), _element(to)
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
    kind, element = _vector(vector), _element(to)
    if BOOL in (kind.element, element):
        raise Outside("the bits of a mask")
    old, new = ITEMSIZE[dtype_name(kind.element)], ITEMSIZE[dtype_name(element)]
    made = Vector(element, kind.lanes * old // new)
    return Value(made, (b.bitcast(vector.scalar, llvm_type(made)),))


def _element(to: Any) -> Scalar:
    found = CONVERSIONS.get(to.type if isinstance(to, np.dtype) else to)
    if found is None:
        raise Outside(f"lanes of {to}")
    return found


# ---- instructions ------------------------------------------------------------------------------------------------------------


class Emission:
    """The emission of one instruction, over values."""

    def __init__(self, emitter: Any) -> None:
        self.emitter, self.builder = emitter, emitter.builder

    def half_value(self, dtype: str, bits: Value, plain: Any) -> Value:
        """The float32 with the value of a half."""
        return half_value(self.emitter, dtype, bits, plain)

    def half_bits(self, dtype: str, value: Value, plain: Any) -> Value:
        """The bits of the half nearest to a number."""
        return half_bits(self.emitter, dtype, value, plain)

    def static(self, value: Value) -> Value:
        """A literal as a static value."""
        return static_values.static(static_values.given(value))

    def known(self, value: Value) -> int:
        """The number of a static value or a literal."""
        found = static_values.given(value)
        if not isinstance(found, int):
            raise Outside(f"{found} instead of a number of lanes")
        return found

    def static_words(self, value: Value) -> list[int]:
        """The numbers of a static tuple."""
        if not isinstance(value.type, Tuple):
            raise Outside(f"{value.type} instead of static lanes")
        return [self.known(item) for item in items(value)]

    def place(self, array: Value, at: Value, like: Value) -> Any:
        """The pointer to the elements of a vector of the type of ``like``; of none of halves."""
        self._refuse_halves(array)
        return self._place(array, at, llvm_type(self._of_elements(array, _vector(like).lanes)))

    def _place(self, array: Value, at: Value, kind: ir.Type) -> Any:
        b = self.builder
        return b.bitcast(b.gep(array.parts[0], [self.emitter.word(at)]), kind.as_pointer())

    def _of_elements(self, array: Value, lanes: int) -> Vector:
        """The type of a vector of elements; of halves, that of their words."""
        if not isinstance(array.type, Array) or array.type.dtype == "bool":
            raise Outside(f"a vector of elements of {array.type}")
        return Vector(UINT16 if array.type.dtype in HALVES else scalar_type(array.type.dtype), lanes)

    def _refuse_halves(self, array: Value) -> None:
        if isinstance(array.type, Array) and array.type.dtype in HALVES:
            raise Outside(f"this access to elements of {array.type}")

    def _read(self, array: Value, words: Value) -> Value:
        """Loaded elements; of halves, float32."""
        return self._converted(array, words, half_value, FLOAT32, 0)

    def _written(self, array: Value, vector: Value) -> Value:
        """Elements to store; float32 among halves rounded."""
        assert isinstance(array.type, Array)
        if array.type.dtype in HALVES and _vector(vector).element != FLOAT32:
            raise Outside(f"a store of {vector.type} among elements of {array.type}")
        return self._converted(array, vector, half_bits, UINT16, 1)

    def _converted(self, array: Value, vector: Value, convert: Any, element: Scalar, way: int) -> Value:
        """The lanes of a vector of halves by a conversion; one by one where the CPU has none."""
        assert isinstance(array.type, Array)
        dtype, b, kind = array.type.dtype, self.builder, _vector(vector)
        if dtype not in HALVES:
            return vector
        made = Vector(element, kind.lanes)
        if half_conversions.has_conversions(dtype):
            code = (half_conversions.widened, half_conversions.narrowed)[way]
            return Value(made, (code(b, dtype, vector.scalar),))
        found = ir.Constant(llvm_type(made), ir.Undefined)
        for n in range(kind.lanes):
            converted = convert(self.emitter, dtype, lane(b, vector, known(n)), BY_ARITHMETIC[dtype][way])
            found = b.insert_element(found, converted.scalar, _NUMBER(n))
        return Value(made, (found,))

    def align(self, array: Value) -> Any:
        """The alignment of elements, as an argument of an intrinsic."""
        assert isinstance(array.type, Array)
        return _NUMBER(ITEMSIZE[array.type.dtype])

    def load(self, array: Value, at: Value, lanes: Value) -> Value:
        """The elements from ``at`` on."""
        kind = self._of_elements(array, self.known(lanes))
        assert isinstance(array.type, Array)
        loaded = self.builder.load(self._place(array, at, llvm_type(kind)), align=ITEMSIZE[array.type.dtype])
        return self._read(array, Value(kind, (loaded,)))

    def load_or_zero(self, array: Value, at: Value, mask: Value) -> Value:
        """The elements from ``at`` on whose lanes are set; elsewhere 0."""
        kind = self._of_elements(array, _vector(mask).lanes)
        place, nothing = self._place(array, at, llvm_type(kind)), ir.Constant(llvm_type(kind), None)
        return self._read(array, self.call("masked.load", kind, place, self.align(array), mask, nothing))

    def store(self, array: Value, at: Value, vector: Value, past_caches: bool = False) -> None:
        """Write the elements from ``at`` on."""
        vector, kind = self._written(array, vector), self._of_elements(array, _vector(vector).lanes)
        if vector.type != kind:
            raise Outside(f"a store of {vector.type} among elements of {array.type}")
        assert isinstance(array.type, Array)
        b, place, item = self.builder, self._place(array, at, llvm_type(kind)), ITEMSIZE[array.type.dtype]
        b.store(vector.scalar, place, align=item * (kind.lanes if past_caches else 1))
        if past_caches:
            annotate(b.block, "store", "nontemporal", [_NUMBER(1)])

    def prefetch(self, array: Value, at: Value, level: int, is_write: bool = False) -> None:
        """Ask for the line of an element, into the cache of a level; no address faults."""
        place = self._place(array, at, ir.IntType(8))
        self.call("prefetch", None, place, _NUMBER(int(is_write)), _NUMBER(4 - level), _NUMBER(1), overloads=[place.type])

    def address(self, array: Value, at: Value) -> Value:
        """The address of an element."""
        place = self._place(array, at, llvm_parts(array.type)[0].pointee)
        return Value(INT64, (self.builder.ptrtoint(place, ir.IntType(64)),))

    def from_element(self, array: Value, at: Value) -> Value:
        """The array of one axis from an element on."""
        if not isinstance(array.type, Array) or array.type.rank != 1:
            raise Outside(f"{array.type} instead of an array of one axis")
        first = self._place(array, at, array.parts[0].type.pointee)
        return Value(array.type, (first, self.builder.sub(array.parts[1], self.emitter.word(at))))

    def is_element(self, index: Value, size: Value) -> Value:
        """Whether an index is not negative, and below a size that is not negative: of words without sign."""
        return Value(BOOL, (self.builder.icmp_unsigned("<", self.emitter.word(index), self.emitter.word(size)),))

    def hidden(self, array: Value) -> Value:
        """The same array, by a pointer that LLVM knows nothing about: an empty instruction in machine code."""
        data, *sizes = array.parts
        made = self.builder.asm(ir.FunctionType(data.type, [data.type]), "", "=r,0", [data], side_effect=False)
        return Value(array.type, (made, *sizes))

    def keep_order(self) -> None:
        """Keep accesses before this place before it, and those after it after it: an empty instruction in machine code."""
        self.builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)

    def aligned_from(self, array: Value, at: Value, nbytes: int) -> Value:
        """The array of one axis from an element on, whose address is a multiple of ``nbytes``."""
        data, size = array.parts
        first = self._place(array, at, data.type.pointee)
        assume_aligned(self.builder, first, nbytes)
        return Value(array.type, (first, self.builder.sub(size, self.emitter.word(at))))

    def gather(self, array: Value, at: Value, offsets: Value, mask: Value, other: Value) -> Value:
        """The elements at places whose lanes are set."""
        self._refuse_halves(array)
        b, kind = self.builder, self._of_elements(array, _vector(offsets).lanes)
        start = splat(b, self.address(array, at), _vector(offsets))
        addresses = binary(b, ast.Add, start, binary(b, ast.Mult, offsets, known(ITEMSIZE[dtype_name(kind.element)])))
        pointers = b.inttoptr(addresses.scalar, ir.VectorType(llvm_type(kind.element).as_pointer(), kind.lanes))
        names = f"{_suffix(llvm_type(kind))}.v{kind.lanes}p0"
        return self._called(f"llvm.masked.gather.{names}", kind, [pointers, self.align(array), mask.scalar, other.scalar])

    def call(self, name: str, result: Type | None, *arguments: Any, overloads: Sequence[Any] | None = None) -> Value:
        """Call an intrinsic of LLVM, of values and of LLVM's values; ``overloads``: the types in its name, else as of masks."""
        parts = [a.scalar if isinstance(a, Value) else a for a in arguments]
        if overloads is None:
            vector = result if result is not None else arguments[0].type
            pointer = next(p.type for p in parts if isinstance(p.type, ir.PointerType))
            overloads = [vector, pointer]
        kinds = [kind if isinstance(kind, ir.Type) else llvm_type(kind) for kind in overloads]
        return self._called(".".join(["llvm", name, *map(_suffix, kinds)]), result, parts)

    def floats(self, name: str, *values: Value, flags: Sequence[str] = ()) -> Value:
        """An operator or an intrinsic of floats with fast-math flags: of vectors, or of numbers in the widest of their types."""
        b, given = self.builder, [value for value in values if is_vector(value)]
        kind: Type = given[0].type if given else FLOAT64 if any(v.type == FLOAT64 for v in values) else FLOAT32
        if isinstance(kind, Vector):
            values = tuple(splat(b, value, kind) for value in values)
        elif not all(value.type in (FLOAT32, FLOAT64) for value in values):
            raise Outside(f"{name} of {', '.join(str(value.type) for value in values)}")
        parts = [cast(b, value, kind).scalar for value in values]
        if name in REAL.values():
            return Value(kind, (getattr(b, name)(*parts, flags=flags),))
        return self._called(f"llvm.{name}.{_suffix(llvm_type(kind))}", kind, parts, flags)

    def _called(self, name: str, result: Type | None, parts: list[Any], flags: Sequence[str] = ()) -> Value:
        module = self.builder.module
        kind = ir.FunctionType(ir.VoidType() if result is None else llvm_type(result), [p.type for p in parts])
        function = module.globals.get(name) or ir.Function(module, kind, name)
        made = self.builder.call(function, parts, fastmath=flags)
        return Value(result, (made,)) if result is not None else Value(NOTHING, ())

    def splat(self, value: Value, lanes: int) -> Value:
        """A number in every lane."""
        element = value.type.kind if isinstance(value.type, Known) else value.type
        if not isinstance(element, (Integer, Real, Boolean)):
            raise Outside(f"{value.type} in every lane")
        return splat(self.builder, value, Vector(element, lanes))

    def numbers(self, numbers: Sequence[int]) -> Value:
        """A vector of static words."""
        kind = Vector(INT64, len(numbers))
        return Value(kind, (ir.Constant(llvm_type(kind), list(numbers)),))

    def mask_of_bits(self, bits: Value, lanes: int) -> Value:
        """The mask whose lanes are the low bits of a word.

        Where masks have registers they are these bits; else each lane of a register of a cache line's bits looks at its own bit.
        """
        b, mask, width = self.builder, Vector(BOOL, lanes), 512 // lanes
        word = self.emitter.word(bits)
        if "avx512f" in host.features() or width < lanes:
            return Value(mask, (b.bitcast(b.trunc(word, ir.IntType(lanes)), llvm_type(mask)),))
        kind = Vector(Integer(width, False), lanes)
        every = splat(b, Value(INT64, (word,)), kind).scalar
        own = b.and_(every, ir.Constant(llvm_type(kind), [1 << n for n in range(lanes)]))
        return compare(b, ast.NotEq, Value(kind, (own,)), known(0))

    def select(self, mask: Value, one: Value, other: Value) -> Value:
        """The lanes of one vector or of another."""
        kind, p, q = _both(self.builder, one, other)
        if mask.type != Vector(BOOL, kind.lanes):
            raise Outside(f"{mask.type} as the mask of {kind}")
        return Value(kind, (self.builder.select(mask.scalar, p, q),))

    def shuffle(self, one: Value, other: Value, order: Sequence[int]) -> Value:
        """The lanes of two vectors at static places."""
        return shuffled(self.builder, one, other, order)

    def compress(self, vector: Value, mask: Value) -> Value:
        """The lanes that are set, side by side, then 0."""
        nothing = ir.Constant(llvm_type(vector.type), None)
        return self.call("experimental.vector.compress", vector.type, vector, mask, nothing, overloads=[vector.type])

    def permute(self, vector: Value, order: Value) -> Value:
        """The bytes in an order that is known at run time: LLVM makes several instructions of a known one."""
        line = Vector(Integer(8, False), 64)
        if _vector(order) != line or _vector(vector).element != line.element or "avx512vbmi" not in host.features():
            raise Outside(f"the bytes of {vector.type} at {order.type}")
        data, lanes = vector.scalar, _vector(vector).lanes
        if lanes < line.lanes:  # the lanes behind are any
            wider = ir.Constant(ir.VectorType(_NUMBER, line.lanes), [min(n, 2 * lanes - 1) for n in range(line.lanes)])
            data = self.builder.shuffle_vector(data, ir.Constant(data.type, ir.Undefined), wider)
        return self._called("llvm.x86.avx512.permvar.qi.512", line, [data, order.scalar])

    def nearest_integers(self, x: Value) -> Value:
        """The instruction of x86, which rounds as the process does: halves to the even one."""
        result = Vector(Integer(32, True), _vector(x).lanes)
        name, *more = _NEAREST.get(result.lanes, ("",))
        if x.type != Vector(FLOAT32, result.lanes) or not name:
            raise Outside(f"the nearest integers of {x.type}")
        return self._called(f"llvm.x86.{name}", result, [x.scalar, *(part(llvm_type(result)) for part in more)])

    def narrowed(self, one: Value, other: Value, dtype: Value) -> Value:
        """The instructions of x86 that limit integers to half their bits, each 16 bytes of a register by themselves."""
        kind, result = _vector(one), _element(static_values.given(dtype))
        name = _NARROWED.get(kind.lanes * ITEMSIZE[dtype_name(kind.element)], "").format(_LIMITED.get((kind.element, result), ""))
        if one.type != other.type or not name or (kind.element, result) not in _LIMITED:
            raise Outside(f"{one.type} as {result}")
        return self._called(f"llvm.x86.{name}", Vector(result, 2 * kind.lanes), [one.scalar, other.scalar])

    def dot_of_bytes(self, total: Value, a: Value, b: Value) -> Value:
        """The instruction of VNNI, with AVX-512 or its form for AVX2; else that for products of 16 bits, or plain arithmetic."""
        kind, builder = _vector(total), self.builder
        if (_vector(a), _vector(b)) != (Vector(Integer(8, False), 4 * kind.lanes), Vector(Integer(8, True), 4 * kind.lanes)):
            raise Outside(f"products of {a.type} and {b.type}, added to {kind}")
        if host.multiplies_bytes(kind.lanes):
            words = [builder.bitcast(x.scalar, llvm_type(kind)) for x in (a, b)]
            return self._called(f"llvm.x86.avx512.vpdpbusd.{32 * kind.lanes}", kind, [total.scalar, *words])
        for is_odd in (False, True):
            products = self._products_of_pairs(kind, self._halves(a, is_odd), self._halves(b, is_odd))
            total = binary(builder, ast.Add, total, products)
        return total

    def dot_of_limited_bytes(self, total: Value, a: Value, b: Value) -> Value:
        """The instruction that adds up 2 products in 16 bits, then that for products of 16 bits; else as ``dot_of_bytes``."""
        kind, pairs = _vector(total), Vector(Integer(16, True), 2 * _vector(total).lanes)
        if not host.multiplies_limited_bytes(kind.lanes):
            return self.dot_of_bytes(total, a, b)
        of_pairs = self._called(f"llvm.x86.{_LIMITED_DOTS[kind.lanes]}", pairs, [a.scalar, b.scalar])
        return binary(self.builder, ast.Add, total, self._products_of_pairs(kind, of_pairs, splat(self.builder, known(1), pairs)))

    def dot_of_pairs(self, total: Value, a: Value, b: Value) -> Value:
        """The instruction for products of 16 bits, or plain arithmetic."""
        kind = _vector(total)
        if a.type != b.type or a.type != Vector(Integer(16, True), 2 * kind.lanes):
            raise Outside(f"products of {a.type} and {b.type}, added to {kind}")
        return binary(self.builder, ast.Add, total, self._products_of_pairs(kind, a, b))

    def on_tiles(
        self, name: str, *tiles: Value, array: Value | None = None, at: Value | None = None, step: Value | None = None
    ) -> None:
        """An instruction on tile registers of static numbers, and on memory whose rows are ``step`` bytes apart."""
        parts: list[Any] = [ir.IntType(8)(self.known(tile)) for tile in tiles]
        if array is not None:
            parts.append(self._place(array, known(0) if at is None else at, ir.IntType(8)))
        if step is not None:
            parts.append(self.emitter.word(step))
        self._called(f"llvm.x86.{name}", None, parts)

    def _halves(self, vector: Value, is_odd: bool) -> Value:
        """The even bytes of a vector, or the odd ones, as int16: from the bits of pairs, without a move between lanes."""
        b, signed = self.builder, getattr(_vector(vector).element, "signed", False)
        pairs = viewed_as(b, vector, np.int16 if signed else np.uint16)
        if not is_odd:
            pairs = binary(b, ast.LShift, pairs, known(8))
        return viewed_as(b, binary(b, ast.RShift, pairs, known(8)), np.int16)

    def _products_of_pairs(self, kind: Vector, a: Value, b: Value) -> Value:
        """The sums of two neighbouring products of int16, for each int32 of ``kind``."""
        names = {4: ("sse2", "sse2.pmadd.wd"), 8: ("avx2", "avx2.pmadd.wd"), 16: ("avx512bw", "avx512.pmaddw.d.512")}
        feature, name = names.get(kind.lanes, ("", ""))
        if feature in host.features():
            return self._called(f"llvm.x86.{name}", kind, [a.scalar, b.scalar])
        builder = self.builder
        products = binary(builder, ast.Mult, converted(builder, a, np.int32), converted(builder, b, np.int32))
        return binary(builder, ast.Add, *(part(builder, products, slice(n, None, 2)) for n in range(2)))
