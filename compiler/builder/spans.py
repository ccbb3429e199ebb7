"""Constructors of places of expressions: ``relay.Span``, ``relay.SequentialSpan``, ``relay.SourceName``."""

from __future__ import annotations

from collections.abc import Sequence

from ...vm.diagnostics import source
from ...vm.diagnostics.argument_errors import a_count, a_sequence, a_text, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from .constructors import ConstructorOfNodes

__all__ = ["SequentialSpan", "SourceName", "Span"]


class SourceName(metaclass=ConstructorOfNodes):
    """``SourceName("model.py")``: the name of a text of which only places are known."""

    node = source.SourceText

    @staticmethod
    def make(name: str) -> source.SourceText:
        return source.SourceText(a_text(name, "SourceName: the name"), "")


class Span(metaclass=ConstructorOfNodes):
    """``Span(source_name, line, end_line, column, end_column)``: lines and columns count from 1, 0 is unknown.

    The end column is exclusive.  Raises ArgumentError for an end before the start, and for a place outside of a known text.
    """

    node = source.Span

    @staticmethod
    def make(source_name: source.SourceText, line: int, end_line: int, column: int, end_column: int) -> source.Span:
        if not isinstance(source_name, source.SourceText):
            raise wrong("Span: the source", "a relay.SourceName", source_name)
        numbers = {"line": line, "end_line": end_line, "column": column, "end_column": end_column}
        first, last, start, end = (max(1, a_count(n, f"Span: {name}")) for name, n in numbers.items())
        if (last, end) < (first, start):
            raise ArgumentError("Span: the end is before the start", here())
        text = source_name if source_name.text else _empty_lines(source_name.name, max(first, last), max(start, end))
        for number, place in ((first, start), (last, end)):
            if not text.has_line(number) or place > len(text.line(number)) + 1:
                raise ArgumentError(f"Span: {text.name} has no column {place} in line {number}", here())
        return source.Span(text, text.offset(first) + start - 1, text.offset(last) + end - 1)


def _empty_lines(name: str, lines: int, columns: int) -> source.SourceText:
    """A text of blank lines that has the places of an unknown text."""
    return source.SourceText(name, "\n".join([" " * columns] * lines))


class SequentialSpan(metaclass=ConstructorOfNodes):
    """``SequentialSpan([span, ...])``: the places of several expressions that became one; ``spans`` is flat."""

    node = source.SequentialSpan

    @staticmethod
    def make(spans: Sequence[source.Span]) -> source.SequentialSpan:
        flat: list[source.Span] = []
        for span in a_sequence(spans, "SequentialSpan: the spans", "[first.span, second.span]"):
            if not isinstance(span, source.Span):
                raise wrong("SequentialSpan: a span", "a relay.Span", span)
            flat += span.spans if isinstance(span, source.SequentialSpan) else [span]
        if not flat:
            raise ArgumentError("SequentialSpan: there is no span", here())
        return source.SequentialSpan(flat[0].source, flat[0].start, flat[0].end, tuple(flat))
