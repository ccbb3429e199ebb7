"""``relay.prelude``: the standard library in a module."""

from __future__ import annotations

from . import Prelude

__all__ = ["Prelude"]
