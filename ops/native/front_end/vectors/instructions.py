"""LLVM code of instructions over registers that every processor has, and calls of LLVM's intrinsics."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from ..llvm import host
from ..values import static_values
from ..values.machine_types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT64,
    NOTHING,
    Boolean,
    Integer,
    Known,
    Real,
    Tuple,
    Type,
    Value,
    Vector,
    items,
    known,
)
from ..values.scalars import REAL, Outside, cast, half_bits, half_value, llvm_type
from .lanewise import compare, is_vector, shuffled, splat, suffix, with_common_type


class Instructions:
    """The emission of one instruction over values in registers, on every processor."""

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

    def is_element(self, index: Value, size: Value) -> Value:
        """Whether an index is not negative, and below a size that is not negative: of words without sign."""
        return Value(BOOL, (self.builder.icmp_unsigned("<", self.emitter.word(index), self.emitter.word(size)),))

    def keep_order(self) -> None:
        """Keep accesses before this place before it, and those after it after it: an empty instruction in machine code."""
        self.builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)

    def call(self, name: str, result: Type | None, *arguments: Any, overloads: Sequence[Any] | None = None) -> Value:
        """Call an intrinsic of LLVM, of values and of LLVM's values; ``overloads``: the types in its name, else as of masks."""
        parts = [a.scalar if isinstance(a, Value) else a for a in arguments]
        if overloads is None:
            vector = result if result is not None else arguments[0].type
            pointer = next(p.type for p in parts if isinstance(p.type, ir.PointerType))
            overloads = [vector, pointer]
        kinds = [kind if isinstance(kind, ir.Type) else llvm_type(kind) for kind in overloads]
        return self.called(".".join(["llvm", name, *map(suffix, kinds)]), result, parts)

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
        return self.called(f"llvm.{name}.{suffix(llvm_type(kind))}", kind, parts, flags)

    def called(self, name: str, result: Type | None, parts: list[Any], flags: Sequence[str] = ()) -> Value:
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

    def any_lane(self, mask: Value) -> Value:
        """Whether the bits of a mask are not 0."""
        if not isinstance(mask.type, Vector) or mask.type.element != BOOL:
            raise Outside(f"{mask.type} as a mask")
        bits = self.builder.bitcast(mask.scalar, ir.IntType(mask.type.lanes))
        return Value(BOOL, (self.builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0)),))

    def select(self, mask: Value, one: Value, other: Value) -> Value:
        """The lanes of one vector or of another."""
        kind, p, q = with_common_type(self.builder, one, other)
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
