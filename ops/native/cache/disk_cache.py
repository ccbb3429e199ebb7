"""The kernel cache on disk: one checksummed file per entry, under the hash of its key.

A file is written under a temporary name and renamed: readers see the whole entry or none.  The file is not flushed to the disk
first, because the checksum detects a write that a power cut interrupted.  Any failure of the folder or of an entry is a cache
miss and one warning per process and cause, never an error.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import mmap
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from . import installed_entries
from .cache_entry import DamagedEntry, Entry, pack, unpack, use_while_checked, write_chunks
from .cache_key import CacheKey
from .private_files import NotPrivate, check_folder, check_inside, open_file

#: Environment variables: the folder of the cache, and the largest number of bytes it should hold.
FOLDER_VARIABLE, CAP_VARIABLE = "RELAYVM_CACHE_DIR", "RELAYVM_CACHE_MAX_BYTES"
DEFAULT_CAP = 1 << 30
_T = TypeVar("_T")
#: Subfolders: of stored entries, and of files being written.
_ENTRIES, _TEMPORARY = "entries", "tmp"

#: A use updates the file's timestamps if the last recorded use is older than this.
_TOUCH_SECONDS = 3600
#: A file written or used more recently than this is not evicted: another process may be about to read it.
_GRACE_SECONDS = 600
#: Temporary files older than this are abandoned.
_ABANDONED_SECONDS = 3600


class CacheWarning(UserWarning):
    """The cache folder cannot be used, or an entry is damaged; the run continues without the cache."""


class NoFolder(OSError):
    """There is no cache folder, or the folder cannot be trusted."""


class EntryFile(NamedTuple):
    """A file of the cache: path, size in bytes, time of the last use in nanoseconds (coarse: see ``_TOUCH_SECONDS``)."""

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
    """The cap in bytes on the size of the folder: ``RELAYVM_CACHE_MAX_BYTES``.  With 0 nothing is written."""
    named = os.environ.get(CAP_VARIABLE)
    if not named:
        return DEFAULT_CAP
    if named.strip().isdecimal():
        return int(named)
    warn_once(CAP_VARIABLE, f"{CAP_VARIABLE}={named!r} is not a number of bytes; {DEFAULT_CAP} is used")
    return DEFAULT_CAP


def private_folder() -> Path:
    """The folder of the cache.  Raises NoFolder for a folder that others can write to or replace: it holds executable code."""
    return _private(check_folder, folder())


def _subfolder(name: str) -> Path:
    """A subfolder of the cache.  Raises NoFolder."""
    return _private(check_inside, private_folder() / name)


def _private(check: Callable[[Path], Path], path: Path) -> Path:
    try:
        return check(path)
    except NotPrivate as error:
        raise NoFolder(str(error)) from error


def path_of(key_id: str) -> Path:
    """The path of the entry with this id, which need not exist.  Raises NoFolder."""
    return _private(check_inside, _subfolder(_ENTRIES) / key_id[:2]) / key_id[2:]


def lock_path(key_id: str) -> Path:
    """The path of the file that is locked while the entry with this id is made.  Raises NoFolder, OSError."""
    temporary_folder = _subfolder(_TEMPORARY)
    for needed in (temporary_folder.parent, temporary_folder):
        make_folder(needed)
    return temporary_folder / f"{key_id}.lock"


def private_file(path: Path) -> Path:
    """A file in the folder of the cache, which need not exist.  Raises NoFolder if others can write to it."""
    return _private(check_inside, path)


def make_folder(path: Path) -> None:
    """Make a private folder, and its missing parents.  Parents outside the cache get the default mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from error


# ---- one entry -------------------------------------------------------------------------------------------------------------


def check(path: Path) -> Entry:
    """Verify and read the entry at ``path``.

    Raises DamagedEntry, also for an entry whose name does not match its key or that another user can write; OSError.
    """
    with _open_entry(path) as file:
        return _read_checked(path, file)


@contextlib.contextmanager
def _open_entry(path: Path) -> Iterator[BinaryIO]:
    try:
        handle = open_file(path)
    except NotPrivate as error:
        raise DamagedEntry(str(error)) from error
    with open(handle, "rb") as file:
        yield file


