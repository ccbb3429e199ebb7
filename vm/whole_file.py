"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from .source import FileError

#: What lies here is a device, or the file that another program holds open: it is written to, never put in the place of.
_OPEN_THINGS = ("/dev/", "/proc/")


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file of these bytes; see ``whole_file``."""
    with whole_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A new file to write to, which takes the place of the one at ``path`` when all is written.

    Whatever happens before, the end of the process or of the disk included, leaves the old file as it was.  A link stays, and
    so do the permissions of the old file.  What is no file (a pipe, a device) is written to as it is.  Raises FileError for
    an OSError, within too.
    """
    try:
        with _opened(Path(path)) as file:
            yield file
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
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
