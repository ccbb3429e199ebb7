"""Tuning records: measurements on this machine, as checksummed JSON lines in the cache folder.

A record is looked up by its key, a ``CacheKey`` (see ``fingerprint``); of several with one key the last one wins.  Lines are
appended, each batch by one write, under a lock that only shortening the file really needs: without locks nothing is lost, but the
file is not shortened.  An unusable line, or a file that is too large, is one warning and no error.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..cache import checked_lines, disk_cache
from ..cache.cache_key import CacheKey
from ..cache.checked_lines import CheckedLine, RejectedLine
from ..cache.private_files import open_file

#: Incremented with every change of a record that an older reader would misunderstand.
FORMAT_VERSION = 1
#: A larger file is not one of this package: it is neither read nor written.
MAX_BYTES = 64 << 20
#: A larger file is shortened to the last record of each key, and to half of this size.
SHORTEN_BYTES = 32 << 20

#: The key's field that holds the format version.
FORMAT_FIELD = "format"
_NAME, _LOCK_NAME = "tuning.jsonl", "tuning.lock"
#: Length of the head of a file, a checksum included, which identifies the file together with its inode.
_HEAD_BYTES = 64
#: Number of unusable lines that a warning names.
_NAMED_LINES = 3


class Record(NamedTuple):
    """A measurement (plain JSON data) under a key."""

    key: CacheKey
    data: Mapping[str, Any]

    def line(self) -> bytes:
        """The record as a line of a file.  Raises ValueError if it is too long."""
        return checked_lines.pack({"fields": [list(field) for field in self.key.fields], "data": dict(self.data)})


def parse(data: bytes, first: int = 1) -> tuple[list[Record], list[RejectedLine]]:
    """Parse the bytes of a file: records, and lines that are no records of this version; ``first``: the first line's number."""
    records: list[Record] = []
    rejected: list[RejectedLine] = []
    for line in checked_lines.unpack(data, first):
        found = line if isinstance(line, RejectedLine) else _record(line)
        if isinstance(found, RejectedLine):
            rejected.append(found)
        else:
            records.append(found)
    return records, rejected


def _record(line: CheckedLine) -> Record | RejectedLine:
    fields, data = line.record.get("fields"), line.record.get("data")
    pairs = fields if isinstance(fields, list) else []
    texts = all(isinstance(pair, list) and len(pair) == 2 and all(type(part) is str for part in pair) for pair in pairs)
    if not pairs or not texts or type(data) is not dict:
        return RejectedLine(line.line, "it is no tuning record")
    key = CacheKey(tuple((name, value) for name, value in pairs))
    version = dict(key.fields).get(FORMAT_FIELD)
    if version != str(FORMAT_VERSION):
        return RejectedLine(line.line, f"it has the format version {version}; this relayvm reads version {FORMAT_VERSION}")
    return Record(key, data)


#: Records of this process that could not be written.
_unsaved: dict[str, Record] = {}

# ---- the file in the cache folder --------------------------------------------------------------------------------------------


def path() -> Path:
    """The path of the records.  Raises NoFolder if there is no folder, or others may write to the file."""
    return disk_cache.private_file(disk_cache.private_folder() / _NAME)


def load() -> dict[str, Record]:
    """The records of the cache folder and of this process, by the ids of their keys.  Warns once of unusable lines."""
    found: dict[str, Record] = {}
    try:
        found = _record_file(path()).read()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        _warn_file(error)
    return found | _unsaved if _unsaved else found


def save(records: Iterable[Record]) -> int:
    """Add records to the cache folder; their number.  0 if they cannot be stored there: then they hold in this process only."""
    records = tuple(records)
    lines = [record.line() for record in records]
    if not lines:
        return 0
    try:
        if disk_cache.cap() > 0:
            _append(path(), b"".join(lines))
            return len(lines)
    except OSError as error:
        _warn_file(error)
    _unsaved.update({record.key.id: record for record in records})
    return 0


def clear() -> tuple[int, int]:
    """Delete all records: number of records, number of bytes.  Raises NoFolder, OSError."""
    where, count = path(), len(load())
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        nbytes = where.stat().st_size
        with _locked(where, exclusive=True):
            where.unlink()
        return count, nbytes
    return 0, 0


