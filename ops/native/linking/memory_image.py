"""Objects of x86-64 mapped into this process: as much of a linker as code with near constants needs, without LLVM.

Read-only sections and the table of outside addresses come first, then instructions, then data that the program writes, each on
pages of their own: no page can be written and executed.  Formulae of relocations: System V ABI, AMD64 supplement, section 4.4.1.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
from collections.abc import Callable, Sequence

from ....declarations.frozen_dataclass import frozen
from .object_file import ALLOC, EXECINSTR, NOBITS, PROGBITS, TLS, UNDEFINED, WRITE, LinkError, ObjectFile, Relocation

#: ELF's number of x86-64.
_X86_64 = 62
#: Kinds of relocations: an address; a distance; the distance of an entry in the table of addresses.
_ABSOLUTE, _NEAR, _OF_TABLE = (1,), (2, 4), (9, 41, 42)
#: R_X86_64_PLT32: calls.  An indirect jump, relative to the next instruction, with a distance of 4 bytes behind it; its room.
_CALL, _JUMP, _JUMP_BYTES = 4, b"\xff\x25", 8
_ENTRY_BYTES = 8
#: The kind of a section that describes frames to handlers of exceptions, which compiled code does not have.
_UNWIND = 0x70000001

#: ``address_of(name)`` is the address of an undefined symbol, None where it is unknown.
AddressOf = Callable[[str], "int | None"]


class Unsupported(Exception):
    """An object that needs a whole linker."""


def map_image(found: ObjectFile, symbol: str, address_of: AddressOf) -> int:
    """Map an object for the rest of the process, and return the address of ``symbol``.

    Raises Unsupported for an object with other parts than these, or whose symbols ``address_of`` does not know.  Raises LinkError
    for a damaged object, or without memory.
    """
    return map_functions(found, [symbol], address_of)[symbol]


def map_functions(found: ObjectFile, names: Sequence[str], address_of: AddressOf) -> dict[str, int]:
    """As ``map_image``, for the addresses of several functions."""
    if sys.platform != "linux" or found.machine != _X86_64:
        raise Unsupported("another platform")
    layout = _laid_out(found)
    outside = _outside(found, address_of)
    offsets = {name: _place(found, layout, name) for name in names}
    try:
        base = _mapped(layout, lambda address: _Filling(found, layout, outside, address).image)
    except (struct.error, IndexError, OverflowError) as error:
        raise LinkError(f"damaged object: {error}") from error
    return {name: base + place for name, place in offsets.items()}


def _place(found: ObjectFile, layout: _Layout, symbol: str) -> int:
    """The offset of a function in the image."""
    offsets = [layout.offset_of(found, i) for i, s in enumerate(found.symbols) if s.name == symbol and s.section != UNDEFINED]
    if len(offsets) != 1:
        raise LinkError(f"object code has no function {symbol}")
    return offsets[0]


@frozen
class _Layout:
    """Offsets in the image: of sections, of the table's entries and of jumps by symbol, of instructions, of data that the program
    writes; and the size of the image."""

    sections: dict[int, int]
    table: dict[int, int]
    jumps: dict[int, int]
    instructions: int
    written: int
    size: int

    def offset_of(self, found: ObjectFile, symbol: int) -> int:
        """The offset of a symbol that the object defines."""
        s = found.symbols[symbol]
        if s.section not in self.sections:
            raise Unsupported(f"the symbol {s.name} is in no section of the program")
        if s.value > found.sections[s.section].size:
            raise LinkError("damaged object: a symbol beyond its section")
        return self.sections[s.section] + s.value


def _laid_out(found: ObjectFile) -> _Layout:
    allocated = {i: s for i, s in enumerate(found.sections) if s.flags & ALLOC and s.kind != _UNWIND}
    for s in allocated.values():
        if s.kind not in (PROGBITS, NOBITS) or s.flags & TLS or s.alignment > mmap.PAGESIZE:
            raise Unsupported(f"a section of kind {s.kind} with flags {s.flags} and alignment {s.alignment}")
    executed = [i for i, s in allocated.items() if s.flags & EXECINSTR]
    written = [i for i, s in allocated.items() if s.flags & WRITE and i not in executed]
    starts: dict[int, int] = {}
    end = _placed(found, [i for i in allocated if i not in executed and i not in written], 0, starts)
    # a call reaches 2 GiB, and functions of libraries are further away: it calls a jump to the address in the table
    called = sorted({r.symbol for r in found.relocations if r.kind == _CALL and found.symbols[r.symbol].section == UNDEFINED})
    used = sorted({r.symbol for r in found.relocations if r.kind in _OF_TABLE} | set(called))
    first = _rounded(end, _ENTRY_BYTES)
    table = {symbol: first + _ENTRY_BYTES * i for i, symbol in enumerate(used)}
    instructions = _rounded(first + _ENTRY_BYTES * len(used), mmap.PAGESIZE)
    code_end = _rounded(_placed(found, executed, instructions, starts), _JUMP_BYTES)
    jumps = {symbol: code_end + _JUMP_BYTES * i for i, symbol in enumerate(called)}
    data = _rounded(code_end + _JUMP_BYTES * len(called), mmap.PAGESIZE)
    size = _placed(found, written, data, starts)
    if not instructions < data <= size < 2**31:
        raise Unsupported("no instructions, or too many")
    return _Layout(starts, table, jumps, instructions, data, size)


def _placed(found: ObjectFile, sections: list[int], end: int, starts: dict[int, int]) -> int:
    """Put the offsets of sections into ``starts``, from ``end`` on; return the new end."""
    for i in sections:
        section = found.sections[i]
        if section.kind == PROGBITS and section.offset + section.size > len(found.code):
            raise LinkError("damaged object: a section beyond the file")
        starts[i] = _rounded(end, max(section.alignment, 1))
        end = starts[i] + section.size
    return end


def _rounded(number: int, step: int) -> int:
    return -(-number // step) * step


def _outside(found: ObjectFile, address_of: AddressOf) -> dict[int, int]:
    """The addresses of undefined symbols, by their indices."""
    addresses = {}
    for i, s in enumerate(found.symbols):
        if s.section == UNDEFINED and s.name:
            address = address_of(s.name)
            if address is None:
                raise Unsupported(f"the symbol {s.name} is unknown")
            addresses[i] = address
    return addresses


class _Filling:
    """The bytes of an image at the address ``base``."""

    def __init__(self, found: ObjectFile, layout: _Layout, outside: dict[int, int], base: int) -> None:
        self._found, self._layout, self._outside, self._base = found, layout, outside, base
        self.image = bytearray(layout.size)
        for i, start in layout.sections.items():
            s = found.sections[i]
            if s.kind == PROGBITS:
                self.image[start : start + s.size] = found.code[s.offset : s.offset + s.size]
        for symbol, at in layout.table.items():
            struct.pack_into("<Q", self.image, at, self._address(symbol))
        for symbol, at in layout.jumps.items():
            self.image[at : at + 2] = _JUMP
            struct.pack_into("<i", self.image, at + 2, layout.table[symbol] - (at + 6))
        for r in found.relocations:
            if r.section in layout.sections:
                self._relocate(r)

    def _address(self, symbol: int) -> int:
        if symbol in self._outside:
            return self._outside[symbol]
        return self._base + self._layout.offset_of(self._found, symbol)

    def _relocate(self, r: Relocation) -> None:
        form = "<Q" if r.kind in _ABSOLUTE else "<i"
        if r.offset + struct.calcsize(form) > self._found.sections[r.section].size:
            raise LinkError("damaged object: a relocation beyond its section")
        at = self._layout.sections[r.section] + r.offset
        if r.kind in _OF_TABLE:
            value = self._layout.table[r.symbol] + r.addend - at
        elif r.kind == _CALL and r.symbol in self._layout.jumps:
            value = self._layout.jumps[r.symbol] + r.addend - at
        elif r.kind in _NEAR and r.symbol not in self._outside:
            value = self._address(r.symbol) + r.addend - (self._base + at)
        elif r.kind in _ABSOLUTE:
            value = self._address(r.symbol) + r.addend
        else:
            raise Unsupported(f"a relocation of kind {r.kind}, or far away")
        struct.pack_into(form, self.image, at, value)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


def _mapped(layout: _Layout, image_at: Callable[[int], bytearray]) -> int:
    """The address of new memory that holds ``image_at(address)``, with the rights of each part."""
    libc = _libc()
    base = libc.mmap(None, layout.size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if base is None or base == ctypes.c_void_p(-1).value:
        raise LinkError(f"the system gives no memory for code: {os.strerror(ctypes.get_errno())}")
    try:
        ctypes.memmove(base, bytes(image_at(base)), layout.size)
        for start, end, rights in ((0, layout.instructions, 0), (layout.instructions, layout.written, mmap.PROT_EXEC)):
            if end > start and libc.mprotect(base + start, end - start, mmap.PROT_READ | rights):
                raise LinkError(f"the system permits no code here: {os.strerror(ctypes.get_errno())}")
    except BaseException:
        libc.munmap(base, layout.size)
        raise
    return int(base)
