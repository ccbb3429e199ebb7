"""Operator attributes from user input: names checked, values converted to the types of the attrs dataclass."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import types
import typing
from collections.abc import Mapping
from typing import Any

from ...ops.core.op import Op
from ...ops.core.similar_names import did_you_mean
from ...shape_funcs.symbolic.program import INT64_MAX


class AttributeProblem(Exception):
    """An invalid attribute.  ``name`` is the attribute at fault, None if one is missing."""

    def __init__(self, message: str, name: str | None = None, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.name, self.help = message, name, help


class _TooLarge(TypeError):
    """An integer out of the range of int64."""

    def __init__(self, number: int) -> None:
        bits = number.bit_length()
        shown = str(number) if bits < 400 else f"a number of {bits} bits"
        super().__init__(f"{shown} is out of range: int64 holds {-INT64_MAX - 1} to {INT64_MAX}")


def attribute_names(op: Op) -> tuple[str, ...]:
    """The operator's attributes in order."""
    return tuple(field.name for field in dataclasses.fields(op.attrs))


def make_attrs(op: Op, values: Mapping[str, Any]) -> Any:
    """The attrs object of ``op`` with these values; lists become tuples, ints floats where a float is wanted.

    Raises AttributeProblem for an unknown name, a value of another type, or a missing required attribute.
    """
    hints = _hints(op.attrs)
    converted = {}
    for name, value in values.items():
        if name not in hints:
            raise _unknown(op, name)
        try:
            converted[name] = _convert(value, hints[name])
        except _TooLarge as error:
            raise AttributeProblem(f"{op.name}: attribute {name}: {error}", name) from None
        except TypeError:
            message = f"{op.name}: attribute {name} takes {type_text(hints[name])}, not {value_text(value)}"
            raise AttributeProblem(message, name) from None
    for field in dataclasses.fields(op.attrs):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in converted:
            takes = type_text(hints[field.name])
            raise AttributeProblem(f"{op.name}: attribute {field.name} is missing", help=f"{field.name} takes {takes}")
    try:
        return op.attrs(**converted)
    except (ValueError, TypeError) as error:
        raise AttributeProblem(f"{op.name}: {error}") from error


def _unknown(op: Op, name: str) -> AttributeProblem:
    names = attribute_names(op)
    valid = f"{op.name} takes {', '.join(names)}" if names else f"{op.name} takes no attributes"
    return AttributeProblem(f"{op.name}: there is no attribute {name}{did_you_mean(name, names)}", name, valid)


@functools.cache
def _hints(attrs: type) -> dict[str, Any]:
    return {f.name: typing.get_type_hints(attrs)[f.name] for f in dataclasses.fields(attrs)}


def _convert(value: Any, hint: Any) -> Any:
    """``value`` as a ``hint``.  Raises TypeError."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return _tuples(value)
    if origin in (typing.Union, types.UnionType):
        return _one_of(value, args)
    if origin is typing.Literal:
        if value in args and type(value) in {type(a) for a in args}:
            return value
        raise TypeError
    if hint is tuple or origin is tuple:
        return _to_tuple(value, args)
    if hint in (None, type(None)):
        if value is None:
            return None
        raise TypeError
    return _to_scalar(value, hint)


def _one_of(value: Any, hints: tuple[Any, ...]) -> Any:
    # an exact match first, so that 1 remains an int where both int and float are allowed
    for hint in sorted(hints, key=lambda h: h is not type(value)):
        try:
            return _convert(value, hint)
        except TypeError:
            continue
    raise TypeError


def _to_tuple(value: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        raise TypeError
    if not args:
        return _tuples(value)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_convert(v, args[0]) for v in value)
    if len(args) != len(value):
        raise TypeError
    return tuple(_convert(v, a) for v, a in zip(value, args, strict=True))


def _to_scalar(value: Any, hint: Any) -> Any:
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if hint is bool:
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
    elif hint is int:
        if not isinstance(value, (bool, float, str)):
            number = operator.index(value)
            if not -INT64_MAX <= number + 1 <= INT64_MAX + 1:
                raise _TooLarge(number)
            return number
    elif hint is float:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    elif isinstance(value, hint):
        return value
    raise TypeError


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value


# ---- as text ---------------------------------------------------------------------------------------------------


def type_text(hint: Any) -> str:
    """The values of a type, in words."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    words = {bool: "True or False", int: "an integer", float: "a number", str: "a string", type(None): "None", Any: "a value"}
    if hint in words:
        return words[hint]
    if origin in (typing.Union, types.UnionType):
        return " or ".join(type_text(a) for a in args)
    if origin is typing.Literal:
        return " or ".join(value_text(a) for a in args)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        plural = {int: "integers", float: "numbers", bool: "bools", str: "strings"}
        return f"a list of {plural.get(args[0], 'lists')}"
    if origin is tuple:
        return "[" + ", ".join(type_text(a) for a in args) + "]"
    return "a list" if hint is tuple else getattr(hint, "__name__", str(hint))


def value_text(value: Any) -> str:
    """An attribute value in the text format, which reads back to the same value."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(value_text, value)) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"{value!r}f64"
    return str(value)


def shown_attrs(attrs: Any) -> list[tuple[str, Any]]:
    """The attributes that differ from their defaults, in order."""
    out = []
    for field in dataclasses.fields(attrs) if dataclasses.is_dataclass(attrs) else ():
        value = getattr(attrs, field.name)
        default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        if type(value) is not type(default) or value != default:
            out.append((field.name, value))
    return out
