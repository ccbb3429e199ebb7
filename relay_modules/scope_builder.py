"""``relay.scope_builder``: lets and branches as statements."""

from __future__ import annotations

from . import ScopeBuilder

__all__ = ["ScopeBuilder"]
