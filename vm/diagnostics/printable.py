"""Conversion of arbitrary text to printable text of bounded length, without control characters."""

from __future__ import annotations

import unicodedata

#: Most characters shown of a source line, of a location, and of a message, note or help.
LINE, PLACE, MESSAGE = 160, 400, 2000
_CUT = "…"


def printable(text: str) -> str:
    """Escape the unprintable characters of ``text`` as in Python: ``\\x1b``, ``\\u202e``.

    Unprintable are control characters, bidirectional marks, line separators, lone surrogates and blanks other than the space.
    Line breaks stay.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable_name(name: str) -> str:
    """A name in one line: ``printable``, and line breaks are escaped, too."""
    return name if name.isprintable() else printable(name).replace("\n", "\\n")


def _escaped(c: str) -> str:
    return c if c.isprintable() or c == "\n" else repr(c)[1:-1] if c != "\N{NO-BREAK SPACE}" else "\\xa0"


def shortened(text: str, most: int = MESSAGE) -> str:
    """``text`` made printable; a long text is cut in the middle, with the number of omitted characters."""
    text = printable(text)
    if len(text) <= most:
        return text
    head, tail = 3 * most // 4, most // 4
    return f"{text[:head]}{_CUT}[{len(text) - head - tail} characters left out]{_CUT}{text[-tail:]}"


def underlined(line: str, column: int, width: int) -> tuple[str, str]:
    """A source line made printable, and the line of carets under ``width`` characters from ``column`` (from 1).

    A long line is cut to the part around the carets, between dots.
    """
    start = column - 1
    first, last = _window(len(line), start, width)
    head, tail = (_CUT if first else ""), (_CUT if last < len(line) else "")
    marked = line[start : min(start + width, last)]
    before = head + _shown(line[first:start])
    shown = before + _shown(marked) + _shown(line[start + len(marked) : last]) + tail
    return shown, " " * _columns(before) + "^" * max(1, _columns(_shown(marked)))


def _shown(text: str) -> str:
    """``text`` made printable, with blanks for tabs so that the carets stay aligned."""
    return printable(text.replace("\t", " "))


def _window(length: int, start: int, width: int) -> tuple[int, int]:
    """The range of the shown characters of a line."""
    if length <= LINE:
        return 0, length
    first = max(0, min(start - (LINE - min(width, LINE)) // 2, length - LINE))
    return first, first + LINE


def _columns(text: str) -> int:
    """The width of ``text`` in terminal columns: two for a wide character, none for a combining mark."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
