"""Completion of a package by one that imports it, such as the methods of its classes that print, parse or build.

The classes cannot name the functions: those import the classes.  A package that contains both says what completes which package.
"""

from __future__ import annotations

from collections.abc import Callable

#: By the name of a package, the function that completes it.
_COMPLETED_BY: dict[str, Callable[[], None]] = {}


def completed_by(package: str, function: Callable[[], None]) -> None:
    """Declare the function that ``complete(package)`` calls; before any module of the package is imported."""
    assert package not in _COMPLETED_BY, package
    _COMPLETED_BY[package] = function


def complete(package: str) -> None:
    """Complete a package: called by its ``__init__``."""
    _COMPLETED_BY[package]()
