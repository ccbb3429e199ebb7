"""Atomic file writes: a new file replaces the old one as a whole."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ..diagnostics.source import FileError

#: Folders of devices and of files that another program holds open: a path in them is opened for writing, never replaced.
_OPEN_THINGS = ("/dev/", "/proc/")


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file of these bytes atomically; see ``whole_file``."""
    with whole_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing; it replaces the file at ``path`` when the ``with`` block ends without an error.

    An error before the end of the block leaves the old file unchanged, even if the process ends or the disk is full.  A symbolic
    link stays a link.  The permissions of the old file are kept.  A pipe or a device is written directly.  Raises FileError for
    every OSError, including those raised inside the block.
    """
    try:
        with _opened(Path(path)) as file:
            yield file
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    import secrets  # for writers only

    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = 0
    if stat.S_ISDIR(mode):
        raise OSError("it is not a regular file")
    if (mode and not stat.S_ISREG(mode)) or str(path).startswith(_OPEN_THINGS):
        with open(path, "wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with open(part, "xb") as file:
            if mode:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            yield file
        os.replace(part, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
