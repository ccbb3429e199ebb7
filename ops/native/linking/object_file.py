"""Sections, symbols and relocations of an ELF64 little-endian object."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ....declarations.frozen_dataclass import frozen


class LinkError(Exception):
    """Object code that cannot be mapped into this process."""


#: Kinds of sections: bytes of the program, symbols, relocations with addends, zeros of the program.
PROGBITS, SYMTAB, RELA, NOBITS = 1, 2, 4, 8
#: Flags of sections: writable while the program runs, part of the program's memory, instructions, memory of each thread.
WRITE, ALLOC, EXECINSTR, TLS = 1, 2, 4, 0x400
#: The section index of an undefined symbol.
UNDEFINED = 0
#: The binding of a symbol that other objects do not see.
_LOCAL = 0

#: The first bytes of every object, and the bytes of its header.
_MAGIC, _HEADER_BYTES = b"\x7fELF\x02\x01", 64

_SECTION, _SYMBOL, _RELOCATION = (struct.Struct(f) for f in ("<IIQQQQIIQQ", "<IBBHQQ", "<QIIq"))


@frozen
class Section:
    """A section; ``link`` and ``info`` are indices of other sections."""

    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


@frozen
class Symbol:
    """A symbol: ``value`` is its offset in the section with index ``section``; ``is_global``: whether other objects see it."""

    name: str
    section: int
    value: int
    is_global: bool


@frozen
class Relocation:
    """The place ``offset`` of a section, to be filled in as ``kind`` says, with the address of a symbol (its index)."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@frozen
class ObjectFile:
    """An object; ``machine`` is ELF's number of the architecture."""

    code: bytes
    machine: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]

    def undefined_symbols(self) -> list[str]:
        """The names of the symbols that others must define."""
        return [s.name for s in self.symbols if s.section == UNDEFINED and s.name]


def objects_in(code: bytes) -> list[bytes]:
    """The objects of which ``code`` consists: each ends with the table of its sections, as LLVM writes them.

    Raises LinkError for other bytes.
    """
    found: list[bytes] = []
    while code:
        if code[:6] != _MAGIC:
            raise LinkError("not a 64-bit ELF object")
        try:
            (table,), (step, count) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<HH", code, 58)
        except struct.error as error:
            raise LinkError(f"damaged object: {error}") from error
        end = table + step * count
        if not _HEADER_BYTES <= end <= len(code):
            raise LinkError("damaged object: it ends before its sections")
        found.append(code[:end])
        code = code[end:]
    return found


def read_object(code: bytes) -> ObjectFile:
    """The parts of an object.  Raises LinkError for any other file, and for a damaged one."""
    if code[:6] != _MAGIC:
        raise LinkError("not a 64-bit ELF object")
    try:
        (machine,) = struct.unpack_from("<H", code, 18)
        (table,) = struct.unpack_from("<Q", code, 40)
        step, count = struct.unpack_from("<HH", code, 58)
        sections = tuple(_section(code, table + i * step) for i in range(count))
        symbols = tuple(symbol for s in sections if s.kind == SYMTAB for symbol in _symbols(code, s, sections))
        relocations = tuple(r for s in sections if s.kind == RELA for r in _relocations(code, s))
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise LinkError(f"damaged object: {error}") from error
    return ObjectFile(code, machine, sections, symbols, relocations)


def _section(code: bytes, at: int) -> Section:
    _, kind, flags, _, offset, size, link, info, alignment, _ = _SECTION.unpack_from(code, at)
    return Section(kind, flags, offset, size, link, info, alignment)


def _symbols(code: bytes, table: Section, sections: tuple[Section, ...]) -> Iterator[Symbol]:
    names = sections[table.link].offset
    for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
        name, info, _other, section, value, _size = _SYMBOL.unpack_from(code, at)
        start = names + name
        yield Symbol(code[start : code.index(b"\0", start)].decode(), section, value, info >> 4 != _LOCAL)


def _relocations(code: bytes, table: Section) -> Iterator[Relocation]:
    for at in range(table.offset, table.offset + table.size, _RELOCATION.size):
        offset, kind, symbol, addend = _RELOCATION.unpack_from(code, at)
        yield Relocation(table.info, offset, kind, symbol, addend)
