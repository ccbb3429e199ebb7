"""The kernel cache on disk: one checksummed file an entry, found by the hash of its key.

A file is written under a temporary name and renamed: readers see the whole entry or none.  It is not flushed to the disk
first, because the checksum finds what a power cut leaves.  Whatever goes wrong with the folder or an entry is a miss and
one warning per process and cause, never an error.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from .cache_key import CacheKey
from .entry import DamagedEntry, Entry, pack, unpack
from .private import NotPrivate, check_folder, check_inside, open_file

#: The folder of the cache, and the largest number of bytes it should hold.
FOLDER_VARIABLE, CAP_VARIABLE = "RELAYVM_CACHE_DIR", "RELAYVM_CACHE_MAX_BYTES"
DEFAULT_CAP = 1 << 30
#: The folders in it: of what is kept, and of what is being written.
_ENTRIES, _TEMPORARY = "entries", "tmp"

#: A use is written down (the file is touched) when the last one is longer ago than this.
_TOUCH_SECONDS = 3600
#: What was written or used more recently than this is not evicted: another process may be about to read it.
_GRACE_SECONDS = 600
#: Temporary files older than this belong to nobody any more.
_ABANDONED_SECONDS = 3600


class CacheWarning(UserWarning):
    """The cache folder cannot be used, or an entry is damaged; the run goes on."""


class NoFolder(OSError):
    """There is no folder for a cache, or it must not be trusted."""


class Stored(NamedTuple):
    """A file of the cache: where, bytes, nanoseconds of its last use (about: see ``_TOUCH_SECONDS``)."""

    path: Path
    size: int
    used_ns: int

    @property
    def id(self) -> str:
        return self.path.parent.name + self.path.name


# ---- the folder ------------------------------------------------------------------------------------------------------------


def folder() -> Path:
    """The folder of the cache: ``RELAYVM_CACHE_DIR``, else the user's cache folder.  Raises NoFolder without a home."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        with contextlib.suppress(RuntimeError):
            return Path(named).expanduser()
    else:
        import platformdirs

        found = Path(platformdirs.user_cache_dir("relayvm"))
        if found.is_absolute():  # a user without a home gets "~/.cache"
            return found
    raise NoFolder(f"there is no home folder; set {FOLDER_VARIABLE}")


def cap() -> int:
    """The bytes that the folder should hold at most: ``RELAYVM_CACHE_MAX_BYTES``.  With 0 nothing is written."""
    named = os.environ.get(CAP_VARIABLE)
    if not named:
        return DEFAULT_CAP
    if named.strip().isdecimal():
        return int(named)
    warn_once(CAP_VARIABLE, f"{CAP_VARIABLE}={named!r} is not a number of bytes; {DEFAULT_CAP} is used")
    return DEFAULT_CAP


def private_folder() -> Path:
    """The folder of the cache.  Raises NoFolder for one that others can write to or replace: it holds code that is run."""
    return _private(check_folder, folder())


def _part(name: str) -> Path:
    """A folder in that of the cache.  Raises NoFolder."""
    return _private(check_inside, private_folder() / name)


def _private(check: Callable[[Path], Path], path: Path) -> Path:
    try:
        return check(path)
    except NotPrivate as error:
        raise NoFolder(str(error)) from error


def path_of(key_id: str) -> Path:
    """Where the entry with this id is, if there is one.  Raises NoFolder."""
    return _private(check_inside, _part(_ENTRIES) / key_id[:2]) / key_id[2:]


def private_file(path: Path) -> Path:
    """A file in the folder of the cache, which need not exist.  Raises NoFolder where others can write to it."""
    return _private(check_inside, path)


