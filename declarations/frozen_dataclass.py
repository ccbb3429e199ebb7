"""Frozen dataclasses whose methods are made when they are first needed.

``dataclasses.dataclass`` compiles six methods from text for each class: half the time of importing this package, which has
hundreds of these classes, most of them never used in a process.  ``frozen`` shares five of the methods between all classes, and
compiles ``__init__`` at the first instance.  Fields, ``dataclasses.replace``, ``fields``, ``asdict`` and pickling are those of
a dataclass with ``frozen=True``.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

C = TypeVar("C")

#: The name of the function that reads all compared fields of an instance, on its class.
_KEY = "__frozen_key__"


@overload
def frozen(cls: type[C], /) -> type[C]: ...


@overload
def frozen(*, eq: bool = True, kw_only: bool = False) -> Callable[[type[C]], type[C]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, dataclasses.Field))
def frozen(cls: type[C] | None = None, /, *, eq: bool = True, kw_only: bool = False) -> Any:
    """Make a class a frozen dataclass.  ``eq=False``: instances are equal only to themselves."""
    if cls is None:
        return lambda given: _made(given, eq, kw_only)
    return _made(cls, eq, kw_only)


def _made(cls: type[C], eq: bool, kw_only: bool) -> type[C]:
    own = vars(cls)
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    methods = {"__setattr__": _set, "__delattr__": _delete, "__repr__": _repr}
    if eq:
        names = [f.name for f in dataclasses.fields(made) if f.compare]
        setattr(made, _KEY, staticmethod(_key_of(names)))
        methods |= {"__eq__": _equal, "__hash__": _hash}
    for name, method in methods.items():
        if name not in own or (name == "__hash__" and own[name] is None):  # None: the class defines ``__eq__``
            setattr(made, name, method)
    if "__init__" not in own:
        made.__init__ = _first_init(made)
    return made  # type: ignore[no-any-return]


def _key_of(names: list[str]) -> Callable[[Any], Any]:
    if len(names) > 1:
        return attrgetter(*names)
    return attrgetter(names[0]) if names else lambda instance: ()


def _first_init(cls: Any) -> Callable[..., None]:
    """An ``__init__`` that replaces itself."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__ = _compiled_init(cls)
        cls.__init__(self, *args, **kwargs)

    return __init__


def _compiled_init(cls: Any) -> Callable[..., None]:
    """``__init__``, from text: a parameter for each field, in the order of the fields, keywords last."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_default": dataclasses.MISSING}
    parameters: list[str] = []
    keywords: list[str] = []
    lines: list[str] = []
    for field in dataclasses.fields(cls):
        value = field.name
        if field.default_factory is not dataclasses.MISSING:
            names[f"_make_{field.name}"] = field.default_factory
            value = f"_make_{field.name}() if {value} is _default else {value}" if field.init else f"_make_{field.name}()"
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{field.name}"] = field.default
            value = value if field.init else f"_default_{field.name}"
        elif not field.init:
            continue
        if field.init:
            default = "" if field.default is dataclasses.MISSING else f"=_default_{field.name}"
            default = "=_default" if field.default_factory is not dataclasses.MISSING else default
            (keywords if field.kw_only else parameters).append(field.name + default)
        lines.append(f"_set(self, {field.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    given = ["self", *parameters, *(["*", *keywords] if keywords else [])]
    exec(f"def __init__({', '.join(given)}):\n    " + "\n    ".join(lines or ["pass"]), names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _set(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _equal(self: Any, other: object) -> Any:
    if other is self:
        return True
    if other.__class__ is not self.__class__:
        return NotImplemented
    key: Callable[[Any], Any] = getattr(self, _KEY)
    return key(self) == key(other)


def _hash(self: Any) -> int:
    return hash(getattr(self, _KEY)(self))
