"""LLVM code of accesses to memory by vectors: loads, stores, masks, gathers, prefetches, addresses."""

from __future__ import annotations

import ast
from typing import Any

from llvmlite import ir

from ....core.tensor_types import EXACT, HALVES, ITEMSIZE
from ...halves import BY_ARITHMETIC
from ..llvm import half_conversions, host
from ..llvm.instructions import annotate
from ..values.machine_forms import assume_aligned
from ..values.machine_types import FLOAT32, INT64, UINT16, WORD, Array, Scalar, Value, Vector, known, llvm_parts, scalar_type
from ..values.scalars import Outside, half_bits, half_value, llvm_type
from .instructions import Instructions
from .lanewise import NUMBER, binary, dtype_name, lane, splat, suffix, vector_type

#: Bytes of the smallest page of memory of any processor: a page can be read where one of its bytes can.
_PAGE = 4096


def _is_masked_by_lanes(nbytes: int) -> bool:
    """Whether this CPU, with AVX2, loads parts of vectors by masks, but reads lanes of so few bytes one by one."""
    return nbytes < 4 and "avx2" in host.features() and "avx512bw" not in host.features()


class Accesses(Instructions):
    """The emission of one instruction that reads or writes elements of an array, or finds their address."""

    def place(self, array: Value, at: Value, like: Value) -> Any:
        """The pointer to the elements of a vector of the type of ``like``; of none of halves."""
        self._refuse_halves(array)
        return self.pointer(array, at, llvm_type(self._of_elements(array, vector_type(like).lanes)))

    def pointer(self, array: Value, at: Value, kind: ir.Type) -> Any:
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
        if array.type.dtype in HALVES and vector_type(vector).element != FLOAT32:
            raise Outside(f"a store of {vector.type} among elements of {array.type}")
        return self._converted(array, vector, half_bits, UINT16, 1)

    def _converted(self, array: Value, vector: Value, convert: Any, element: Scalar, way: int) -> Value:
        """The lanes of a vector of halves by a conversion; one by one where the CPU has none."""
        assert isinstance(array.type, Array)
        dtype, b, kind = array.type.dtype, self.builder, vector_type(vector)
        if dtype not in HALVES:
            return vector
        made = Vector(element, kind.lanes)
        if half_conversions.has_conversions(dtype):
            if way == 0:
                return Value(made, (half_conversions.widened(b, dtype, vector.scalar),))
            return Value(made, (half_conversions.narrowed(b, dtype, vector.scalar, stored=array.type.stored),))
        found = ir.Constant(llvm_type(made), ir.Undefined)
        for n in range(kind.lanes):
            converted = convert(self.emitter, dtype, lane(b, vector, known(n)), BY_ARITHMETIC[dtype][way])
            found = b.insert_element(found, converted.scalar, NUMBER(n))
        return Value(made, (found,))

    def align(self, array: Value) -> Any:
        """The alignment of elements, as an argument of an intrinsic."""
        assert isinstance(array.type, Array)
        return NUMBER(ITEMSIZE[array.type.dtype])

    def load(self, array: Value, at: Value, lanes: Value) -> Value:
        """The elements from ``at`` on."""
        kind = self._of_elements(array, self.known(lanes))
        assert isinstance(array.type, Array)
        loaded = self.builder.load(self.pointer(array, at, llvm_type(kind)), align=ITEMSIZE[array.type.dtype])
        return self._read(array, Value(kind, (loaded,)))

    def load_or_zero(self, array: Value, at: Value, mask: Value) -> Value:
        """The elements from ``at`` on whose lanes are set; elsewhere 0."""
        kind = self._of_elements(array, vector_type(mask).lanes)
        place = self.pointer(array, at, llvm_type(kind))
        load = self._masked_in_page if _is_masked_by_lanes(ITEMSIZE[dtype_name(kind.element)]) else self._masked
        return self._read(array, load(array, place, kind, mask))

    def _masked(self, array: Value, place: Any, kind: Vector, mask: Value) -> Value:
        nothing = ir.Constant(llvm_type(kind), None)
        return self.call("masked.load", kind, place, self.align(array), mask, nothing)

    def _masked_in_page(self, array: Value, place: Any, kind: Vector, mask: Value) -> Value:
        """As ``_masked``: the whole vector is read if a lane is set, and all are in the page of that lane, which can be read."""
        b, nothing, whole = self.builder, ir.Constant(llvm_type(kind), None), self.emitter.block("whole")
        lanes, end = self.emitter.block("lanes"), self.emitter.block("end")
        item = ITEMSIZE[dtype_name(kind.element)]
        offset = b.and_(b.ptrtoint(place, WORD), WORD(_PAGE - 1))
        is_inside = b.icmp_unsigned("<=", offset, WORD(_PAGE - kind.lanes * item))
        b.cbranch(b.and_(is_inside, self.any_lane(mask).scalar), whole, lanes)
        b.position_at_end(whole)
        # by a pointer that LLVM knows nothing about: lanes that are not set may be beyond the array
        every = b.load(self._hidden(place), align=item)
        kept = b.select(mask.scalar, every, nothing)
        b.branch(end)
        b.position_at_end(lanes)
        some = self._masked(array, place, kind, mask).scalar
        b.branch(end)
        b.position_at_end(end)
        found = b.phi(llvm_type(kind))
        found.add_incoming(kept, whole)
        found.add_incoming(some, lanes)
        return Value(kind, (found,))

    def store(self, array: Value, at: Value, vector: Value, past_caches: bool = False) -> None:
        """Write the elements from ``at`` on."""
        vector, kind = self._elements(array, vector)
        assert isinstance(array.type, Array)
        b, place, item = self.builder, self.pointer(array, at, llvm_type(kind)), ITEMSIZE[array.type.dtype]
        b.store(vector.scalar, place, align=item * (kind.lanes if past_caches else 1))
        if past_caches:
            annotate(b.block, "store", "nontemporal", [NUMBER(1)])

    def store_some(self, array: Value, at: Value, vector: Value, mask: Value) -> None:
        """Write the elements from ``at`` on whose lanes are set."""
        vector, kind = self._elements(array, vector)
        self.call("masked.store", None, vector, self.pointer(array, at, llvm_type(kind)), self.align(array), mask)

    def _elements(self, array: Value, vector: Value) -> tuple[Value, Vector]:
        """A vector as it is stored among elements, and its type."""
        vector, kind = self._written(array, vector), self._of_elements(array, vector_type(vector).lanes)
        if vector.type != kind:
            raise Outside(f"a store of {vector.type} among elements of {array.type}")
        return vector, kind

    def prefetch(self, array: Value, at: Value, level: int, is_write: bool = False) -> None:
        """Ask for the line of an element, into the cache of a level; no address faults."""
        place = self.pointer(array, at, ir.IntType(8))
        self.call("prefetch", None, place, NUMBER(int(is_write)), NUMBER(4 - level), NUMBER(1), overloads=[place.type])

    def gather(self, array: Value, at: Value, offsets: Value, mask: Value, other: Value) -> Value:
        """The elements at places whose lanes are set."""
        self._refuse_halves(array)
        b, kind = self.builder, self._of_elements(array, vector_type(offsets).lanes)
        start = splat(b, self.address(array, at), vector_type(offsets))
        addresses = binary(b, ast.Add, start, binary(b, ast.Mult, offsets, known(ITEMSIZE[dtype_name(kind.element)])))
        pointers = b.inttoptr(addresses.scalar, ir.VectorType(llvm_type(kind.element).as_pointer(), kind.lanes))
        names = f"{suffix(llvm_type(kind))}.v{kind.lanes}p0"
        return self.called(f"llvm.masked.gather.{names}", kind, [pointers, self.align(array), mask.scalar, other.scalar])

    def address(self, array: Value, at: Value) -> Value:
        """The address of an element."""
        place = self.pointer(array, at, llvm_parts(array.type)[0].pointee)
        return Value(INT64, (self.builder.ptrtoint(place, ir.IntType(64)),))

    def from_element(self, array: Value, at: Value) -> Value:
        """The array of one axis from an element on."""
        if not isinstance(array.type, Array) or array.type.rank != 1:
            raise Outside(f"{array.type} instead of an array of one axis")
        first = self.pointer(array, at, array.parts[0].type.pointee)
        return Value(array.type, (first, self.builder.sub(array.parts[1], self.emitter.word(at))))

    def aligned_from(self, array: Value, at: Value, nbytes: int) -> Value:
        """The array of one axis from an element on, whose address is a multiple of ``nbytes``."""
        data, size = array.parts
        first = self.pointer(array, at, data.type.pointee)
        assume_aligned(self.builder, first, nbytes)
        return Value(array.type, (first, self.builder.sub(size, self.emitter.word(at))))

    def hidden(self, array: Value) -> Value:
        """The same array, by a pointer that LLVM knows nothing about: an empty instruction in machine code."""
        data, *sizes = array.parts
        return Value(array.type, (self._hidden(data), *sizes))

    def _hidden(self, pointer: Any) -> Any:
        return self.builder.asm(ir.FunctionType(pointer.type, [pointer.type]), "", "=r,0", [pointer], side_effect=False)

    def exact(self, array: Value) -> Value:
        """The same array, in which only numbers of its dtype are stored."""
        assert isinstance(array.type, Array)
        kind = array.type
        return Value(Array(kind.dtype, kind.rank, EXACT if kind.dtype == "bfloat16" else kind.stored), array.parts)
