"""Instructions of machine code with their operands taken apart, and the registers they read and write."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\w+),")
_LABEL = re.compile(r"^([.$\w]+):\s*$")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:\{\s*)?(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_TARGET = re.compile(r"`\(([^)]+)\)")
_REGISTER = re.compile(r"(?<![\w.])(U?R)(\d+)(\.64)?")
_WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
#: Operations whose result, or whose operands, fill two registers.
_PAIRS = ("DADD", "DMUL", "DFMA", "CS2R")


@dataclass(frozen=True)
class Step:
    """``target``: the address a branch goes to.  ``nbytes``: of an access.  ``reads``, ``writes``: registers by name."""

    at: int
    guard: str
    opcode: str
    operands: tuple[str, ...]
    target: int | None
    nbytes: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    @functools.cached_property
    def name(self) -> str:
        """The opcode without modifiers; an operation on uniform registers has the name of the same on others."""
        name = self.opcode.partition(".")[0]
        return name[1:] if name[0] == "U" and name != "UNDEF" else name

    @functools.cached_property
    def modifiers(self) -> list[str]:
        """The modifiers of the opcode."""
        return self.opcode.split(".")[1:]


def kernels(listing: str) -> dict[str, list[Step]]:
    """The instructions of each kernel of a listing, by its name."""
    return {name: list(_steps(lines)) for name, lines in _sections(listing)}


def _sections(listing: str) -> Iterator[tuple[str, list[str]]]:
    parts = re.split(r"(?m)^(?=\s*\.section)", listing)
    for part in parts:
        if found := _SECTION.match(part):
            yield found[1], part.splitlines()


def _steps(lines: list[str]) -> Iterator[Step]:
    labels, waiting, found = dict[str, int](), list[str](), list[tuple[int, str, str, str]]()
    for line in lines:
        if label := _LABEL.match(line):
            waiting.append(label[1])
        elif one := _INSTRUCTION.match(line):
            labels |= dict.fromkeys(waiting, int(one[1], 16))
            waiting.clear()
            found.append((int(one[1], 16), one[2] or "", one[3], one[4].partition("(*")[0].strip()))
    for at, guard, opcode, text in found:
        target = _TARGET.search(text)
        operands = tuple(x.strip().replace(".reuse", "") for x in _TARGET.sub("", text).split(",") if x.strip())
        nbytes = next((_WIDTHS[m] for m in opcode.split(".")[1:] if m in _WIDTHS), 4)
        reads, writes = _registers(opcode, operands, nbytes)
        goes = labels.get(target[1]) if target else None
        yield Step(at, guard, opcode, operands, goes, nbytes, reads, writes)


def _registers(opcode: str, operands: tuple[str, ...], nbytes: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    name = opcode.partition(".")[0]
    stores = name in ("STG", "STS", "STL", "ST", "BRA", "EXIT", "BAR", "REDG")
    wide = 2 if name in _PAIRS or "WIDE" in opcode or opcode.endswith("F64.F32") else 1
    if name in ("LDG", "LDS", "LDL", "LDC", "ULDC", "STG", "STS", "STL") and nbytes > 4:
        wide = nbytes // 4
    first = 0 if stores else next((k + 1 for k, x in enumerate(operands) if re.fullmatch(r"U?R(\d+|Z)", x)), 1)
    writes = [r for x in operands[:first] for r in _of(x, wide)]
    reads = []
    for k, x in enumerate(operands[first:], first):
        plain = "[" not in x
        pair = (
            wide
            if plain and (name in _PAIRS or (stores and nbytes > 4))
            else 2
            if plain and "WIDE" in opcode and k == len(operands) - 1
            else 1
        )
        reads += _of(x, pair)
    return tuple(reads), tuple(writes)


def _of(text: str, wide: int) -> list[str]:
    found = [f"{kind}{int(n) + k}" for kind, n, pair in _REGISTER.findall(text) for k in range(2 if pair else wide)]
    return found + re.findall(r"U?P\d", text)
