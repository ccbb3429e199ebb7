"""Registries of declarations that are imported when a name is first asked for.

A process that runs a compiled program asks for no operator; the declarations of all take longer to import than it takes to run.
The import system is the lock: a thread waits for another thread's import, and a declaration reads what is there so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any, TypeVar

V = TypeVar("V")


def import_folder(package: str, path: Iterable[str]) -> None:
    """Import each module of a package and of its folders, by name in alphabetical order: modules of declarations need no list.

    ``package``, ``path``: the ``__name__`` and ``__path__`` of the package, which calls this.
    """
    for module in walk_packages(path, f"{package}."):
        import_module(module.name)


class LateRegistry(dict[str, V]):
    """A dict that calls ``imports`` before it is first read; declarations, which ``imports`` runs, are added by item.

    ``has_declared`` reads what is there so far: a declaration that asks whether its name is taken must not import the others.
    ``changes`` counts the changes of items: what follows from the items is remembered with it.
    """

    def __init__(self) -> None:
        super().__init__()
        #: A function that imports the module of all declarations, whose last statement sets this to None.
        self.imports: Callable[[], ModuleType] | None = None
        self.changes = 0

    def complete(self) -> None:
        """Import all declarations."""
        imports = self.imports
        if imports is not None:
            imports()

    def has_declared(self, name: str) -> bool:
        """Whether a declaration that was imported so far has this name."""
        return super().__contains__(name)

    def __missing__(self, name: str) -> V:
        self.complete()
        if not self.has_declared(name):
            raise KeyError(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        if self.imports is not None:
            self.complete()
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self.complete()
        return super().__iter__()

    def __len__(self) -> int:
        self.complete()
        return super().__len__()

    def __setitem__(self, name: str, value: V) -> None:
        super().__setitem__(name, value)
        self.changes += 1

    def __delitem__(self, name: str) -> None:
        self.complete()
        super().__delitem__(name)
        self.changes += 1

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict."""
        if self.imports is not None:
            self.complete()
        return dict.get(self, name, default)  # ``super()`` takes longer than the rest

    def pop(self, name: str, *default: Any) -> Any:
        """As of a dict."""
        self.complete()
        self.changes += 1
        return super().pop(name, *default)

    def keys(self) -> Any:
        """As of a dict."""
        self.complete()
        return super().keys()

    def values(self) -> Any:
        """As of a dict."""
        self.complete()
        return super().values()

    def items(self) -> Any:
        """As of a dict."""
        self.complete()
        return super().items()
