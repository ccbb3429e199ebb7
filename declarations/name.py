"""Texts that have Relay's attribute of the names of variables, types and constructors."""

from __future__ import annotations


class Name(str):
    """A name that, as a variable of Relay's, has a ``name_hint``: itself."""

    __slots__ = ()

    @property
    def name_hint(self) -> str:
        """The name."""
        return str(self)
