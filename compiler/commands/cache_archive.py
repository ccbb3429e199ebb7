"""``relayvm cache export`` and ``import``: the kernel cache as one file, for images and other machines of the same kind."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import tempfile
from pathlib import Path

from ...ops.native.cache import disk_cache
from ...ops.native.cache.cache_entry import DamagedEntry, Entry, unpack
from ...ops.native.cache.host_processor import FIELDS, host_processor
from ...vm.diagnostics.source import FileError, InputError

#: The folder of the entries in an archive.
_FOLDER = "relayvm-cache"
#: The field of a key that names the CPU, where code is for one.
_CPU = FIELDS[0]


def export_entries(out: Path) -> tuple[int, int]:
    """Write every whole entry of the cache to a tar archive: the numbers of entries and of bytes.

    The archive appears whole or not at all.  Raises FileError if it cannot be written, NoFolder, and InputError for a cache
    without entries.
    """
    files = sorted(disk_cache.entry_files(), key=lambda file: file.id)
    if not files:
        raise InputError(f"the cache {disk_cache.folder()} has no entries", help="run the programs first, with RELAYVM_CACHE_DIR")
    temporary, count, nbytes = "", 0, 0
    try:
        handle, temporary = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
        with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for found in files:
                with contextlib.suppress(DamagedEntry, FileNotFoundError):
                    disk_cache.check(found.path)
                    data = found.path.read_bytes()
                    member = tarfile.TarInfo(f"{_FOLDER}/{found.id}")
                    member.size, member.mode = len(data), 0o600
                    archive.addfile(member, io.BytesIO(data))
                    count, nbytes = count + 1, nbytes + len(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, out)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise FileError(f"cannot write {out}: {error.strerror or error}") from error
    return count, nbytes


def import_entries(archive: Path) -> dict[str, int]:
    """Store the entries of an archive: the numbers ``imported``, ``known`` before, and of both ``for_other_machines``.

    Raises FileError if the file cannot be read, InputError for a file that is no such archive, or has an entry that is damaged:
    then nothing more is stored.
    """
    counts = {"imported": 0, "known": 0, "for_other_machines": 0}
    try:
        with tarfile.open(archive, "r:*") as opened:
            for member in opened:
                entry = _entry(archive, opened, member)
                if disk_cache.is_stored(entry.key):
                    counts["known"] += 1
                elif disk_cache.write(entry):
                    counts["imported"] += 1
                else:
                    message = f"the entry {entry.key.id} cannot be stored in {disk_cache.folder()}"
                    raise FileError(message, help=f"its folder can be written, and {disk_cache.CAP_VARIABLE} is large enough")
                counts["for_other_machines"] += _is_foreign(entry)
    except tarfile.TarError as error:
        raise _no_archive(archive, str(error)) from error
    except OSError as error:
        raise FileError(f"cannot read {archive}: {error.strerror or error}") from error
    return counts


def _entry(archive: Path, opened: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
    """An entry of an archive, with its checksum verified.  Raises InputError."""
    folder, _, name = member.name.partition("/")
    file = opened.extractfile(member) if member.isreg() and folder == _FOLDER else None
    if file is None:
        raise _no_archive(archive, f"it has a member {member.name!r}")
    try:
        entry = unpack(file.read())
    except DamagedEntry as error:
        raise InputError(f"{archive}: the entry {name} cannot be used: {error}", help="export the cache again") from error
    if entry.key.id != name:
        raise InputError(f"{archive}: the entry {name} has the name of another entry", help="export the cache again")
    return entry


def _no_archive(archive: Path, why: str) -> InputError:
    return InputError(f"{archive} is no exported cache: {why}", help="`relayvm cache export` writes such a file")


def _is_foreign(entry: Entry) -> bool:
    """Whether the code is for another CPU than this machine's."""
    fields = dict(entry.key.fields)
    return _CPU in fields and any(fields.get(name) != value for name, value in host_processor().items() if name in fields)
