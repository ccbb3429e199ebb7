"""Elements whose loops ask for cache lines ahead."""

from __future__ import annotations

from typing import Any

from ..memory import instruction
from .marked_accesses import AHEAD, marked


@instruction(lambda e, array, at: marked(e.emitter, AHEAD, "load", lambda: e.emitter.element(array, [at])))
def load_ahead(array: Any, at: int) -> Any:
    """An element; the vectors of a loop over elements also ask for the lines ``AHEAD_BYTES`` further, as ``fetch_early``."""
    return array[at]
