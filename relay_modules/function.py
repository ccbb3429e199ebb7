"""``relay.function``: the constructor of functions."""

from __future__ import annotations

from . import Function

__all__ = ["Function"]
