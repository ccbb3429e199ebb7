"""The call of a kernel's body: a parameter that is a named tuple takes as many arguments as the tuple has fields."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any


def words_of(taker: Callable[..., Any]) -> Iterator[str]:
    """The names of the arguments of a body, or of a record: in the place of a record the names of its fields."""
    for name, record in _parameters(taker):
        yield from words_of(record) if record else (name,)


def records_of(taker: Callable[..., Any]) -> Iterator[type]:
    """The records that the text of a call names."""
    for _, record in _parameters(taker):
        if record:
            yield record
            yield from records_of(record)


def text(taker: Callable[..., Any], arguments: Iterator[str], constants: Mapping[str, str]) -> str:
    """The call of a body, or of a record, with arguments in order and constants by name.

    A record takes some of the arguments, the constants with the names of its fields, or both.
    """
    parameters = _parameters(taker)
    named, given = {name: constants[name] for name in constants if (name, None) in parameters}, list[str]()
    for name, record in parameters:
        if record and constants.keys() >= set(words_of(record)):
            named[name] = text(record, arguments, constants)
        elif record:
            given.append(text(record, arguments, constants))
        elif name not in constants:
            given += islice(arguments, 1)
    if not isinstance(taker, type):
        given += arguments  # more than the body takes: the compiler says so
    return f"{taker.__name__}({', '.join([*given, *(f'{name}={value}' for name, value in named.items())])})"


def _parameters(taker: Any) -> list[tuple[str, type | None]]:
    """The parameters of a function, or the fields of a record, each with the record that it is."""
    if isinstance(taker, type):
        names, known = vars(taker)["_fields"], vars(sys.modules[taker.__module__])
    else:
        names, known = taker.__code__.co_varnames[: taker.__code__.co_argcount], taker.__globals__
    return [(name, _record(taker.__annotations__.get(name), known)) for name in names]


def _record(kind: Any, known: Mapping[str, Any]) -> type | None:
    """The named tuple that an annotation names; None for another type."""
    found = kind if isinstance(kind, type) else known.get(getattr(kind, "__forward_arg__", kind))
    return found if isinstance(found, type) and hasattr(found, "_fields") else None
