"""Sequences whose items are made when the first is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class Deferred(Sequence[T]):
    """The items that ``make`` returns, ``length`` of them: made once, at the first access to an item."""

    def __init__(self, length: int, make: Callable[[], Sequence[T]]) -> None:
        self._length = length
        self._make: Callable[[], Sequence[T]] | None = make
        self._items: Sequence[T] = ()

    def _made(self) -> Sequence[T]:
        make = self._make
        if make is not None:  # two threads may make the items, which are equal
            items = make()
            assert len(items) == self._length
            self._items, self._make = items, None
        return self._items

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, at: Any) -> Any:
        return self._made()[at]
