"""One process at a time makes an entry of the cache: the others wait for it, and find the entry.

Companions compile kernels that have parts in common, often at the same time.  A lock ends with its process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from .cache_key import CacheKey
from .disk_cache import cap, lock_path
from .private_files import NotPrivate, open_file


@contextlib.contextmanager
def one_at_a_time(key: CacheKey) -> Iterator[None]:
    """Within the context, no other process is in it with this key, unless files cannot be locked."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError, NotPrivate):  # two processes may compile the same: no error
            stack.enter_context(_locked(key))
        yield


@contextlib.contextmanager
def _locked(key: CacheKey) -> Iterator[None]:
    import fcntl

    if cap() == 0:
        raise OSError("nothing is written")
    path = lock_path(key.id)
    handle = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(handle)