def _append(where: Path, blob: bytes) -> None:
    disk_cache.make_folder(where.parent)
    with _locked(where, exclusive=True) as locked:
        handle = open_file(where, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(handle).st_size
            if size > MAX_BYTES:
                raise _too_large(where, size)
            if size and os.pread(handle, 1, size - 1) != b"\n":
                blob = b"\n" + blob  # a writer was killed in the middle of a line
            written = os.write(handle, blob)
        finally:
            os.close(handle)
        if written < len(blob):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(where))
        if locked and size + written > SHORTEN_BYTES:
            _shorten(where)


def _shorten(where: Path) -> None:
    """Keep the last line of each key, the newest first, within half of the size limit.

    Well-formed lines of other versions are treated like all others.
    """
    import tempfile  # for writers only

    kept: dict[str, bytes] = {}
    left = SHORTEN_BYTES // 2
    for line in reversed(list(checked_lines.unpack(where.read_bytes()))):
        if isinstance(line, CheckedLine) and (name := str(line.record.get("fields"))) not in kept and len(line.raw) <= left:
            kept[name] = line.raw
            left -= len(line.raw)
    handle, temporary = tempfile.mkstemp(dir=where.parent, prefix=f".{where.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(b"".join(reversed(kept.values())))
        os.replace(temporary, where)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def _locked(where: Path, *, exclusive: bool) -> Iterator[bool]:
    """Exclude writers (``exclusive``: readers too) of other processes; yields False if there are no locks."""
    try:
        import fcntl

        handle = open_file(where.with_name(_LOCK_NAME), os.O_RDWR | os.O_CREAT)
    except (ImportError, OSError):  # no locks on this system, or a read-only folder
        yield False
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            locked = True
        except OSError:  # a network disk
            locked = False
        yield locked
    finally:
        os.close(handle)


class _RecordFile:
    """The records of one file as this process knows them.  Only appended lines are read again."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self._lock = threading.Lock()
        self._reset((0, b""))

    def _reset(self, file: tuple[int, bytes]) -> None:
        self._file, self._at, self._line = file, 0, 1
        self._known: dict[str, Record] = {}

    def read(self) -> dict[str, Record]:
        """The records by their keys' ids.  Raises OSError."""
        with self._lock:
            with _locked(self._where, exclusive=False), open(open_file(self._where), "rb") as file:
                self._read_appended(file)
            return self._known

    def _read_appended(self, file: BinaryIO) -> None:
        about = os.fstat(file.fileno())
        if about.st_size > MAX_BYTES:
            raise _too_large(self._where, about.st_size)
        head = file.read(_HEAD_BYTES)
        if about.st_size < self._at or (about.st_ino, head) != self._file:
            self._reset((about.st_ino, head))
        if about.st_size == self._at:
            return
        file.seek(self._at)
        data = file.read(about.st_size - self._at)
        records, rejected = parse(data, self._line)
        self._known = self._known | {record.key.id: record for record in records}
        self._at, self._line = self._at + len(data), self._line + data.count(b"\n")
        if rejected:
            warn_rejected(self._where, rejected)


_record_file = functools.cache(_RecordFile)


# ---- warnings ----------------------------------------------------------------------------------------------------------------


def _too_large(where: Path, size: int) -> OSError:
    return OSError(errno.EFBIG, f"it has {size} bytes, of at most {MAX_BYTES}", str(where))


def format_rejected(rejected: list[RejectedLine]) -> str:
    """``line 3: its checksum is wrong; line 7: ...``."""
    named = "; ".join(f"line {line}: {why}" for line, why in rejected[:_NAMED_LINES])
    return named + (f"; and {len(rejected) - _NAMED_LINES} more" if len(rejected) > _NAMED_LINES else "")


def warn_rejected(where: Path, rejected: list[RejectedLine]) -> None:
    """Warn of the rejected lines of a file, with reasons."""
    count, they_are = ("a line of", "it is") if len(rejected) == 1 else (f"{len(rejected)} lines of", "they are")
    disk_cache.warn_once(f"{where} lines", f"{count} {where} cannot be used ({format_rejected(rejected)}); {they_are} left out")


def _warn_file(error: OSError) -> None:
    if isinstance(error, disk_cache.NoFolder):
        disk_cache.warn_once(f"tuning {error}", f"no tuning records are used ({error})")
        return
    why = error.strerror or str(error)
    where = error.filename or disk_cache.folder()
    disk_cache.warn_once(
        f"tuning {where} {why}", f"tuning records cannot be kept in {where} ({why}); those of this process are lost with it"
    )
