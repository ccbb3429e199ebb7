"""Requests for cache lines before they are used: reads of memory overlap with computation."""

from __future__ import annotations

from typing import Any

from ..memory import instruction
from .marked_accesses import AHEAD, marked


@instruction(lambda e, array, at: e.prefetch(array, at, level=1))
def fetch(array: Any, at: int) -> None:
    """Ask for the cache line of an element that will be read, or that is outside the array."""


@instruction(lambda e, array, at: e.prefetch(array, at, level=2))
def fetch_early(array: Any, at: int) -> None:
    """As ``fetch``, into the second cache: for more lines than the first one holds."""


@instruction(lambda e, array, at: e.prefetch(array, at, level=1, is_write=True))
def fetch_to_write(array: Any, at: int) -> None:
    """Ask for the cache line of an element that will be written, or that is outside the array."""


@instruction(lambda e, array, at: marked(e.emitter, AHEAD, "load", lambda: e.emitter.element(array, [at])))
def load_ahead(array: Any, at: int) -> Any:
    """An element; the vectors of a loop over elements also ask for the lines ``AHEAD_BYTES`` further, as ``fetch_early``."""
    return array[at]
