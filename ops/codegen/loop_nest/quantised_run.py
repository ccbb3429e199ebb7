"""Rounding of float32 to bytes, limited to their range: the end of a layer of quantised numbers.

Four vectors of numbers become one of bytes.  LLVM makes bytes of each vector by itself, and rounds before it limits, which takes
twice the instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.front_end.llvm import host
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static, static_range
from ...native.vector_registers import vector_bytes
from ...native.vectors import (
    Mask,
    Vector,
    add_limited,
    gather,
    load,
    load_some,
    mask_of_bits,
    narrowed,
    nearest_integers,
    select,
    shuffle,
    splat,
    store,
    store_some,
)

#: Vectors of float32 that become one of bytes.
PARTS = 4
#: A number that the int32 of no byte reaches, and that itself is one.
_MOST = np.float32(2.0**30)
#: A number that leaves no bits for the fraction of another one of few bits, in the middle of such numbers.
_NO_FRACTION = np.float32(1.5 * 2.0**23)


@at_compile_time
def packs_integers() -> bool:
    """Whether instructions limit integers of a vector to half their bits."""
    return {64: "avx512bw", 32: "avx2"}.get(vector_bytes(), "sse2") in host.features()


@at_compile_time
def lowest_and_highest(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The range of a dtype of integers."""
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


@at_compile_time
def order_of_parts(lanes: int) -> tuple[int, ...]:
    """The words of four vectors that ``narrowed`` has mixed twice, by 16 bytes of each, in the order of the vectors."""
    groups = lanes // PARTS
    return tuple(group * PARTS + part for part in range(PARTS) for group in range(groups))


@at_compile_time
def numbers_below(count: int) -> tuple[int, ...]:
    """The numbers from 0 on."""
    return tuple(range(count))


@generic
def bytes_of_numbers(parts: list[Vector], zero_point: int, dtype: np.dtype[Any]) -> Vector:
    """The numbers of ``parts``, rounded, halves to the even one, plus ``zero_point``, a byte, limited to the range of ``dtype``.

    NaN becomes the lowest number.
    """
    if packs_integers():
        return _packed(parts, zero_point, dtype)
    return _converted(parts, zero_point, dtype)


@generic
def _packed(parts: list[Vector], zero_point: int, dtype: np.dtype[Any]) -> Vector:
    """As ``bytes_of_numbers``, for a CPU that limits integers to half their bits."""
    lanes = len(parts[0])
    most, added = splat(_MOST, lanes), splat(np.int16(zero_point), 2 * lanes)
    whole = [nearest_integers(select(part >= most, most, part)) for part in parts]
    low, high = narrowed(whole[0], whole[1], np.int16), narrowed(whole[2], whole[3], np.int16)
    mixed = narrowed(add_limited(low, added), add_limited(high, added), dtype).view(np.int32)
    return shuffle(mixed, mixed, order_of_parts(lanes)).view(dtype)


@generic
def _converted(parts: list[Vector], zero_point: int, dtype: np.dtype[Any]) -> Vector:
    """As ``bytes_of_numbers``, for any CPU."""
    lanes, (lowest, highest) = len(parts[0]), lowest_and_highest(dtype)
    least, most = splat(np.float32(lowest - zero_point), lanes), splat(np.float32(highest - zero_point), lanes)
    limited = [select(part >= least, select(part > most, most, part), least) for part in parts]
    # adding the number that leaves no bits for a fraction rounds, halves to even
    whole = [((part + _NO_FRACTION) - _NO_FRACTION).astype(np.int32) + zero_point for part in limited]
    return bytes_of_words(whole, dtype)


@at_compile_time
def lanes_of_part() -> int:
    """The numbers of a part: those of a register."""
    return vector_bytes() // 4


@at_compile_time
def numbers_of_parts() -> int:
    """The numbers that become bytes together."""
    return PARTS * lanes_of_part()


@generic
def inside(count: int, part: int, parts: int) -> Mask:
    """The lanes of some parts, from a part on, that are among the first ``count`` of a run, fewer than 64."""
    return mask_of_bits(((1 << count) - 1) >> part * lanes_of_part(), parts * lanes_of_part())


@generic
def no_parts() -> list[Vector]:
    """Parts of zeros."""
    return [splat(np.float32(0.0), lanes_of_part())] * PARTS


@generic
def no_words() -> list[Vector]:
    """As ``no_parts``, of int32."""
    return [splat(np.int32(0), lanes_of_part())] * PARTS