def _read_checked(path: Path, file: BinaryIO) -> Entry:
    return _named(path, unpack(file.read()))


def _named(path: Path, entry: Entry) -> Entry:
    if entry.key.id != path.parent.name + path.name:
        raise DamagedEntry("its name is that of another entry")
    return entry


def read(key: CacheKey) -> Entry | None:
    """The entry of this key, also one in the folder of the package; None if there is no usable entry.

    Marks the entry as the most recently used.
    """
    return read_id(key.id)


def read_id(key_id: str) -> Entry | None:
    """As ``read``, for the key with this id."""
    return _read_by(key_id, _read_checked)


def read_mapped(key: CacheKey, use: Callable[[Entry], _T]) -> _T | None:
    """As ``read``, for the result of ``use``: the payload is a view of the file in memory.

    ``use`` is called while a thread compares the checksum, and changes nothing (see ``use_while_checked``).
    """

    def used(path: Path, file: BinaryIO) -> _T:
        # a private file is replaced or deleted, never changed: a mapping of it stays whole
        is_empty = not os.fstat(file.fileno()).st_size
        view = memoryview(b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return use_while_checked(view, lambda entry: use(_named(path, entry)))

    return _read_by(key.id, used)


def _read_by(key_id: str, read_file: Callable[[Path, BinaryIO], _T]) -> _T | None:
    """The result of ``read_file`` for the open file of an entry; None if there is no usable entry."""
    try:
        path = path_of(key_id)
        with _open_entry(path) as file:
            found = read_file(path, file)
            if time.time() - os.fstat(file.fileno()).st_mtime > _TOUCH_SECONDS:
                with contextlib.suppress(OSError):  # a read-only folder is a cache, too
                    os.utime(path)
        return found
    except (FileNotFoundError, NotADirectoryError):
        pass
    except DamagedEntry as error:
        warn_once("damaged", f"cache entry {key_id[:12]} cannot be used: {error}; compiling again (see `relayvm cache verify`)")
    except OSError as error:
        _warn_folder("read", error)
    return _read_installed(installed_entries.path_of(key_id), read_file)


def _read_installed(path: Path, read_file: Callable[[Path, BinaryIO], _T]) -> _T | None:
    """The result of ``read_file`` for an entry in the folder of the package; None if there is none, or a damaged one."""
    try:
        with path.open("rb") as file:
            return read_file(path, file)
    except OSError:
        return None
    except DamagedEntry as error:
        warn_once("damaged", f"{path} cannot be used: {error}; compiling again (see `relayvm cache install`)")
        return None


def is_stored(key: CacheKey) -> bool:
    """Whether there is a file for this key, which may be damaged."""
    with contextlib.suppress(OSError):
        if path_of(key.id).exists():
            return True
    return installed_entries.path_of(key.id).exists()


def write(entry: Entry) -> int:
    """Store an entry; the number of bytes written.  Evicts the least recently used entries to make room."""
    blob, limit = pack(entry), cap()
    if len(blob) > limit:
        return 0
    try:
        path = path_of(entry.key.id)
        _write_atomically(path, lambda file: file.write(blob))
        _evict(len(blob), limit)
    except OSError as error:
        _warn_folder("written", error)
        return 0
    return len(blob)


def write_in_chunks(entry: Entry, chunks: Iterable[bytes | memoryview]) -> int:
    """As ``write``, for an entry whose payload is ``chunks``, and is at most the cap, as the caller knows."""
    try:
        size = _write_atomically(path_of(entry.key.id), lambda file: write_chunks(file, entry, chunks))
        _evict(size, cap())
    except OSError as error:
        _warn_folder("written", error)
        return 0
    return size


def _write_atomically(path: Path, fill: Callable[[BinaryIO], int]) -> int:
    """Write a file by ``fill``; its result."""
    import tempfile  # for writers only

    temporary_folder = _subfolder(_TEMPORARY)
    for needed in (path.parents[2], temporary_folder, path.parents[1], path.parent):
        make_folder(needed)
    handle, temporary = tempfile.mkstemp(dir=temporary_folder)
    try:
        with os.fdopen(handle, "wb") as file:
            size = fill(file)
        os.replace(temporary, path)
        return size
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


# ---- all entries -----------------------------------------------------------------------------------------------------------


def entry_files() -> Iterator[EntryFile]:
    """Every entry file of the cache.  Raises NoFolder."""
    yield from _files(_subfolder(_ENTRIES), "*/*")


def _files(where: Path, pattern: str) -> Iterator[EntryFile]:
    for path in where.glob(pattern):
        with contextlib.suppress(OSError):  # another process may delete files, too
            status = path.stat()
            if path.is_file():
                yield EntryFile(path, status.st_size, status.st_mtime_ns)


def prune(max_bytes: int, grace_seconds: float = 0) -> tuple[int, int]:
    """Evict least recently used entries until ``max_bytes`` are left: number of files, number of bytes.  Raises NoFolder.

    Entries used or written in the last ``grace_seconds`` stay, and so do entries that another process touches meanwhile.
    """
    now = time.time_ns()
    for left in _files(_subfolder(_TEMPORARY), "*"):
        if left.used_ns < now - _ABANDONED_SECONDS * 10**9:
            with contextlib.suppress(OSError):
                left.path.unlink()
    found = sorted(entry_files(), key=lambda file: file.used_ns)
    total, files, freed = sum(file.size for file in found), 0, 0
    for file in found:
        if total - freed <= max_bytes or file.used_ns > now - grace_seconds * 10**9:
            break
        if _delete(file):
            files, freed = files + 1, freed + file.size
    return files, freed


def _delete(file: EntryFile) -> bool:
    """Delete a file unless it has been replaced meanwhile or is in use."""
    with contextlib.suppress(OSError):
        if file.path.stat().st_mtime_ns == file.used_ns:
            file.path.unlink()
            return True
    return False


def clear() -> tuple[int, int]:
    """Delete every entry and every abandoned temporary file: number of files, number of bytes.  Raises NoFolder, OSError."""
    files = freed = 0
    for file in [*entry_files(), *_files(_subfolder(_TEMPORARY), "*")]:
        with contextlib.suppress(FileNotFoundError):
            file.path.unlink()
            files, freed = files + 1, freed + file.size
    return files, freed


class _WriteCounter:
    """Number of bytes this process wrote since it last measured the whole folder, which takes longer than a write."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.nbytes = 0

    def is_due(self, nbytes: int, limit: int) -> bool:
        """Whether to measure the folder after ``nbytes`` more: at the first write, and after each sixteenth of the cap."""
        first, self.folder = self.folder != folder(), folder()
        self.nbytes += nbytes
        if first or self.nbytes * 16 > limit:
            self.nbytes = 0
            return True
        return False


_writes = _WriteCounter()


def _evict(nbytes: int, limit: int) -> None:
    if _writes.is_due(nbytes, limit):
        prune(limit, _GRACE_SECONDS)


# ---- warnings --------------------------------------------------------------------------------------------------------------


def _warn_folder(verb: str, error: OSError) -> None:
    """Warn once for each reason, for any number of kernels and calls: the warning names the folder, not the entry."""
    if isinstance(error, NoFolder):
        warn_once(str(error), f"no cache is used ({error}); kernels are compiled in every process")
        return
    why = error.strerror or str(error)
    where = folder()
    warn_once(f"{where} {why}", f"the cache folder {where} cannot be {verb} ({why}); kernels are compiled in every process")


@functools.cache
def _causes() -> set[str]:
    """The causes of which this process has warned."""
    return set()


def warn_once(cause: str, message: str) -> None:
    """Warn, unless this process has warned of this cause before."""
    if cause not in _causes():
        _causes().add(cause)
        warnings.warn(message, CacheWarning, stacklevel=4)


def warn_unusable(key: CacheKey, why: object) -> None:
    """Warn that a whole entry cannot be used in this process."""
    warn_once("unusable", f"cache entry {key.id[:12]} cannot be used ({why}); compiling again")
