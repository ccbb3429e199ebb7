"""Source text, places in it, and diagnostics: how every mistake of a user is shown."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property


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
        return self if other is None else Span(self.source, min(self.start, other.start), max(self.end, other.end))

    def render(self) -> str:
        """The place, the line and a caret under the span."""
        line, column = self.source.position(self.start)
        text = self.source.line(line)
        width = max(1, min(self.end - self.start, len(text) - column + 1))
        number = str(line)
        gap = " " * len(number)
        shown = text.expandtabs(1)
        return f"{gap}--> {self.place}\n{gap} |\n{number} | {shown}\n{gap} | {' ' * (column - 1)}{'^' * width}"


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
        parts = [f"error: {self.message}"]
        if self.span is not None:
            parts.append(self.span.render())
        for text, span in self.notes:
            parts.append(f"note: {text}" + (f"\n{span.render()}" if span is not None else ""))
        if self.help:
            parts.append(f"help: {self.help}")
        return "\n".join(parts)


class RelayError(Exception):
    """A mistake in a program, its input or its use; ``diagnostics`` says which.  ``str`` is the text for people."""

    def __init__(
        self, diagnostics: Diagnostic | Sequence[Diagnostic] | str, span: Span | None = None, *, help: str | None = None
    ) -> None:
        if isinstance(diagnostics, str):
            diagnostics = Diagnostic(diagnostics, span, help=help)
        self.diagnostics = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        super().__init__("\n\n".join(map(str, self.diagnostics)))


class ParseError(RelayError):
    """Text that is not a Relay program."""


class TypeCheckError(RelayError):
    """A program whose types do not fit."""


class ConfigError(RelayError):
    """An unknown configuration key, device or option value."""


class InputError(RelayError):
    """Inputs of a run that do not fit the function's parameters."""


class VMError(RelayError):
    """A failure while a program ran.  ``status`` is the number of ops.native.status."""

    status: int = 0


class CacheMismatch(RelayError):
    """A saved cache that is not of this program, this version or this machine, or was damaged."""


class ExecutableFormatError(RelayError):
    """A file that is not an executable of this version, or was damaged."""
