"""Text for people out of text of any kind: no character that a terminal obeys, no line that fills a screen."""

from __future__ import annotations

import unicodedata

#: Characters shown of one line of a source, and of one message, note or help.
LINE, PLACE, MESSAGE = 160, 400, 2000
_CUT = "…"


def printable(text: str) -> str:
    """``text`` with every character that is not shown as itself written as Python writes it: ``\\x1b``, ``\\u202e``.

    Control characters, marks that turn the direction of text, line separators, halves of surrogate pairs and blanks other than
    the space are such.  Line breaks stay.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(c: str) -> str:
    return c if c.isprintable() or c == "\n" else repr(c)[1:-1] if c != "\N{NO-BREAK SPACE}" else "\\xa0"


def shortened(text: str, most: int = MESSAGE) -> str:
    """The text, printable; of a long one its beginning and end, and how much is left out between them."""
    text = printable(text)
    if len(text) <= most:
        return text
    head, tail = 3 * most // 4, most // 4
    return f"{text[:head]}{_CUT}[{len(text) - head - tail} characters left out]{_CUT}{text[-tail:]}"


def underlined(line: str, column: int, width: int) -> tuple[str, str]:
    """Printable text of a source line and the line of carets under ``width`` characters from ``column`` (from 1).

    Of a long line only the surroundings of the carets are shown, between dots.
    """
    start = column - 1
    first, last = _window(len(line), start, width)
    head, tail = (_CUT if first else ""), (_CUT if last < len(line) else "")
    marked = line[start : min(start + width, last)]
    before = head + _shown(line[first:start])
    shown = before + _shown(marked) + _shown(line[start + len(marked) : last]) + tail
    return shown, " " * _columns(before) + "^" * max(1, _columns(_shown(marked)))


def _shown(text: str) -> str:
    """Printable; a tab is a blank, as the carets count it."""
    return printable(text.replace("\t", " "))


def _window(length: int, start: int, width: int) -> tuple[int, int]:
    """The range of a line's characters that is shown."""
    if length <= LINE:
        return 0, length
    first = max(0, min(start - (LINE - min(width, LINE)) // 2, length - LINE))
    return first, first + LINE


def _columns(text: str) -> int:
    """How many columns of a terminal the text takes: wide characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
