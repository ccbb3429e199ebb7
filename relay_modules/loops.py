"""``relay.loops``: loops as functions that call themselves."""

from __future__ import annotations

from .compiler.builder.loops import while_loop

__all__ = ["while_loop"]
