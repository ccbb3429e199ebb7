"""Type checks of operator attributes against the declared types of their class."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import Any

from .op import Op, TypeRelError


def check_attrs(op: Op, attrs: Any) -> None:
    """Raise TypeRelError if ``attrs`` is not an instance of ``op.attrs``, or a field has a value of another type."""
    if type(attrs) is not op.attrs:
        raise TypeRelError(f"{op.name}: the attributes must be {op.attrs.__name__}, not {type(attrs).__name__}")
    attrs_class: Any = op.attrs
    for name, expected in _hints(attrs_class).items():
        value = getattr(attrs, name)
        if not _fits(value, expected):
            raise TypeRelError(f"{op.name}: attribute {name} must be {_text(expected)}, not {value!r}")


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def _fits(value: Any, expected: Any) -> bool:
    origin, args = typing.get_origin(expected), typing.get_args(expected)
    if expected is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, a) for a in args)
    if origin is typing.Literal:
        return any(value == a and type(value) is type(a) for a in args)
    if expected is tuple or origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(args) == 2 and args[1] is Ellipsis:
            return all(_fits(v, args[0]) for v in value)
        return not args or (len(args) == len(value) and all(map(_fits, value, args)))
    if expected is None or expected is type(None):
        return value is None
    if expected is float:
        return type(value) in (float, int)
    return type(value) is expected


def _text(expected: Any) -> str:
    origin, args = typing.get_origin(expected), typing.get_args(expected)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_text, args))
    if origin is typing.Literal:
        return " or ".join(repr(a) for a in args)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return f"a tuple of {_text(args[0])}"
    if origin is tuple:
        return f"({', '.join(map(_text, args))})"
    if expected in (None, type(None)):
        return "None"
    return getattr(expected, "__name__", str(expected))