@generic
def part_of(array: Array, at: int) -> Vector:
    """A part of the elements from ``at`` on."""
    return load(array, at, lanes_of_part())


@generic
def part_inside(array: Array, at: int, count: int, part: int) -> Vector:
    """As ``part_of``, of the elements among the first ``count`` of a run."""
    return load_some(array, at, inside(count, part, static(1)), splat(array.dtype.type(0), lanes_of_part()))


@generic
def as_float32(part: Vector) -> Vector:
    """Integers as float32."""
    return part.astype(np.float32)


@generic
def as_int32(part: Vector) -> Vector:
    """Integers as int32."""
    return part.astype(np.int32)


@generic
def rounded_to_uint8(part: Vector, zero_point: int) -> Vector:
    """As ``bytes_of_numbers`` of uint8, in int32."""
    return _rounded(part, zero_point, static(0), static(255))


@generic
def rounded_to_int8(part: Vector, zero_point: int) -> Vector:
    """As ``bytes_of_numbers`` of int8, in int32."""
    return _rounded(part, zero_point, static(-128), static(127))


@generic
def _rounded(part: Vector, zero_point: int, lowest: int, highest: int) -> Vector:
    """As ``bytes_of_numbers``, in int32."""
    lanes = len(part)
    least, most = splat(np.float32(lowest - zero_point), lanes), splat(np.float32(highest - zero_point), lanes)
    limited = select(part >= least, select(part > most, most, part), least)
    if packs_integers():
        return nearest_integers(limited) + splat(np.int32(zero_point), lanes)
    return ((limited + _NO_FRACTION) - _NO_FRACTION).astype(np.int32) + splat(np.int32(zero_point), lanes)


@generic
def looked_up(table: Array, index: Vector, last: int) -> Vector:
    """The elements of a table of int32 at places that are limited to 0 to ``last``."""
    lanes = len(index)
    least, most = splat(np.int32(0), lanes), splat(np.int32(last), lanes)
    limited = select(index >= least, select(index > most, most, index), least)
    return gather(table, 0, limited.astype(np.int64), mask_of_bits(-1, lanes), least)


@generic
def larger_part(part: Vector, other: Vector) -> Vector:
    """The larger ones of numbers and of a number; those of ``part`` that are NaN."""
    return select(part <= other, splat(other, len(part)), part)


@generic
def smaller_part(part: Vector, other: Vector) -> Vector:
    """As ``larger_part``, the smaller ones."""
    return select(part >= other, splat(other, len(part)), part)


@generic
def store_numbers(parts: list[Vector], out: Array, at: int) -> None:
    """Store numbers from ``at`` on."""
    for part in static_range(PARTS):
        store(out, at + part * lanes_of_part(), parts[part])


@generic
def store_numbers_inside(parts: list[Vector], out: Array, at: int, count: int) -> None:
    """As ``store_numbers``, the first ``count``."""
    for part in static_range(PARTS):
        store_some(out, at + part * lanes_of_part(), parts[part], inside(count, part, static(1)))


@generic
def bytes_of_words(parts: list[Vector], dtype: np.dtype[Any]) -> Vector:
    """The lowest bytes of ``parts``, of int32."""
    lanes, few = len(parts[0]), [part.astype(dtype) for part in parts]
    pair, all_parts = numbers_below(2 * lanes), numbers_below(PARTS * lanes)
    return shuffle(shuffle(few[0], few[1], pair), shuffle(few[2], few[3], pair), all_parts)


@generic
def store_words(parts: list[Vector], out: Array, at: int) -> None:
    """Store the lowest bytes of int32 from ``at`` on."""
    store(out, at, bytes_of_words(parts, out.dtype))


@generic
def store_words_inside(parts: list[Vector], out: Array, at: int, count: int) -> None:
    """As ``store_words``, the first ``count``."""
    store_some(out, at, bytes_of_words(parts, out.dtype), inside(count, static(0), static(PARTS)))


@generic
def store_parts(parts: list[Vector], zero_point: int, out: Array, at: int) -> None:
    """Store numbers as bytes from ``at`` on."""
    store(out, at, bytes_of_numbers(parts, zero_point, out.dtype))


@generic
def store_parts_inside(parts: list[Vector], zero_point: int, out: Array, at: int, count: int) -> None:
    """As ``store_parts``, the first ``count``."""
    store_some(out, at, bytes_of_numbers(parts, zero_point, out.dtype), inside(count, static(0), static(PARTS)))
