"""Kernels that differ in literals only are compiled once: scales and zero points of quantised layers, known sizes.

The text of such a kernel becomes a text without these literals: numbers, in the order of their first use, stand for them.  Its
machine code reads them from a table of constants in the object code, in which compilation leaves marks.  The object code of the
kernel is this code with its own table in place of the marks.

A literal stays in the text where LLVM makes better code of its value: powers of two and numbers around them, factors of integers,
bounds of comparisons.  Only literals beside an arithmetic operator are taken out, and sizes (see ``given_sizes``).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from typing import Any

from ..memory import set_machine_form, twin

#: A number of the table.
Literal = float | int
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_REAL = rf"(float32|float64)\(({_NUMBER})\)"
_INTEGER = r"(int8|int16|int32)\((-?\d+)\)"
#: Literals after and before an operator of real numbers; after a plus or a minus of integers.
_POSITIONS = re.compile(rf"(?<=[-+*/] ){_REAL}|{_REAL}(?= [-+*/] )|(?<=[-+] ){_INTEGER}")
#: The first word of a table, and the words that stand for its numbers: these count up from it.
_MARK = 0x6C3A_91D7_52E8_0B00
#: The most numbers of a table.
_MOST = 200


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


def without_literals(text: str) -> tuple[str, tuple[Literal, ...]]:
    """The text of a kernel with its literals taken out, and the literals."""
    found: dict[tuple[str, str], int] = {}

    def number_of(match: re.Match[str]) -> str:
        dtype, digits = match[1] or match[3] or match[5], match[2] or match[4] or match[6]
        if _stays(dtype, digits):
            return match[0]
        number = found.setdefault(("float" if dtype.startswith("float") else "integer", digits), len(found))
        return f"{dtype}(given_{'float' if dtype.startswith('float') else 'integer'}({number}, COUNT))"

    from .given_sizes import without_sizes  # only where code is compiled

    shared = _POSITIONS.sub(number_of, text)
    if len(found) > _MOST:
        shared, found = text, {}
    shared, sizes = without_sizes(shared, len(found), _MOST - len(found))
    numbers = (*(float(digits) if kind == "float" else int(digits) for kind, digits in found), *sizes)
    return shared.replace(", COUNT)", f", {len(numbers)})"), numbers


def _stays(dtype: str, digits: str) -> bool:
    """Whether LLVM makes other code of this value than of other values."""
    if dtype.startswith("float"):
        value = float(digits)
        return value == 0 or math.isinf(value) or abs(math.frexp(value)[0]) == 0.5
    magnitude = abs(int(digits))
    return magnitude & (magnitude - 1) == 0 or magnitude & (magnitude + 1) == 0


def filled(code: bytes, numbers: Sequence[Literal]) -> bytes | None:
    """Object code with ``numbers`` in its table; None unless it has one table, whole."""
    marks = struct.pack(f"<{len(numbers) + 1}q", *range(_MARK, _MARK + len(numbers) + 1))
    table = struct.pack("<q", _MARK) + b"".join(struct.pack("<d" if isinstance(n, float) else "<q", n) for n in numbers)
    return code.replace(marks, table) if code.count(marks) == 1 else None


def _table(module: Any, count: int) -> Any:
    """The table of a module.  LLVM may not assume its values, and that nothing writes to it."""
    from llvmlite import ir

    name, word = "relayvm.literals", ir.IntType(64)
    if name in module.globals:
        return module.globals[name]
    kind = ir.ArrayType(word, count + 1)
    table = ir.GlobalVariable(module, kind, name)
    table.linkage, table.storage_class, table.global_constant = "internal", "externally_initialized", True
    table.initializer = ir.Constant(kind, [word(_MARK + k) for k in range(count + 1)])
    return table


def _loaded(emitter: Any, number: Any, count: Any, kind: Any) -> Any:
    """A literal from the table of the emitter's module; ``kind``: the LLVM type of the number."""
    from llvmlite import ir

    from ..front_end.scalars import known_integer

    at, size, builder = known_integer(number), known_integer(count), emitter.builder
    assert at is not None and size is not None
    word = ir.IntType(32)
    place = builder.gep(_table(builder.module, size), [word(0), word(at + 1)], inbounds=True)
    return builder.load(builder.bitcast(place, kind.as_pointer()))


def _float(emitter: Any, number: Any, count: Any) -> Any:
    from llvmlite import ir

    from ..front_end.machine_types import FLOAT64, Value

    return Value(FLOAT64, (_loaded(emitter, number, count, ir.DoubleType()),))


def _integer(emitter: Any, number: Any, count: Any) -> Any:
    from ..front_end.machine_types import INT64, WORD, Value

    return Value(INT64, (_loaded(emitter, number, count, WORD),))


def _size(emitter: Any, number: Any, count: Any) -> Any:
    from ..front_end.llvm.instructions import annotate
    from ..front_end.machine_types import INT64, WORD, Value

    size = _loaded(emitter, number, count, WORD)
    annotate(emitter.builder.block, "load", "range", [WORD(0), WORD(1 << 62)])
    return Value(INT64, (size,))


set_machine_form(given_float, lambda: _float)
set_machine_form(given_integer, lambda: _integer)
set_machine_form(given_size, lambda: _size)
