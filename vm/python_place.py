"""Places in a user's Python file: where a node was made, or an argument given that does not fit."""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
from pathlib import Path

from .source import SourceText, Span

#: Code of these is ours; whatever else calls is a user's: programs, examples, tests.
_ROOT = Path(__file__).resolve().parents[1]
_OURS = (*(f"{_ROOT / layer}{os.sep}" for layer in ("compiler", "vm", "ops", "shape_funcs")), str(_ROOT / "__init__.py"))


class PythonSource(SourceText):
    """A Python file.  ``text`` is what it holds now; of a file that cannot be read it is empty lines."""

    def brief(self) -> Brief:
        """The text that an executable keeps of the file: the lines that made nodes, each where it was; the others are empty."""
        lines = {n: self.line(n) for (source, n) in _spans_made() if source is self}
        texts = [lines.get(n, "") for n in range(1, max(lines, default=0) + 1)]
        return Brief(self, SourceText(self.name, "\n".join(texts)))


class Brief:
    """Offsets of a file as offsets of the text that is kept of it."""

    def __init__(self, whole: PythonSource, kept: SourceText) -> None:
        self.whole, self.kept = whole, kept

    def moved(self, offset: int) -> int:
        """The place of the character in the text that is kept."""
        line, column = self.whole.position(offset)
        return self.kept.offset(line) + column - 1


@functools.cache
def _ours(filename: str) -> bool:
    return filename.startswith(_OURS)


def here() -> Span | None:
    """The line of the innermost frame that is not ours; None where there is none."""
    frame = sys._getframe(1)
    while _ours(frame.f_code.co_filename):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return _line_of(frame.f_code.co_filename, frame.f_lineno)


@functools.cache
def _line_of(filename: str, number: int) -> Span:
    source = _source(filename, "".join(linecache.getlines(filename)))
    if not source.has_line(number):  # a file that cannot be read, or has become shorter
        source = _source(filename, "\n" * number)
    text = source.line(number)
    start = source.offset(number) + len(text) - len(text.lstrip())
    _spans_made()[source, number] = None
    return Span(source, start, start + max(1, len(text.strip())))


@functools.cache
def _source(filename: str, text: str) -> PythonSource:
    """One object for each file, as long as it holds the same."""
    with contextlib.suppress(OSError, ValueError):  # the folder that we are in may be gone
        path = Path(filename)
        filename = str(path.relative_to(Path.cwd())) if path.is_absolute() else filename
    return PythonSource(filename, text)


@functools.cache
def _spans_made() -> dict[tuple[PythonSource, int], None]:
    """The lines that were asked for, by source and number."""
    return {}
