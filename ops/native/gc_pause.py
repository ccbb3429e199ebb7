"""Pause of Python's garbage collector during compilation and parsing.

Compilers and parsers make many small objects that live until their end.  The collector would traverse them again and again.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Disable garbage collection inside the block.  Blocks may nest and overlap, in any thread."""
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_collecting:
            gc.enable()
