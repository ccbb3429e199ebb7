"""Source texts, spans, diagnostics, and the exceptions for errors of users."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, ClassVar

from ...declarations.frozen_dataclass import frozen
from . import codes
from .codes import Code
from .printable import PLACE, shortened, underlined

#: Most diagnostics and characters in the text of an exception, and most notes of a diagnostic; the rest is only counted.
MOST_SHOWN, MOST_CHARACTERS, MOST_NOTES = 20, 16_000, 6


@frozen
class SourceText:
    """The text of a program with its name (a path, ``<string>``)."""

    name: str
    text: str

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(i + 1 for i, c in enumerate(self.text) if c == "\n")]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both from 1."""
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def has_line(self, number: int) -> bool:
        """Whether there is a line ``number`` (from 1)."""
        return 1 <= number <= len(self._starts)

    def offset(self, number: int) -> int:
        """The offset of the first character of line ``number`` (from 1)."""
        return self._starts[number - 1]

    def line(self, number: int) -> str:
        """The text of line ``number`` (from 1), without its line end."""
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r")


@frozen
class Span:
    """Characters ``start`` to ``end`` (exclusive) of a source."""

    source: SourceText = field(repr=False)
    start: int
    end: int

    @property
    def place(self) -> str:
        """``file:line:column``."""
        return f"{self.source.name}:{self.line}:{self.column}"

    @property
    def source_name(self) -> SourceText:
        """Relay's name of ``source``, which has the ``name``."""
        return self.source

    @property
    def line(self) -> int:
        """The line of the first character, from 1."""
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        """The column of the first character, from 1."""
        return self.source.position(self.start)[1]

    @property
    def end_line(self) -> int:
        """The line of the end."""
        return self.source.position(self.end)[0]

    @property
    def end_column(self) -> int:
        """The column after the last character."""
        return self.source.position(self.end)[1]

    def to(self, other: Span | None) -> Span:
        """The smallest span that contains both spans; this span if ``other`` is None or in another source."""
        if other is None or other.source is not self.source:
            return self
        return Span(self.source, min(self.start, other.start), max(self.end, other.end))

    def render(self) -> str:
        """The location, the source line and carets under the span; a long line is cut around the carets."""
        line, column = self.source.position(self.start)
        text = self.source.line(line)
        if not text.strip() and not self.source.text.strip():  # an unreadable file: only the line number is known
            return f" --> {shortened(self.place, PLACE)}"
        shown, carets = underlined(text, column, max(1, min(self.end - self.start, len(text) - column + 1)))
        number = str(line)
        gap = " " * len(number)
        return f"{gap}--> {shortened(self.place, PLACE)}\n{gap} |\n{number} | {shown}\n{gap} | {carets}"


@frozen
class SequentialSpan(Span):
    """The places of the expressions that one expression was made of; as a span, the first place."""

    spans: tuple[Span, ...] = ()

    def render(self) -> str:
        """The lines of every place, at most ``MOST_NOTES``."""
        return "\n".join(span.render() for span in self.spans[:MOST_NOTES])


@frozen
class Diagnostic:
    """One error: message, location, notes and help.

    ``notes``: further facts, each with a location or None.  ``code``: see ``codes``; None: the default code of the exception's
    class.
    """

    message: str
    span: Span | None = None
    notes: tuple[tuple[str, Span | None], ...] = ()
    help: str | None = None
    code: Code | None = None

    def as_data(self) -> dict[str, Any]:
        """The diagnostic as plain data; ``column`` counts characters, from 1."""
        notes = [{"message": text, **_place_data(span)} for text, span in self.notes]
        return {"code": str(self.code), "message": self.message, **_place_data(self.span), "notes": notes, "help": self.help}

    def __str__(self) -> str:
        parts = [f"error: {shortened(self.message)}"]
        if self.span is not None:
            parts.append(self.span.render())
        for text, span in self.notes[:MOST_NOTES]:
            parts.append(f"note: {shortened(text)}" + (f"\n{span.render()}" if span is not None else ""))
        if len(self.notes) > MOST_NOTES:
            parts.append(f"note: {len(self.notes) - MOST_NOTES} more notes are not shown")
        if self.help:
            parts.append(f"help: {shortened(self.help)}")
        return "\n".join(parts)


def _place_data(span: Span | None) -> dict[str, Any]:
    if span is None:
        return {"file": None, "line": None, "column": None}
    line, column = span.source.position(span.start)
    return {"file": span.source.name, "line": line, "column": column}


def shown(diagnostics: Sequence[Diagnostic]) -> str:
    """The text of the first diagnostics, and the number of the others."""
    texts: list[str] = []
    for diagnostic in diagnostics[:MOST_SHOWN]:
        texts.append(str(diagnostic))
        if sum(map(len, texts)) > MOST_CHARACTERS:
            break
    if left := len(diagnostics) - len(texts):
        texts.append(f"error: {left} more {'mistakes are' if left > 1 else 'mistake is'} not shown")
    return "\n\n".join(texts)


class RelayError(Exception):
    """An error in a program, its input or its use, as one or more ``diagnostics``.

    ``str`` is a printable text of bounded length, for programs of any length and any number of diagnostics.  ``code`` is the code
    of the first diagnostic (see ``codes``).  ``kind`` is the default code of diagnostics without a code.
    """

    kind: ClassVar[Code] = codes.Process.FAILED

    def __init__(
        self, diagnostics: Diagnostic | Sequence[Diagnostic] | str, span: Span | None = None, *,
        help: str | None = None, code: Code | None = None,
    ) -> None:  # fmt: skip
        if isinstance(diagnostics, str):
            diagnostics = Diagnostic(diagnostics, span, help=help, code=code)
        listed = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        self.diagnostics = tuple(replace(d, code=self.kind) if d.code is None else d for d in listed)
        super().__init__(shown(self.diagnostics))

    @property
    def code(self) -> str:
        """The code of the first diagnostic."""
        return str(self.diagnostics[0].code if self.diagnostics else self.kind)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.diagnostics, dict(self.__dict__))


def _remade(kind: type[RelayError], diagnostics: tuple[Diagnostic, ...], attributes: dict[str, Any]) -> RelayError:
    """Unpickle an error."""
    error = kind.__new__(kind)
    RelayError.__init__(error, diagnostics)
    error.__dict__.update(attributes)
    return error


class ParseError(RelayError):
    """A text that is not a Relay program."""

    kind = codes.Syntax.TEXT


class TypeCheckError(RelayError):
    """A program with a type error."""

    kind = codes.Type.MISMATCH


class ConfigError(RelayError):
    """An unknown configuration key, device or option value."""

    kind = codes.Config.VALUE


class InputError(RelayError):
    """Inputs of a run that do not fit the function's parameters."""

    kind = codes.Input.VALUE


class FileError(RelayError):
    """A file that cannot be read or written: missing, a folder, no permission, disk full."""

    kind = codes.File.ACCESS


class ArgumentError(RelayError, TypeError, ValueError):
    """An argument of the Python API with a wrong type or value; also a TypeError and a ValueError."""

    kind = codes.Argument.VALUE


class ModelError(RelayError):
    """A model of another framework that cannot be imported."""

    kind = codes.Model.FORMAT


class VMError(RelayError):
    """A run-time error of a program.  ``status`` is a number of ``ops.native.status``."""

    kind = codes.Run["FAILED"]

    status: int = 0


class CacheMismatch(RelayError):
    """A saved cache of another program, version or machine, or a damaged one."""

    kind = codes.File.CACHE


class ExecutableFormatError(RelayError):
    """A file that is no executable of this version, or a damaged executable."""

    kind = codes.File.DAMAGED
