"""Source locations in the user's Python files, for nodes built in Python and for invalid arguments."""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
from pathlib import Path

from .source import SourceText, Span

#: Folders of the library, besides the files of its root; every other caller is user code: programs, examples, tests.
#: The root as it was imported, and as the links on its way resolve.
_ROOTS = {str(Path(__file__).parents[2]), str(Path(__file__).resolve().parents[2])}
_FOLDERS = ("relay_modules", "serving", "compiler", "vm", "ops", "shape_funcs", "declarations")
_OURS = tuple(os.path.join(root, layer, "") for root in _ROOTS for layer in _FOLDERS)


class PythonSource(SourceText):
    """A Python file.  ``text`` is its current contents, or empty lines if the file cannot be read."""

    def brief(self) -> Brief:
        """The part of the file that an executable keeps: the lines that made nodes, at their line numbers; all others empty."""
        lines = {n: self.line(n) for (source, n) in _spans_made() if source is self}
        texts = [lines.get(n, "") for n in range(1, max(lines, default=0) + 1)]
        return Brief(self, SourceText(self.name, "\n".join(texts)))


class Brief:
    """Map from offsets in a file to offsets in the part that an executable keeps."""

    def __init__(self, whole: PythonSource, kept: SourceText) -> None:
        self.whole, self.kept = whole, kept

    def moved(self, offset: int) -> int:
        """The offset in the kept text of the character at ``offset``."""
        line, column = self.whole.position(offset)
        return self.kept.offset(line) + column - 1


@functools.cache
def _ours(filename: str) -> bool:
    return filename.startswith(_OURS) or os.path.dirname(filename) in _ROOTS


def here() -> Span | None:
    """The line of the innermost frame of user code; None if there is none."""
    frame = sys._getframe(1)
    while _ours(frame.f_code.co_filename):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return line_of(frame.f_code.co_filename, frame.f_lineno)


@functools.cache
def line_of(filename: str, number: int) -> Span:
    """A line of a Python file."""
    source = _source(filename, "".join(linecache.getlines(filename)))
    if not source.has_line(number):  # a file that cannot be read, or has become shorter
        source = _source(filename, "\n" * number)
    text = source.line(number)
    start = source.offset(number) + len(text) - len(text.lstrip())
    _spans_made()[source, number] = None
    return Span(source, start, start + len(text.strip()))


@functools.cache
def _source(filename: str, text: str) -> PythonSource:
    """The PythonSource of a file; one object per file and contents."""
    with contextlib.suppress(OSError, ValueError):  # the working directory may not exist any more
        path = Path(filename)
        filename = str(path.relative_to(Path.cwd())) if path.is_absolute() else filename
    return PythonSource(filename, text)


@functools.cache
def _spans_made() -> dict[tuple[PythonSource, int], None]:
    """The lines requested so far, by source and line number."""
    return {}
