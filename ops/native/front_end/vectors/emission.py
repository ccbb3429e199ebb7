"""LLVM code of instructions that not every processor has: products of bytes, narrowed integers, bytes in an order, tiles."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
from llvmlite import ir

from ....core.tensor_types import ITEMSIZE
from ..llvm import host
from ..values import static_values
from ..values.machine_types import FLOAT32, Integer, Scalar, Value, Vector, known
from ..values.scalars import Outside, llvm_type
from .accesses import Accesses
from .lanewise import NUMBER, binary, converted, dtype_name, lane_type, part, splat, vector_type, viewed_as

#: The instruction of x86 for the nearest integers of so many float32; and its other operands, by the type of its result.
_NEAREST: dict[int, tuple[Any, ...]] = {
    4: ("sse2.cvtps2dq",),
    8: ("avx.cvt.ps2dq.256",),
    16: (
        "avx512.mask.cvtps2dq.512",
        lambda result: ir.Constant(result, ir.Undefined),
        lambda result: ir.IntType(16)(-1),
        lambda result: NUMBER(4),  # by the rounding of the process
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


class Emission(Accesses):
    """The emission of one instruction, over values: those of every processor, and those that a processor may lack."""

    def permute(self, vector: Value, order: Value) -> Value:
        """The bytes in an order that is known at run time: LLVM makes several instructions of a known one."""
        line = Vector(Integer(8, False), 64)
        if vector_type(order) != line or vector_type(vector).element != line.element or "avx512vbmi" not in host.features():
            raise Outside(f"the bytes of {vector.type} at {order.type}")
        data, lanes = vector.scalar, vector_type(vector).lanes
        if lanes < line.lanes:  # the lanes behind are any
            wider = ir.Constant(ir.VectorType(NUMBER, line.lanes), [min(n, 2 * lanes - 1) for n in range(line.lanes)])
            data = self.builder.shuffle_vector(data, ir.Constant(data.type, ir.Undefined), wider)
        return self.called("llvm.x86.avx512.permvar.qi.512", line, [data, order.scalar])

    def nearest_integers(self, x: Value) -> Value:
        """The instruction of x86, which rounds as the process does: halves to the even one."""
        result = Vector(Integer(32, True), vector_type(x).lanes)
        name, *more = _NEAREST.get(result.lanes, ("",))
        if x.type != Vector(FLOAT32, result.lanes) or not name:
            raise Outside(f"the nearest integers of {x.type}")
        return self.called(f"llvm.x86.{name}", result, [x.scalar, *(part(llvm_type(result)) for part in more)])

    def narrowed(self, one: Value, other: Value, dtype: Value) -> Value:
        """The instructions of x86 that limit integers to half their bits, each 16 bytes of a register by themselves."""
        kind, result = vector_type(one), lane_type(static_values.given(dtype))
        name = _NARROWED.get(kind.lanes * ITEMSIZE[dtype_name(kind.element)], "").format(_LIMITED.get((kind.element, result), ""))
        if one.type != other.type or not name or (kind.element, result) not in _LIMITED:
            raise Outside(f"{one.type} as {result}")
        return self.called(f"llvm.x86.{name}", Vector(result, 2 * kind.lanes), [one.scalar, other.scalar])

    def dot_of_bytes(self, total: Value, a: Value, b: Value) -> Value:
        """The instruction of VNNI, with AVX-512 or its form for AVX2; else that for products of 16 bits, or plain arithmetic."""
        kind, builder = vector_type(total), self.builder
        if (vector_type(a), vector_type(b)) != (
            Vector(Integer(8, False), 4 * kind.lanes),
            Vector(Integer(8, True), 4 * kind.lanes),
        ):
            raise Outside(f"products of {a.type} and {b.type}, added to {kind}")
        if host.multiplies_bytes(kind.lanes):
            words = [builder.bitcast(x.scalar, llvm_type(kind)) for x in (a, b)]
            return self.called(f"llvm.x86.avx512.vpdpbusd.{32 * kind.lanes}", kind, [total.scalar, *words])
        for is_odd in (False, True):
            products = self._products_of_pairs(kind, self._halves(a, is_odd), self._halves(b, is_odd))
            total = binary(builder, ast.Add, total, products)
        return total

    def dot_of_limited_bytes(self, total: Value, a: Value, b: Value) -> Value:
        """The instruction that adds up 2 products in 16 bits, then that for products of 16 bits; else as ``dot_of_bytes``."""
        kind, pairs = vector_type(total), Vector(Integer(16, True), 2 * vector_type(total).lanes)
        if not host.multiplies_limited_bytes(kind.lanes):
            return self.dot_of_bytes(total, a, b)
        of_pairs, ones = self.sums_of_limited_bytes(a, b), splat(self.builder, known(1), pairs)
        return binary(self.builder, ast.Add, total, self._products_of_pairs(kind, of_pairs, ones))

    def sums_of_limited_bytes(self, a: Value, b: Value) -> Value:
        """The instruction that adds up 2 products in 16 bits, or plain arithmetic."""
        builder, lanes = self.builder, vector_type(a).lanes
        if (a.type, b.type) != (Vector(Integer(8, False), lanes), Vector(Integer(8, True), lanes)):
            raise Outside(f"sums of products of {a.type} and {b.type}")
        if host.multiplies_limited_bytes(lanes // 4):
            name = f"llvm.x86.{_LIMITED_DOTS[lanes // 4]}"
            return self.called(name, Vector(Integer(16, True), lanes // 2), [a.scalar, b.scalar])
        even, odd = (binary(builder, ast.Mult, self._halves(a, is_odd), self._halves(b, is_odd)) for is_odd in (False, True))
        return binary(builder, ast.Add, even, odd)

    def dot_of_pairs(self, total: Value, a: Value, b: Value) -> Value:
        """The instruction for products of 16 bits, or plain arithmetic."""
        kind = vector_type(total)
        if a.type != b.type or a.type != Vector(Integer(16, True), 2 * kind.lanes):
            raise Outside(f"products of {a.type} and {b.type}, added to {kind}")
        return binary(self.builder, ast.Add, total, self._products_of_pairs(kind, a, b))

    def _halves(self, vector: Value, is_odd: bool) -> Value:
        """The even bytes of a vector, or the odd ones, as int16: from the bits of pairs, without a move between lanes."""
        b, signed = self.builder, getattr(vector_type(vector).element, "signed", False)
        pairs = viewed_as(b, vector, np.int16 if signed else np.uint16)
        if not is_odd:
            pairs = binary(b, ast.LShift, pairs, known(8))
        return viewed_as(b, binary(b, ast.RShift, pairs, known(8)), np.int16)

    def _products_of_pairs(self, kind: Vector, a: Value, b: Value) -> Value:
        """The sums of two neighbouring products of int16, for each int32 of ``kind``."""
        names = {4: ("sse2", "sse2.pmadd.wd"), 8: ("avx2", "avx2.pmadd.wd"), 16: ("avx512bw", "avx512.pmaddw.d.512")}
        feature, name = names.get(kind.lanes, ("", ""))
        if feature in host.features():
            return self.called(f"llvm.x86.{name}", kind, [a.scalar, b.scalar])
        builder = self.builder
        products = binary(builder, ast.Mult, converted(builder, a, np.int32), converted(builder, b, np.int32))
        return binary(builder, ast.Add, *(part(builder, products, slice(n, None, 2)) for n in range(2)))

    def on_tiles(
        self, name: str, *tiles: Value, array: Value | None = None, at: Value | None = None, step: Value | None = None
    ) -> None:
        """An instruction on tile registers of static numbers, and on memory whose rows are ``step`` bytes apart."""
        parts: list[Any] = [ir.IntType(8)(self.known(tile)) for tile in tiles]
        if array is not None:
            parts.append(self.pointer(array, known(0) if at is None else at, ir.IntType(8)))
        if step is not None:
            parts.append(self.emitter.word(step))
        self.called(f"llvm.x86.{name}", None, parts)
