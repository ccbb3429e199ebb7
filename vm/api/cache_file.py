"""The file format of saved caches: compiled kernels of a program, tuning records, or both, for another process or machine.

::

    magic                                  8 bytes
    format version                         uint64; all numbers are little-endian
    bytes of header, entries               2 x uint64
    header                                 JSON, UTF-8: the fingerprint, the lengths of the entries, tuning records
    entries                                entries of the kernel cache, concatenated (see ``ops.native.cache.cache_entry``)
    SHA-256 of all bytes before            32 bytes

Tuning records are data.  Kernels are machine code, and a checksum does not authenticate their author: load kernels only from
sources that you trust to run programs.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...ops.native.cache import private_files
from ...ops.native.cache.cache_entry import DamagedEntry, Entry, pack, unpack
from ...ops.native.cache.cache_key import CacheKey
from ...ops.native.tuning import tuning_records as records
from ...ops.native.tuning.tuning_records import Record
from ..diagnostics.source import CacheMismatch

MAGIC = b"\x89RVC\r\n\x1a\n"
#: Version of the format, incremented with every incompatible change.
FORMAT_VERSION = 1
#: Largest size of a saved cache.
MAX_BYTES = 1 << 30
_HEAD = struct.Struct("<8s3Q")
_CHECKSUM_BYTES = hashlib.sha256().digest_size


@frozen
class Bundle:
    """Contents of a saved cache.  ``made_for``: the fingerprint of the program and of the machine that saved it."""

    made_for: CacheKey
    entries: tuple[Entry, ...] = ()
    records: tuple[Record, ...] = ()

    def to_bytes(self) -> bytes:
        """Serialise to the contents of a file; equal bundles have equal bytes."""
        packed = [pack(entry) for entry in self.entries]
        header = json.dumps(
            {
                "made_for": self.made_for.fields,
                "entries": [len(blob) for blob in packed],
                "records": b"".join(record.line() for record in self.records).decode(),
            }
        ).encode()
        body = b"".join((_HEAD.pack(MAGIC, FORMAT_VERSION, len(header), sum(map(len, packed))), header, *packed))
        return body + hashlib.sha256(body).digest()

    @staticmethod
    def from_bytes(data: bytes) -> Bundle:
        """Deserialise the contents of a file.  Raises CacheMismatch with the reason if ``data`` is no bundle of this version."""
        header_bytes, _ = _check_size(data[: _HEAD.size], len(data))
        if hashlib.sha256(memoryview(data)[:-_CHECKSUM_BYTES]).digest() != data[-_CHECKSUM_BYTES:]:
            raise CacheMismatch("it is damaged: its checksum does not match its contents")
        entries_at = _HEAD.size + header_bytes
        try:
            header = json.loads(data[_HEAD.size : entries_at])
            entries = tuple(map(unpack, _cut(data[entries_at:-_CHECKSUM_BYTES], header["entries"])))
            found, refused = records.parse(header["records"].encode())
            made_for = CacheKey(tuple((_text(name), _text(value)) for name, value in header["made_for"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, DamagedEntry) as error:
            raise CacheMismatch("it is damaged: its contents do not make sense") from error
        if refused:
            raise CacheMismatch(f"its tuning records cannot be used: {records.format_rejected(refused)}")
        return Bundle(made_for, entries, tuple(found))


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r} is no text")
    value.encode()  # raises UnicodeEncodeError, a ValueError, for a lone surrogate, which cannot be printed
    return value


def _cut(data: bytes, lengths: list[int]) -> Iterator[bytes]:
    at = 0
    for length in lengths:
        if type(length) is not int or not 0 < length <= len(data) - at:
            raise ValueError("an entry lies beyond the end")
        yield data[at : at + length]
        at += length
    if at != len(data):
        raise ValueError("bytes lie behind the last entry")


def _check_size(head: bytes, size: int) -> tuple[int, int]:
    """The sizes of the sections declared in ``head``, checked against a file of ``size`` bytes."""
    if size > MAX_BYTES:
        raise CacheMismatch(f"it has {size} bytes, of at most {MAX_BYTES}")
    if not head.startswith(MAGIC):
        raise CacheMismatch("it is no saved cache")
    if size < _HEAD.size:
        raise CacheMismatch(f"it is truncated: it ends after {size} bytes, within its first {_HEAD.size}")
    _, version, *sizes = _HEAD.unpack(head)
    if version != FORMAT_VERSION:
        age = "a newer" if version > FORMAT_VERSION else "an older"
        raise CacheMismatch(
            f"it has the format version {version}, made by {age} relayvm; this one reads version {FORMAT_VERSION}"
        )
    expected = _HEAD.size + sum(sizes) + _CHECKSUM_BYTES
    if expected != size:
        raise CacheMismatch(f"it is truncated or damaged: it has {size} bytes, not {expected}")
    return tuple(sizes)


def read(path: Path, trusted: bool = True) -> Bundle:
    """Read the bundle in a file.

    ``trusted``: whether machine code of the file will run, so that no other user may be able to change the file.  Raises OSError
    if the file cannot be read, and CacheMismatch, whose message leaves out the file's name.
    """
    try:
        opened: int | Path = private_files.open_named(path) if trusted else path
    except private_files.NotPrivate as error:
        raise CacheMismatch(f"it holds machine code, and is not yours alone: {error}") from error
    with open(opened, "rb") as file:
        # the declared sizes are compared with the size of the file before the sections are read
        size = os.fstat(file.fileno()).st_size
        head = file.read(_HEAD.size)
        _check_size(head, size)
        return Bundle.from_bytes(head + file.read(size - len(head)))
