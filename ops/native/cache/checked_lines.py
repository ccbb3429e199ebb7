"""JSON lines, each with its own checksum: an interrupted write damages no other line.

    {"check":"<16 hexadecimal digits of SHA-256>","record":{...}}

The checksum is over the text of the record.  Reading is slicing and JSON: nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

#: A line longer than this is rejected before it is parsed.
MAX_LINE_BYTES = 1 << 16

_DIGITS = 16
_BEGIN, _MIDDLE, _END = b'{"check":"', b'","record":', b"}"
_RECORD_AT = len(_BEGIN) + _DIGITS + len(_MIDDLE)


class RejectedLine(NamedTuple):
    """A rejected line: its number, from 1, and the reason."""

    line: int
    why: str


class CheckedLine(NamedTuple):
    """An accepted line: its number, from 1, its record, and its bytes with the line end."""

    line: int
    record: dict[str, Any]
    raw: bytes


def _check(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:_DIGITS].encode()


def pack(record: dict[str, Any]) -> bytes:
    """Serialize a record as a line, with its end.  Raises ValueError for a record that is too long or is not JSON data."""
    text = json.dumps(record, separators=(",", ":"), allow_nan=False).encode("ascii")
    line = b"".join((_BEGIN, _check(text), _MIDDLE, text, _END, b"\n"))
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"a record has {len(line)} bytes; at most {MAX_LINE_BYTES} are possible")
    return line


def unpack(data: bytes, first: int = 1) -> Iterator[CheckedLine | RejectedLine]:
    """Parse every line of ``data`` that is not blank.  The first line has the number ``first``."""
    for number, line in enumerate(data.split(b"\n"), first):
        if line.strip():
            try:
                yield CheckedLine(number, _record(line), line + b"\n")
            except ValueError as error:
                yield RejectedLine(number, str(error))


def _record(line: bytes) -> dict[str, Any]:
    """Parse a line.  Raises ValueError with the reason of the rejection."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"it has {len(line)} bytes, of at most {MAX_LINE_BYTES}")
    if not line.startswith(_BEGIN) or line[_RECORD_AT - len(_MIDDLE) : _RECORD_AT] != _MIDDLE or not line.endswith(_END):
        raise ValueError("it is not a line of this format, or is cut short")
    text = line[_RECORD_AT : -len(_END)]
    if _check(text) != line[len(_BEGIN) : len(_BEGIN) + _DIGITS]:
        raise ValueError("its checksum is wrong")
    # only a crafted line fails from here on
    try:
        record = json.loads(text, parse_constant=_no_number)
        json.dumps(record, ensure_ascii=False).encode()  # an escape can name a lone surrogate, which could never be printed
    except (ValueError, RecursionError) as error:
        raise ValueError("it cannot be read as JSON") from error
    if type(record) is not dict:
        raise ValueError("its record is not an object")
    return record


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")
