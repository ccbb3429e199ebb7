"""Operator attributes from user input: names checked, values converted to the types of the attrs dataclass.

A field that is itself a dataclass is written as its fields, the first of them under the field's own name.  A member of an enum is
written as its ``key``.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import operator
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...ops.core.dtype_words import DTypeProblem, read_dtype
from ...ops.core.op import Op
from ...ops.core.similar_names import did_you_mean
from ...shape_funcs.symbolic.int_operations import INT64_MAX

#: Attributes that are dtypes.
_DTYPE_NAMES = ("dtype", "out_dtype")


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


@frozen
class Attribute:
    """An attribute as it is written: its name, its type and its default (``MISSING``: it is required).

    ``field``: the field of the attrs dataclass.  ``inner``: the field within a field that is a dataclass, else "".
    """

    name: str
    hint: Any
    default: Any
    field: str
    inner: str = ""

    def value(self, attrs: Any) -> Any:
        """The value in ``attrs``."""
        value = getattr(attrs, self.field)
        return getattr(value, self.inner) if self.inner else value

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is dataclasses.MISSING

    @property
    def takes_none(self) -> bool:
        """Whether None is a value of the attribute."""
        return self.hint is Any or type(None) in typing.get_args(self.hint)

    @property
    def takes_only_integers(self) -> bool:
        """Whether the values are lists of integers, of any length."""
        return bool(self.hint == tuple[int, ...])


def attributes(op: Op) -> Mapping[str, Attribute]:
    """The operator's attributes by name, in order."""
    return _attributes(op.attrs)


def attribute_names(op: Op) -> tuple[str, ...]:
    """The operator's attributes in order."""
    return tuple(_attributes(op.attrs))


def make_attrs(op: Op, values: Mapping[str, Any]) -> Any:
    """The attrs object of ``op`` with these values; lists become tuples, ints floats where a float is wanted.

    Raises AttributeProblem for an unknown name, a value of another type, or a missing required attribute.
    """
    attributes = _attributes(op.attrs)
    converted: dict[str, Any] = {}
    inside: dict[str, dict[str, Any]] = {}  # of each field that is a dataclass
    for name, value in values.items():
        if name not in attributes:
            raise _unknown(op, name)
        attribute = attributes[name]
        fields = inside.setdefault(attribute.field, {}) if attribute.inner else converted
        fields[attribute.inner or name] = _converted(op, attribute, value)
    for name, attribute in attributes.items():
        if attribute.default is dataclasses.MISSING and name not in converted:
            raise AttributeProblem(f"{op.name}: attribute {name} is missing", help=f"{name} takes {type_text(attribute.hint)}")
    try:
        defaults: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(op.attrs)} if inside else {}
        nested = {name: dataclasses.replace(defaults[name], **new) for name, new in inside.items()}
        return op.attrs(**converted, **nested)
    except (ValueError, TypeError) as error:
        raise AttributeProblem(f"{op.name}: {error}") from error


def _converted(op: Op, attribute: Attribute, value: Any) -> Any:
    try:
        # ``qnn.simulated_quantize`` has ``disable`` among its dtypes
        is_dtype = attribute.name in _DTYPE_NAMES and value not in typing.get_args(attribute.hint)
        return _convert(_dtype(value) if is_dtype else value, attribute.hint)
    except DTypeProblem as problem:
        raise AttributeProblem(f"{op.name}: attribute {attribute.name}: {problem}", attribute.name, problem.help) from None
    except _TooLarge as error:
        raise AttributeProblem(f"{op.name}: attribute {attribute.name}: {error}", attribute.name) from None
    except TypeError:
        message = f"{op.name}: attribute {attribute.name} takes {type_text(attribute.hint)}, not {value_text(value)}"
        raise AttributeProblem(message, attribute.name) from None


def _dtype(value: Any) -> Any:
    """The dtype of a word such as ``float``; other values, and the empty word, are left as they are.  Raises DTypeProblem."""
    return read_dtype(value) if isinstance(value, str) and value else value


def _unknown(op: Op, name: str) -> AttributeProblem:
    names = attribute_names(op)
    valid = f"{op.name} takes {', '.join(names)}" if names else f"{op.name} takes no attributes"
    return AttributeProblem(f"{op.name}: there is no attribute {name}{did_you_mean(name, names)}", name, valid)


@functools.cache
def _attributes(attrs: type) -> dict[str, Attribute]:
    return {attribute.name: attribute for attribute in _written(attrs)}


def _written(attrs: Any) -> Iterator[Attribute]:
    """The attributes of a dataclass.  A field that is a dataclass has a default."""
    hints = typing.get_type_hints(attrs)
    for field in dataclasses.fields(attrs):
        if not field.metadata.get("written", True):
            continue
        hint, default = hints[field.name], field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if not dataclasses.is_dataclass(hint):
            yield Attribute(field.name, hint, default, field.name)
            continue
        for k, inner in enumerate(_written(hint)):
            name = inner.name if k else field.name
            yield Attribute(name, inner.hint, inner.value(default), field.name, inner.field)


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
        nested: tuple[Any, ...] = _tuples(value)
        return nested
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_convert(v, args[0]) for v in value)
    if len(args) != len(value):
        raise TypeError
    return tuple(_convert(v, a) for v, a in zip(value, args, strict=True))


def _to_scalar(value: Any, hint: Any) -> Any:
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(hint, enum.EnumType):
        members: list[Any] = list(hint)
        value = next((member for member in members if member.key == value), value)
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
    if origin is typing.Literal or isinstance(hint, enum.EnumType):
        return " or ".join(value_text(a) for a in args or hint)
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
    if isinstance(value, enum.Enum):
        key: Any = value
        value = key.key
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"{value!r}f64"
    return str(value)


def shown_attrs(attrs: Any) -> list[tuple[str, Any]]:
    """The attributes that differ from their defaults, in order; all those of a call of a function, which are a mapping."""
    if isinstance(attrs, Mapping):
        return list(attrs.items())
    out = []
    cls: Any = type(attrs)
    for attribute in _attributes(cls).values() if dataclasses.is_dataclass(attrs) else ():
        value, default = attribute.value(attrs), attribute.default
        if type(value) is not type(default) or value != default:
            out.append((attribute.name, value))
    return out
