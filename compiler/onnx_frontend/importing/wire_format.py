"""The bytes of a message of protobuf: a series of fields.

A field is a number ``field << 3 | kind``, then a number (kind 0), 8 bytes (1), a length and that many bytes (2), or 4 bytes (5).
Numbers have 7 bits in a byte, the lowest first, and a bit that says whether there are more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class Bytes(Protocol):
    """Bytes by position."""

    def __getitem__(self, at: int, /) -> int: ...


class Field(NamedTuple):
    """A field: its number, the position of its key, and the positions at which its bytes begin and end."""

    number: int
    key: int
    begin: int
    end: int


_NUMBER, _LENGTH = 0, 2
_FIXED = {1: 8, 5: 4}


def fields(data: Bytes, begin: int, end: int) -> Iterator[Field]:
    """The fields with a length of the message in ``data[begin:end]``, up to the first that is none."""
    return (field for field, kind in _fields(data, begin, end) if kind == _LENGTH)


def is_whole(data: Bytes, begin: int, end: int) -> bool:
    """Whether fields fill ``data[begin:end]``: the last one ends there."""
    at = begin
    for field, _ in _fields(data, begin, end):
        at = field.end
    return at == end


def numbers_in(data: Bytes, begin: int, end: int, field: int) -> list[int]:
    """The values of the fields with this number that are numbers, as ``fields``."""
    found = (at for at, kind in _fields(data, begin, end) if kind == _NUMBER and at.number == field)
    return [_number(data, at.begin, at.end)[0] for at in found]


def _fields(data: Bytes, begin: int, end: int) -> Iterator[tuple[Field, int]]:
    """Every field with its kind, up to the first that is none."""
    at = begin
    while at < end:
        key = at
        number, at = _number(data, at, end)
        field, kind = number >> 3, number & 7
        first = at
        if kind == _NUMBER:
            _, at = _number(data, at, end)
        elif kind == _LENGTH:
            length, first = _number(data, at, end)
            at = first + length
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            return
        if kind == _LENGTH and at > end:
            return
        yield Field(field, key, first, at), kind


def _number(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A number of up to 64 bits and the position of its end; beyond ``end`` it is 0."""
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at
    return 0, end


def key_of(field: int, length: int) -> bytes:
    """The bytes before those of a field with a length."""
    return _encoded(field << 3 | _LENGTH) + _encoded(length)


def field_of(field: int, data: bytes) -> bytes:
    """A field with these bytes."""
    return key_of(field, len(data)) + data


def number_of(field: int, number: int) -> bytes:
    """A field with a number."""
    return _encoded(field << 3) + _encoded(number)


def _encoded(number: int) -> bytes:
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)
