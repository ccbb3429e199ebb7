"""Turns of the processes of one node: the first compiles a model's kernels, the others find the kernels in the cache."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator

from ..ops.native.cache import disk_cache
from ..ops.native.cache.private_files import check_folder, check_inside

#: The file in the cache's folder that a process locks during its turn.
_FILE = "turn.lock"


@contextlib.contextmanager
def turn() -> Iterator[bool]:
    """Wait until no other process with this cache folder has a turn; a process that ends gives its turn back.

    The value: whether there are turns.  Without a usable folder there is nothing to share, and every process compiles for itself.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder = check_folder(disk_cache.folder())
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = stack.enter_context(open(check_inside(folder / _FILE), "ab"))
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            yield False
            return
        yield True
