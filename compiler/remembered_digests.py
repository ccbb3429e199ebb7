"""Digests of files, remembered in the kernel cache by the states of the files: reading 100 MB takes longer than all else that a
process does which finds its executable.

A state is the numbers that a file system changes with a file's contents: device, inode, size, times.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ops.native.cache import disk_cache
from ..ops.native.cache.cache_entry import Entry
from ..ops.native.cache.cache_key import CacheKey

#: The kind of an entry.
DIGEST = "digest"


def remembered(name: str, state: object, compute: Callable[[], str | None]) -> str | None:
    """The digest that was computed for an equal state, else that of ``compute``, which is stored unless it is None.

    ``name``: the subject, for people; ``state``: its text tells states apart.
    """
    key = CacheKey.of(DIGEST, {"name": name, "state": repr(state)})
    stored = disk_cache.read(key)
    if stored is not None:
        return bytes(stored.payload).decode()
    digest = compute()
    if digest is not None:
        disk_cache.write(Entry(key, name, "", digest.encode()))
    return digest
