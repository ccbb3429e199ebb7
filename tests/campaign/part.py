"""A part of the campaign: how trials of one kind are drawn, checked, made smaller and written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

Case = TypeVar("Case")


class Refused(Exception):
    """A case that a diagnostic refuses and that others run: a finding of its own kind."""


class Part(Generic[Case]):
    """Trials of one kind.  A case is plain data that can be pickled: children check it, and smaller ones made of it.

    ``unit``: a trial, in the plural.  ``slice_trials``: the trials of ``test_slice``, some seconds of them.
    ``slice_environment``: variables of the processes that check these.  ``hang_seconds``: a check that takes longer is a hang.
    ``seen``: counted by ``check`` and printed at the end, so that a reader sees what was tried; of ``kind/value`` it is said how
    many values there were.
    """

    name: str
    unit: str
    slice_trials: int
    slice_environment: Mapping[str, str] = MappingProxyType({})
    hang_seconds: float = 30.0

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def prepare(self) -> None:
        """Make what every check needs.  A child does so once, before the first: nobody takes that for a hang of a trial."""

    def draw(self, seed: int) -> Case:
        """The case of a seed: the same in every process and on every machine."""
        raise NotImplementedError

    def check(self, case: Case) -> str | None:
        """The mistake in one line, or None.  An exception that leaves is wrong too; so is the end of the process."""
        raise NotImplementedError

    def smaller(self, case: Case) -> Iterable[Case]:
        """Simpler cases, the simplest first: each is tried, and taken if it fails in the same way."""
        return ()

    def write(self, case: Case) -> str:
        """The lines of a test function's body that fails while the finding is there."""
        raise NotImplementedError


def load(name: str) -> Part[Any]:
    """The part of that name: ``PART`` of the module of that name in this folder.

    Raises ModuleNotFoundError.
    """
    from importlib import import_module

    part = import_module(f"{__package__}.{name}").PART
    assert isinstance(part, Part) and part.name == name
    return part
