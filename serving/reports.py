"""Errors as JSON: a server process reports why it cannot serve, and its parent raises the same error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar

from ..vm.diagnostics.codes import Code
from ..vm.diagnostics.source import Diagnostic, RelayError, SequentialSpan, SourceText, Span

_C = TypeVar("_C")


def written(error: RelayError) -> bytes:
    """The error's class by name and its diagnostics."""
    found = [
        {
            "message": d.message,
            "help": d.help,
            "code": str(d.code),
            "span": _place(d.span),
            "notes": [(text, _place(span)) for text, span in d.notes],
        }
        for d in error.diagnostics
    ]
    return json.dumps({"class": type(error).__name__, "diagnostics": found}).encode()


def read(data: bytes) -> RelayError:
    """The error that ``written`` wrote; a class that this process has not loaded becomes RelayError."""
    found = json.loads(data)
    kinds: dict[str, type[RelayError]] = {kind.__name__: kind for kind in _below(RelayError)}
    kind = kinds.get(found["class"], RelayError)
    every = {str(code): code for family in _below(Code) for code in family}
    diagnostics = [
        Diagnostic(
            d["message"], _span(d["span"]), tuple((text, _span(at)) for text, at in d["notes"]), d["help"], every[d["code"]]
        )
        for d in found["diagnostics"]
    ]
    error: RelayError = kind.__new__(kind)
    RelayError.__init__(error, diagnostics)  # classes have other parameters
    return error


def _below(kind: type[_C]) -> Iterator[type[_C]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _place(span: Span | None) -> Any:
    if span is None:
        return None
    parts = [_place(part) for part in span.spans] if isinstance(span, SequentialSpan) else []
    return [span.source.name, span.source.text, span.start, span.end, parts]


def _span(place: Any) -> Span | None:
    if place is None:
        return None
    name, text, start, end, parts = place
    source = SourceText(name, text)
    if parts:
        return SequentialSpan(source, start, end, tuple(span for part in parts if (span := _span(part)) is not None))
    return Span(source, start, end)
