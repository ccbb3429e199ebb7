"""Values of algebraic data types in Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...declarations.name import Name

#: The most constructors that ``repr`` shows of one value.
_SHOWN = 100


class ADT:
    """A value of an algebraic data type: ``constructor`` names the constructor that made it, ``tag`` is its number.

    ``fields`` are Tensors, tuples and ADTs.  ``adt[0]``, ``len(adt)`` and unpacking refer to the fields.

    As an argument, ``relay.ADT("Cons", (x, relay.ADT("Nil")))`` is a value of the parameter's type.
    """

    __slots__ = ("constructor", "fields", "tag")

    def __init__(self, constructor: str, fields: Iterable[Any] = (), tag: int | None = None) -> None:
        self.constructor, self.tag, self.fields = Name(constructor), tag, tuple(fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, index: int) -> Any:
        return self.fields[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fields)

    def __repr__(self) -> str:
        """``Cons(Tensor(...), Nil)``; a deep value is cut."""
        texts: list[str] = []
        todo: list[Any] = [self]
        count = 0
        while todo:
            item = todo.pop()
            if not isinstance(item, ADT):
                texts.append(item if isinstance(item, str) else repr(item))
                continue
            count += 1
            if count > _SHOWN:
                texts.append("...")
                continue
            texts.append(item.constructor)
            if item.fields:
                parts: list[Any] = ["("]
                for i, field in enumerate(item.fields):
                    parts += [", "] * bool(i) + [field]
                todo += reversed([*parts, ")"])
        return "".join(texts)
