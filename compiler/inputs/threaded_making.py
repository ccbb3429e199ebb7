"""Values that threads make while their caller goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Making(Generic[T]):
    """The values ``make(item)`` of ``items``, which so many ``threads`` begin to make at once.

    ``concurrent.futures`` would do the same; its import takes longer than the import of this package's inputs.
    """

    def __init__(self, make: Callable[[Any], T], items: Sequence[Any], threads: int) -> None:
        self._make, self._items = make, items
        self._values: list[Any] = [None] * len(items)
        self._next, self._lock = 0, threading.Lock()
        #: Exceptions by the number of their item.
        self._errors: dict[int, BaseException] = {}
        self._threads = [threading.Thread(target=self._work) for _ in range(min(threads, len(items)))]
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                number = self._next
                self._next += 1
            if number >= len(self._items) or self._errors:
                return
            try:
                self._values[number] = self._make(self._items[number])
            except BaseException as error:  # it is the waiting thread's
                self._errors[number] = error

    def values(self) -> list[T]:
        """All values, in the order of the items.  Raises the exception of the first item that has one."""
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[min(self._errors)]
        return self._values
