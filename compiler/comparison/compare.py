"""Comparison of profiles of one program in several configurations: the differences of each from the first."""

from __future__ import annotations

from ...vm.diagnostics.source import InputError
from ...vm.report.profile_report import Profile
from ...vm.values.notebook import notebook_html
from .compare_text import comparison_text
from .comparison_data import Case, ComparisonData, Method


class Comparison(ComparisonData):
    """One program on two or more ``sides`` (their names), in one or more cases.  ``str`` is the tables for people.

    All differences are against the first side.  ``files``: the file of each side, where the sides have files of their own.
    """

    def __str__(self) -> str:
        return comparison_text(self)

    def _repr_html_(self) -> str:
        return notebook_html(str(self))


def compare_profiles(named: dict[str, Profile]) -> Comparison:
    """Comparison of saved profiles, by the name of their side.  Raises InputError for fewer than two."""
    if len(named) < 2:
        raise InputError("there must be two profiles, or more, to compare")
    method = Method(min(p.runs for p in named.values()), interleaved=False, checked=False)
    return Comparison(tuple(named), (Case("", tuple(named.values())),), method)
