"""Source text, places in it, and diagnostics: how every mistake of a user is shown."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .printable import PLACE, shortened, underlined

#: Mistakes and characters of one error's text, after which the rest is counted; notes of one mistake.
MOST_SHOWN, MOST_CHARACTERS, MOST_NOTES = 20, 16_000, 6


@dataclass(frozen=True)
class SourceText:
    """A program's text with its name (a path, ``<string>``)."""

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
        """The text of line ``number`` (from 1), without its end."""
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r")


@dataclass(frozen=True)
class Span:
    """Characters ``start`` to ``end`` (exclusive) of a source."""

    source: SourceText = field(repr=False)
    start: int
    end: int

    @property
    def place(self) -> str:
        """``file:line:column``."""
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"

    def to(self, other: Span | None) -> Span:
        """From the start of this to the end of the other."""
        if other is None or other.source is not self.source:
            return self
        return Span(self.source, min(self.start, other.start), max(self.end, other.end))

    def render(self) -> str:
        """The place, the line and a caret under the span; of a long line the part around the caret."""
        line, column = self.source.position(self.start)
        text = self.source.line(line)
        if not text and not self.source.text.strip("\n"):  # a file of which only the number of the line is known
            return f" --> {shortened(self.place, PLACE)}"
        shown, carets = underlined(text, column, max(1, min(self.end - self.start, len(text) - column + 1)))
        number = str(line)
        gap = " " * len(number)
        return f"{gap}--> {shortened(self.place, PLACE)}\n{gap} |\n{number} | {shown}\n{gap} | {carets}"


@dataclass(frozen=True)
class Diagnostic:
    """One mistake: what is wrong, where, and what would help.

    ``notes`` are further facts, each with a place or None.
    """

    message: str
    span: Span | None = None
    notes: tuple[tuple[str, Span | None], ...] = ()
    help: str | None = None

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


def shown(diagnostics: Sequence[Diagnostic]) -> str:
    """The text of all of them for people, the first ones where there are many."""
    texts: list[str] = []
    for diagnostic in diagnostics[:MOST_SHOWN]:
        texts.append(str(diagnostic))
        if sum(map(len, texts)) > MOST_CHARACTERS:
            break
    if left := len(diagnostics) - len(texts):
        texts.append(f"error: {left} more {'mistakes are' if left > 1 else 'mistake is'} not shown")
    return "\n\n".join(texts)


class RelayError(Exception):
    """A mistake in a program, its input or its use; ``diagnostics`` says which.

    ``str`` is the text for people: printable, and bounded however long the program and however many the mistakes.
    """

    def __init__(
        self, diagnostics: Diagnostic | Sequence[Diagnostic] | str, span: Span | None = None, *, help: str | None = None
    ) -> None:
        if isinstance(diagnostics, str):
            diagnostics = Diagnostic(diagnostics, span, help=help)
        self.diagnostics = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        super().__init__(shown(self.diagnostics))

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.diagnostics, dict(self.__dict__))


def _remade(kind: type[RelayError], diagnostics: tuple[Diagnostic, ...], attributes: dict[str, Any]) -> RelayError:
    """An error that another process raised."""
    error = kind.__new__(kind)
    RelayError.__init__(error, diagnostics)
    error.__dict__.update(attributes)
    return error


class ParseError(RelayError):
    """Text that is not a Relay program."""


class TypeCheckError(RelayError):
    """A program whose types do not fit."""


class ConfigError(RelayError):
    """An unknown configuration key, device or option value."""


class InputError(RelayError):
    """Inputs of a run that do not fit the function's parameters."""


class FileError(RelayError):
    """A file that cannot be read or written: missing, a folder, no permission, no room."""


class ArgumentError(RelayError, TypeError, ValueError):
    """An argument of a function of the Python face that is of a wrong type or value: Python's TypeError and ValueError too."""


class VMError(RelayError):
    """A failure while a program ran.  ``status`` is the number of ops.native.status."""

    status: int = 0


class CacheMismatch(RelayError):
    """A saved cache that is not of this program, this version or this machine, or was damaged."""


class ExecutableFormatError(RelayError):
    """A file that is not an executable of this version, or was damaged."""
