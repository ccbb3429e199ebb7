"""The attributes of a call by their names: ``call.attrs["axis"]``, ``dict(call.attrs)``, ``call.attrs.get_int("axis")``.

These are methods of every class of attributes, unless a class has others of the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any


def _no_name(name: object, names: list[str]) -> KeyError:
    return KeyError(name)


#: The error for a name that is not among the names; the compiler's shows the line of the user's program.
error: Callable[[object, list[str]], KeyError] = _no_name


def add_names(attrs: type) -> None:
    """Add the methods to a class of attributes."""
    for name, method in _METHODS.items():
        if not hasattr(attrs, name):
            setattr(attrs, name, method)


def _keys(self: Any) -> list[str]:
    """The names."""
    return [field.name for field in fields(self)]


def _items(self: Any) -> list[tuple[str, Any]]:
    """The names with their values."""
    return [(name, getattr(self, name)) for name in _keys(self)]


def _iterator(self: Any) -> Iterator[str]:
    return iter(_keys(self))


def _value(self: Any, name: object) -> Any:
    """The value.  Raises ``error``."""
    names = _keys(self)
    if name not in names:
        raise error(name, names)
    return getattr(self, str(name))


def _int(self: Any, name: str) -> int:
    """The value as an int."""
    return int(_value(self, name))


def _text(self: Any, name: str) -> str:
    """The value as a str."""
    return str(_value(self, name))


def _ints(self: Any, name: str) -> tuple[int, ...]:
    """The value as a tuple of ints."""
    value = _value(self, name)
    return tuple(map(int, value)) if isinstance(value, (tuple, list)) else (int(value),)


_METHODS = {
    "keys": _keys, "items": _items, "__iter__": _iterator, "__getitem__": _value,
    "get_int": _int, "get_str": _text, "get_int_tuple": _ints,
}  # fmt: skip
