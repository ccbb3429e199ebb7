"""Literals of kernels that machine code reads from a table: kernels that differ in literals only are compiled once.

Machine code reads them from a table of constants in the object code, in which compilation leaves marks.  The object code of a
kernel is this code with its own table in place of the marks (``ops.codegen.cpu.shared_texts`` makes the texts).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from .memory import twin

#: A number of the table.
Literal = float | int
#: The first word of a table, and the words that stand for its numbers: these count up from it.
MARK = 0x6C3A_91D7_52E8_0B00
#: The most numbers of a table.
MOST = 200


@twin
def given_float(number: int, count: int) -> float:
    """The literal ``number`` of ``count``, a float64, in machine code."""
    raise NotImplementedError("texts without literals are compiled only")


@twin
def given_integer(number: int, count: int) -> int:
    """The literal ``number`` of ``count``, an int64, in machine code."""
    raise NotImplementedError("texts without literals are compiled only")


@twin
def given_size(number: int, count: int) -> int:
    """The literal ``number`` of ``count``, an int64 that is not negative, in machine code."""
    raise NotImplementedError("texts without literals are compiled only")


def filled(code: bytes, numbers: Sequence[Literal]) -> bytes | None:
    """Object code with ``numbers`` in its table; None unless it has one table, whole."""
    marks = struct.pack(f"<{len(numbers) + 1}q", *range(MARK, MARK + len(numbers) + 1))
    table = struct.pack("<q", MARK) + b"".join(struct.pack("<d" if isinstance(n, float) else "<q", n) for n in numbers)
    return code.replace(marks, table) if code.count(marks) == 1 else None
