"""Errors for arguments of the Python API that have a wrong type or value, with the location of the call."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .python_source import here
from .source import ArgumentError


class UnknownName(ArgumentError, KeyError):
    """Error for an unknown name; also a KeyError, as Python expects of a lookup."""

    __str__ = ArgumentError.__str__  # KeyError's is the repr


def wrong(what: str, wanted: str, value: Any, help: str | None = None) -> ArgumentError:
    """The error for an argument, with the message ``<what> must be <wanted>, not <value>``."""
    return ArgumentError(f"{what} must be {wanted}, not {described(value)}", here(), help=help)


def described(value: Any) -> str:
    """Describe a value in a message: its type, and its repr (shortened) for plain types."""
    if value is None or isinstance(value, bool):
        return str(value)
    kind = type(value).__name__
    if isinstance(value, (int, float, str, list, tuple, dict, set, Path)):
        return f"the {kind} {reprlib.repr(value)}"
    return f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}"


def a_text(value: Any, what: str, help: str | None = None) -> str:
    """``value``, checked to be a str.  Raises ArgumentError."""
    if not isinstance(value, str):
        raise wrong(what, "a str", value, help)
    return value


def a_path(value: Any, what: str) -> Path:
    """``value`` as a Path, checked to be a str or path.  Raises ArgumentError."""
    if not isinstance(value, (str, os.PathLike)):
        raise wrong(what, "a path", value)
    return Path(value)


def a_count(value: Any, what: str, least: int | None = 0, help: str | None = None) -> int:
    """``value`` as an int, checked to be an integer (also numpy's) of at least ``least`` (None: any).  Raises ArgumentError."""
    try:
        number = None if isinstance(value, bool) else value.__index__()
    except (AttributeError, TypeError):
        number = None
    if number is None or (least is not None and number < least):
        raise wrong(what, "a whole number" if least is None else f"a whole number of at least {least}", value, help)
    return int(number)


def a_mapping(value: Any, what: str, help: str | None = None) -> Mapping[str, Any]:
    """``value``, checked to be a mapping with str keys; {} for None.  Raises ArgumentError."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise wrong(what, "a dict with names as keys", value, help)
    return value


def a_sequence(value: Any, what: str, help: str | None = None) -> tuple[Any, ...]:
    """``value`` as a tuple, checked to be a list or tuple.  Raises ArgumentError."""
    if not isinstance(value, (list, tuple)):
        raise wrong(what, "a list or tuple", value, help)
    return tuple(value)
