"""Python's garbage collector, put off while code is compiled.

numba makes many small objects that live until a function is compiled.  Python would go through them, and through all of numba's
own, again and again: an eighth of the time of compiling.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collection_put_off() -> Iterator[None]:
    """While this is open no garbage is looked for; it may be open several times at once, in any thread."""
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_collecting:
            gc.enable()
