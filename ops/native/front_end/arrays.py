"""LLVM code of arrays over raw memory, of records and of their fields."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from ...core.tensor_types import HALVES, ITEMSIZE
from ..halves import BY_ARITHMETIC
from .values.machine_types import (
    BOOL,
    INT64,
    UINT16,
    WORD,
    Array,
    Integer,
    Record,
    Static,
    Value,
    Words,
    decayed,
    element_llvm,
    known,
    scalar_type,
    tuple_of,
)
from .values.scalars import Outside, cast, half_bits, half_value, known_integer, truth


def word(b: Any, value: Value) -> Any:
    """A number as a word."""
    value = decayed(value)
    if not isinstance(value.type, Integer) and value.type != BOOL:
        raise Outside(f"{value.type} instead of an integer")
    return cast(b, value, INT64).scalar


def array_at(b: Any, dtype: str, address: Any, sizes: list[Any], stored: str = "") -> Value:
    """The array at an address; ``stored``: as of ``Array``."""
    return Value(Array(dtype, len(sizes), stored), (b.inttoptr(address, element_llvm(dtype).as_pointer()), *sizes))


def _position(b: Any, index: Value, size: Any) -> Any:
    """An index as a word; a negative index counts from the end."""
    at, index = word(b, index), decayed(index)
    assert isinstance(index.type, Integer)
    known = known_integer(index)
    if not index.type.signed or (known is not None and known >= 0):
        return at
    return b.select(b.icmp_signed("<", at, WORD(0)), b.add(at, size), at)


def element_pointer(b: Any, array: Value, indices: list[Value]) -> Any:
    """The pointer to an element."""
    assert isinstance(array.type, Array)
    data, *sizes = array.parts
    if len(indices) != len(sizes):
        raise Outside(f"{len(indices)} indices of an array of {len(sizes)} axes")
    at = None
    for index, size in zip(indices, sizes, strict=True):
        here = _position(b, index, size)
        at = here if at is None else b.add(b.mul(at, size), here)
    return b.gep(data, [at])


def load_element(emitter: Any, array: Value, indices: list[Value]) -> Value:
    """An element; of a half, its float32."""
    assert isinstance(array.type, Array)
    b, dtype = emitter.builder, array.type.dtype
    loaded = b.load(element_pointer(b, array, indices))
    if dtype == "bool":  # callers may pass any byte that is not 0 for True
        return Value(BOOL, (b.icmp_unsigned("!=", loaded, loaded.type(0)),))
    if dtype in HALVES:
        return half_value(emitter, dtype, Value(UINT16, (loaded,)), BY_ARITHMETIC[dtype][0])
    return Value(scalar_type(dtype), (loaded,))


def store_element(emitter: Any, array: Value, indices: list[Value], value: Value) -> None:
    """Write an element."""
    assert isinstance(array.type, Array)
    b, dtype = emitter.builder, array.type.dtype
    if dtype == "bool":
        stored = b.zext(truth(b, value).scalar, ir.IntType(8))
    elif dtype in HALVES:
        stored = half_bits(emitter, dtype, value, BY_ARITHMETIC[dtype][1], array.type.stored).scalar
    else:
        stored = cast(b, value, scalar_type(dtype)).scalar
    b.store(stored, element_pointer(b, array, indices))


def part_of(b: Any, array: Value, start: Value | None, stop: Value | None) -> Value:
    """A slice of an array of one axis, cut at its ends as Python does."""
    if not (isinstance(array.type, Array) and array.type.rank == 1):
        raise Outside("a slice of more than one axis")
    data, size = array.parts
    first = WORD(0) if start is None else _clipped(b, start, size)
    last = size if stop is None else _clipped(b, stop, size)
    length = b.sub(last, first)
    length = b.select(b.icmp_signed("<", length, WORD(0)), WORD(0), length)
    return Value(array.type, (b.gep(data, [first]), length))


def _clipped(b: Any, bound: Value, size: Any) -> Any:
    at, zero = _position(b, bound, size), WORD(0)
    at = b.select(b.icmp_signed("<", at, zero), zero, at)
    return b.select(b.icmp_signed(">", at, size), size, at)


def attribute(b: Any, value: Value, name: str) -> Value | None:
    """An attribute of an array; None if arrays have no such attribute."""
    assert isinstance(value.type, Array)
    sizes = value.parts[1:]
    dtype = value.type.dtype
    if name == "shape":
        return tuple_of([Value(INT64, (size,)) for size in sizes])
    if name == "size":
        total = sizes[0]
        for size in sizes[1:]:
            total = b.mul(total, size)
        return Value(INT64, (total,))
    if name == "itemsize":
        return known(ITEMSIZE[dtype])
    if name == "ndim":
        return known(len(sizes))
    if name == "dtype" and dtype not in HALVES:
        return Value(Static(np.dtype(dtype)), ())
    return None


def address_of(b: Any, array: Value) -> Value:
    """The address of the first element."""
    return Value(INT64, (b.ptrtoint(array.parts[0], WORD),))


def viewed_as(b: Any, array: Value, dtype: str) -> Value:
    """The bytes of an array as elements of another dtype: the last axis grows or shrinks."""
    assert isinstance(array.type, Array)
    data, *sizes = array.parts
    old, new = ITEMSIZE[array.type.dtype], ITEMSIZE[dtype]
    last = sizes[-1] if old == new else b.udiv(b.mul(sizes[-1], WORD(old)), WORD(new))
    pointer = b.bitcast(data, element_llvm(dtype).as_pointer())
    return Value(Array(dtype, array.type.rank), (pointer, *sizes[:-1], last))


# ---- records -------------------------------------------------------------------------------------------------------------


def _field_pointer(b: Any, record: Value, name: str) -> tuple[Any, int | None]:
    """The pointer to a field, and the length of a field that is an array."""
    assert isinstance(record.type, Record)
    fields = record.type.dtype.fields
    assert fields is not None
    if name not in fields:
        raise Outside(f"no field {name}")
    kind, offset = fields[name][:2]
    address = record.scalar if offset == 0 else b.add(record.scalar, WORD(offset))
    return address, kind.shape[0] if kind.shape else None


def load_field(b: Any, record: Value, name: str) -> Value:
    """A field of a record: a word, or an array of words."""
    address, length = _field_pointer(b, record, name)
    if length is not None:
        return Value(Words(length), (address,))
    return Value(INT64, (b.load(b.inttoptr(address, WORD.as_pointer())),))


def store_field(b: Any, record: Value, name: str, value: Value) -> None:
    """Write a word of a record."""
    address, length = _field_pointer(b, record, name)
    if length is not None:
        raise Outside(f"the whole of the field {name}")
    b.store(word(b, value), b.inttoptr(address, WORD.as_pointer()))


def word_pointer(b: Any, words: Value, index: Value) -> Any:
    """The pointer to a word of an array field."""
    assert isinstance(words.type, Words)
    at = _position(b, index, WORD(words.type.length))
    return b.gep(b.inttoptr(words.scalar, WORD.as_pointer()), [at])
