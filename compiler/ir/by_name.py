"""Mappings by the names of functions or types, which take a GlobalVar or GlobalTypeVar for its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ...declarations.name import Name

T = TypeVar("T")


class ByName(dict[str, T]):
    """A dict by names.  ``mod.functions[relay.GlobalVar("main")]`` is ``mod.functions["main"]``; keys have a ``name_hint``."""

    def __init__(self, items: Mapping[str, T]) -> None:
        super().__init__({Name(key): value for key, value in items.items()})

    def items(self) -> Any:
        """The names and their values in order, a list as Relay's: ``mod.functions.items()[0]``."""
        return list(super().items())

    def __missing__(self, key: Any) -> T:
        name = _name(key)
        if name is key:
            raise KeyError(key)
        return self[name]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(_name(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a name, or ``default``."""
        return super().get(_name(key), default)


def _name(key: Any) -> Any:
    return key if isinstance(key, str) else getattr(key, "name", key)
