"""Declarations of passes: a pass's name in Relay, and the passes that establish the form it requires."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...declarations.frozen_dataclass import frozen
from .expr import IRModule

Run = TypeVar("Run", bound=Callable[..., IRModule])


@frozen
class PassDeclaration:
    """``name``: Relay's name, or one of its kind.  ``requires``: the functions' names of passes that run before it.

    ``makes_form``: Whether the pass is for the form of its result; users get their own form back from every other.
    """

    name: str
    run: Callable[..., IRModule]
    requires: tuple[str, ...]
    makes_form: bool = False


#: Every declared pass by the name of its function, once its file is imported.
DECLARED: dict[str, PassDeclaration] = {}


def declare_pass(name: str, *requires: str, makes_form: bool = False) -> Callable[[Run], Run]:
    """The decorator that declares a function on modules as the pass ``name``; the function itself is unchanged."""

    def declare(run: Run) -> Run:
        DECLARED[run.__name__] = PassDeclaration(name, run, requires, makes_form)
        return run

    return declare