def make_folder(path: Path) -> None:
    """A private folder; missing parents are made, too, and those outside the cache are as usual."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from error


# ---- one entry -------------------------------------------------------------------------------------------------------------


def check(path: Path) -> Entry:
    """The entry at ``path``.  Raises DamagedEntry, also when it is another one than its name says, or one that another user can
    write; OSError."""
    with _opened(path) as file:
        return _checked(path, file)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        handle = open_file(path)
    except NotPrivate as error:
        raise DamagedEntry(str(error)) from error
    with open(handle, "rb") as file:
        yield file


def _checked(path: Path, file: BinaryIO) -> Entry:
    entry = unpack(file.read())
    if entry.key.id != path.parent.name + path.name:
        raise DamagedEntry("its name is that of another entry")
    return entry


def read(key: CacheKey) -> Entry | None:
    """The entry of this key, which is then the last used; None when there is none that can be used."""
    try:
        path = path_of(key.id)
        with _opened(path) as file:
            entry = _checked(path, file)
            if time.time() - os.fstat(file.fileno()).st_mtime > _TOUCH_SECONDS:
                with contextlib.suppress(OSError):  # a folder of which one may only read is a cache, too
                    os.utime(path)
        return entry
    except (FileNotFoundError, NotADirectoryError):
        return None
    except DamagedEntry as error:
        warn_once("damaged", f"cache entry {key.id[:12]} cannot be used: {error}; compiling again (see `relayvm cache verify`)")
    except OSError as error:
        _warn_folder("read", error)
    return None


def write(entry: Entry) -> int:
    """Keep an entry; how many bytes were written.  Entries that were not used for longest make room for it."""
    blob, limit = pack(entry), cap()
    if len(blob) > limit:
        return 0
    try:
        path = path_of(entry.key.id)
        _put(path, blob)
        _evict(len(blob), limit)
    except OSError as error:
        _warn_folder("written", error)
        return 0
    return len(blob)


def _put(path: Path, blob: bytes) -> None:
    temporary_folder = _part(_TEMPORARY)
    for needed in (path.parents[2], temporary_folder, path.parents[1], path.parent):
        make_folder(needed)
    handle, temporary = tempfile.mkstemp(dir=temporary_folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(blob)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


# ---- all entries -----------------------------------------------------------------------------------------------------------


def stored() -> Iterator[Stored]:
    """Every file of the cache that is where entries are.  Raises NoFolder."""
    yield from _files(_part(_ENTRIES), "*/*")


def _files(where: Path, pattern: str) -> Iterator[Stored]:
    for path in where.glob(pattern):
        with contextlib.suppress(OSError):  # another process deletes, too
            about = path.stat()
            if path.is_file():
                yield Stored(path, about.st_size, about.st_mtime_ns)


def prune(max_bytes: int, grace_seconds: float = 0) -> tuple[int, int]:
    """Delete what was not used for longest until ``max_bytes`` are left: how many files, how many bytes.  Raises NoFolder.

    What was used or written in the last ``grace_seconds`` stays, and so does what another process touches meanwhile.
    """
    now = time.time_ns()
    for left in _files(_part(_TEMPORARY), "*"):
        if left.used_ns < now - _ABANDONED_SECONDS * 10**9:
            with contextlib.suppress(OSError):
                left.path.unlink()
    found = sorted(stored(), key=lambda file: file.used_ns)
    total, files, freed = sum(file.size for file in found), 0, 0
    for file in found:
        if total - freed <= max_bytes or file.used_ns > now - grace_seconds * 10**9:
            break
        if _delete(file):
            files, freed = files + 1, freed + file.size
    return files, freed


def _delete(file: Stored) -> bool:
    """Delete a file unless it is another one by now, or in use."""
    with contextlib.suppress(OSError):
        if file.path.stat().st_mtime_ns == file.used_ns:
            file.path.unlink()
            return True
    return False


def clear() -> tuple[int, int]:
    """Delete every entry and what broken writes left: how many files, how many bytes.  Raises NoFolder, OSError."""
    files = freed = 0
    for file in [*stored(), *_files(_part(_TEMPORARY), "*")]:
        with contextlib.suppress(FileNotFoundError):
            file.path.unlink()
            files, freed = files + 1, freed + file.size
    return files, freed


class _Written:
    """How much this process wrote since it last looked at the whole folder, which takes longer than a write."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.nbytes = 0

    def is_much(self, nbytes: int, limit: int) -> bool:
        """Is it time to look, after ``nbytes`` more?  So it is at the first write, and after each sixteenth of the cap."""
        first, self.folder = self.folder != folder(), folder()
        self.nbytes += nbytes
        if first or self.nbytes * 16 > limit:
            self.nbytes = 0
            return True
        return False


_written = _Written()


def _evict(nbytes: int, limit: int) -> None:
    if _written.is_much(nbytes, limit):
        prune(limit, _GRACE_SECONDS)


# ---- warnings --------------------------------------------------------------------------------------------------------------


def _warn_folder(verb: str, error: OSError) -> None:
    """One warning for each reason, however many kernels and calls there are: it names the folder, not the entry."""
    if isinstance(error, NoFolder):
        warn_once(str(error), f"no cache is used ({error}); kernels are compiled in every process")
        return
    why = error.strerror or str(error)
    where = folder()
    warn_once(f"{where} {why}", f"the cache folder {where} cannot be {verb} ({why}); kernels are compiled in every process")


@functools.cache
def _causes() -> set[str]:
    """The causes that this process has warned of."""
    return set()


def warn_once(cause: str, message: str) -> None:
    """Warn of something, unless this process has warned of this cause before."""
    if cause not in _causes():
        _causes().add(cause)
        warnings.warn(message, CacheWarning, stacklevel=4)


def warn_unusable(key: CacheKey, why: object) -> None:
    """Say that a whole entry is of no use in this process."""
    warn_once("unusable", f"cache entry {key.id[:12]} cannot be used ({why}); compiling again")
