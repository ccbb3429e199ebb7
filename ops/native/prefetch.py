"""Requests for cache lines before they are used: reads of memory overlap with computation."""

from __future__ import annotations

from typing import Any

from .memory import instruction


@instruction(lambda e, array, at: e.prefetch(array, at, level=1))
def fetch(array: Any, at: int) -> None:
    """Ask for the cache line of an element that will be read, or that is outside the array."""


@instruction(lambda e, array, at: e.prefetch(array, at, level=2))
def fetch_early(array: Any, at: int) -> None:
    """As ``fetch``, into the second cache: for more lines than the first one holds."""


@instruction(lambda e, array, at: e.prefetch(array, at, level=1, is_write=True))
def fetch_to_write(array: Any, at: int) -> None:
    """Ask for the cache line of an element that will be written, or that is outside the array."""
