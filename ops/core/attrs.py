"""Type checks of operator attributes against the declared types of their class."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any

from .op import Op, TypeRelError

#: Whether a value has the declared type of a field.
Fits = Callable[[Any], bool]
#: The texts of attributes, by their addresses, and the attributes; the most that are kept.
_texts: dict[int, tuple[str, Any]] = {}
_KEPT = 1 << 13


def check_attrs(op: Op, attrs: Any) -> None:
    """Raise TypeRelError if ``attrs`` is not an instance of ``op.attrs``, or a field has a value of another type."""
    if type(attrs) is not op.attrs:
        raise TypeRelError(f"{op.name}: the attributes must be {op.attrs.__name__}, not {type(attrs).__name__}")
    attrs_class: Any = op.attrs
    for name, fits, expected in _fields(attrs_class):
        value = getattr(attrs, name)
        if not fits(value):
            raise TypeRelError(f"{op.name}: attribute {name} must be {_text(expected)}, not {value!r}")


def text_of(attrs: Any) -> str:
    """The attributes as a text, which tells 1 from True, and 0.0 from -0.0: passes ask again for the attributes of a call."""
    known = _texts.get(id(attrs))
    if known is None:
        if len(_texts) >= _KEPT:
            _texts.clear()
        known = _texts[id(attrs)] = (repr(attrs), attrs)  # no other attributes have the address while these are kept
    return known[0]


@functools.cache
def _fields(cls: Any) -> list[tuple[str, Fits, Any]]:
    """The fields of a class: the name, the check of a value, the declared type."""
    return [(name, _fits(expected), expected) for name, expected in _hints(cls).items()]


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def _fits(expected: Any) -> Fits:
    """The check of values against a declared type: made once for a class, and run for each call of an operator."""
    origin, args = typing.get_origin(expected), typing.get_args(expected)
    if expected is Any:
        return lambda value: True
    if origin in (typing.Union, types.UnionType):
        options = [_fits(a) for a in args]
        return lambda value: any(fits(value) for fits in options)
    if origin is typing.Literal:
        return lambda value: any(value == a and type(value) is type(a) for a in args)
    if expected is tuple or origin is tuple:
        return _fits_tuple(args)
    if expected is None or expected is type(None):
        return lambda value: value is None
    if expected is float:
        return lambda value: type(value) in (float, int)
    return lambda value: type(value) is expected


def _fits_tuple(args: tuple[Any, ...]) -> Fits:
    """The check of a tuple whose fields have these types; without types, of any tuple."""
    if len(args) == 2 and args[1] is Ellipsis:
        each = _fits(args[0])
        return lambda value: isinstance(value, tuple) and all(map(each, value))
    fields = [_fits(a) for a in args]
    return lambda value: (
        isinstance(value, tuple)
        and (not fields or (len(fields) == len(value) and all(fits(v) for fits, v in zip(fields, value, strict=True))))
    )


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
