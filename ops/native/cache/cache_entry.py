"""One file of the kernel cache: a key, the machine code stored under it, and a checksum over both.

    magic, SHA-256 of the rest, length of the header (4 bytes, little-endian), header (JSON, blanks), code

Blanks end the header so that the code begins at a multiple of 64 bytes.

Reading is slicing and JSON: nothing is ever unpickled, and no part of a damaged file is used.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable
from itertools import chain
from typing import BinaryIO, NamedTuple, TypeVar

from .cache_key import CacheKey

_MAGIC = b"relayvm cache 2\n"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size
_ALIGNMENT = 64
_T = TypeVar("_T")
_WRONG_CHECKSUM = "its checksum is wrong"


class DamagedEntry(Exception):
    """Bytes that are not a whole entry of the cache."""


class Entry(NamedTuple):
    """Contents of a cache file.

    ``name`` is for people; ``symbol`` is the entry point of the code, where there is a fixed one.
    """

    key: CacheKey
    name: str
    symbol: str
    payload: bytes | memoryview


def pack(entry: Entry) -> bytes:
    """Serialize an entry to the bytes of a file."""
    body = _header(entry) + entry.payload
    return _MAGIC + hashlib.sha256(body).digest() + body


def _header(entry: Entry) -> bytes:
    """The bytes between the checksum and the payload."""
    header = json.dumps({"fields": entry.key.fields, "name": entry.name, "symbol": entry.symbol}).encode()
    header += b" " * (-(_HEAD + 4 + len(header)) % _ALIGNMENT)
    return len(header).to_bytes(4, "little") + header


def write_chunks(file: BinaryIO, entry: Entry, chunks: Iterable[bytes | memoryview]) -> int:
    """Write an entry whose payload is ``chunks``, never all in memory; the number of bytes.  The file can be sought in."""
    file.write(_MAGIC + bytes(hashlib.sha256().digest_size))
    digest, size = hashlib.sha256(), _HEAD
    for chunk in chain([_header(entry)], chunks):
        digest.update(chunk)
        size += file.write(chunk)
    file.seek(len(_MAGIC))
    file.write(digest.digest())
    return size


def unpack(blob: bytes) -> Entry:
    """Parse the bytes of a file.  Raises DamagedEntry."""
    view = memoryview(blob)
    _check_magic(view)
    if not _is_whole(view):
        raise DamagedEntry(_WRONG_CHECKSUM)
    entry = _parsed(view)
    return entry._replace(payload=bytes(entry.payload))


def use_while_checked(view: memoryview, use: Callable[[Entry], _T]) -> _T:
    """The result of ``use`` for the entry in the bytes of a file, whose checksum is compared in a thread meanwhile.

    The payload is a view of the bytes.  ``use`` may get damaged bytes: it changes nothing, and its result or exception is dropped
    then.  Raises DamagedEntry, and exceptions of ``use``.
    """
    _check_magic(view)
    checked: list[bool] = []
    checking = threading.Thread(target=lambda: checked.append(_is_whole(view)))
    checking.start()
    try:
        return use(_parsed(view))
    finally:
        checking.join()
        if checked != [True]:
            raise DamagedEntry(_WRONG_CHECKSUM)


def _check_magic(view: memoryview) -> None:
    if view[: len(_MAGIC)] != _MAGIC:
        raise DamagedEntry("it is not an entry of this cache")


def _is_whole(view: memoryview) -> bool:
    return hashlib.sha256(view[_HEAD:]).digest() == view[len(_MAGIC) : _HEAD]


def _parsed(view: memoryview) -> Entry:
    """The entry in the bytes of a file; the payload is a view."""
    body = view[_HEAD:]
    try:
        end = 4 + int.from_bytes(body[:4], "little")
        header = json.loads(bytes(body[4:end]))
        key = CacheKey(tuple((str(name), str(value)) for name, value in header["fields"]))
        entry = Entry(key, str(header["name"]), str(header["symbol"]), body[end:])
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedEntry("its header cannot be read") from error  # of bytes with a right checksum only where they were crafted
    if not key.fields:
        raise DamagedEntry("its key is empty")
    return entry
