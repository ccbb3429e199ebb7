"""Machine code reads constants near itself, and calls functions outside through a table of addresses beside it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from relayvm.ops.native.jit.native_compiler import compile_object, has_near_constants
from relayvm.ops.native.linking.object_file import read_object
from relayvm.ops.native.memory import alloc, array_float64, free, native

#: Kinds of relocations: relative to the instruction, and the place of an address in the table.  Others are absolute, or stubs.
PC32, OF_TABLE = 2, {9, 41, 42}

pytestmark = pytest.mark.skipif(not has_near_constants(), reason="the code model of this platform is another one")


@native
def scaled(address: int, count: int) -> int:
    """Constants that no instruction can hold, and calls of functions outside."""
    x, scratch = array_float64(address, count), array_float64(alloc(8 * count), count)
    for i in range(count):
        scratch[i] = x[i] * 0.3 + 1.7
    for i in range(count):
        x[i] = scratch[i]
    free(scratch.ctypes.data)
    return 0


def relocations(code: bytes) -> Iterator[int]:
    """The kinds of relocations of the code in an ELF64 object."""
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count, _ = struct.unpack_from("<HHH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, _, target, _, item in sections:
        if kind == 4 and sections[target][2] & 4:  # SHT_RELA of a section with SHF_EXECINSTR
            for at in range(offset, offset + length, item):
                yield struct.unpack_from("<QQq", code, at)[1] & 0xFFFFFFFF


def test_constants_are_relative_and_calls_use_the_table() -> None:
    code = compile_object(scaled, "int64(int64, int64)").code
    kinds = list(relocations(code))
    assert read_object(code).undefined_symbols(), "the function calls nothing outside"
    assert PC32 in kinds and OF_TABLE & set(kinds)
    assert not set(kinds) - {PC32} - OF_TABLE
