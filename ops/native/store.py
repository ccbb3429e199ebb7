"""The object store: compiled machine code on disk, found by a hash of everything that made it.

One file an entry, written to a temporary name and renamed, with a checksum inside: a damaged, foreign or unwritable
entry is a miss and one warning, never an error.  ``RELAYVM_CACHE_DIR`` names the folder.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from . import load as loader
from .compile import ObjectCode, compile_object, fingerprint, toolchain_fingerprint

_MAGIC = b"relayvm object 1\n"

#: What this process did: ``compiles``, ``disk_hits``, ``memory_hits``.
counters: Counter[str] = Counter()

#: Called with the name of what is about to be compiled (the command line shows progress).
on_compile: list[Callable[[str], None]] = []
#: Called with every use of the store, when it is over.
on_use: list[Callable[[Use], None]] = []

_addresses: dict[str, int] = {}
_lock = threading.Lock()


class Use(NamedTuple):
    """A function that was asked for: ``how`` is ``compiles``, ``disk_hits`` or ``memory_hits``; ``ns`` is what it took."""

    how: str
    name: str
    ns: int


class CacheWarning(UserWarning):
    """The cache folder cannot be used, or an entry is damaged; the run goes on."""


def folder() -> Path:
    """Where entries are kept: ``RELAYVM_CACHE_DIR``, else the user's cache folder."""
    named = os.environ.get("RELAYVM_CACHE_DIR")
    if named:
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_cache_dir("relayvm"))


@functools.cache
def _toolchain() -> str:
    return toolchain_fingerprint()


def address_of(function: Callable[..., Any], signature: str, name: str | None = None) -> int:
    """The address of the machine code of a ``@native`` function, compiled unless the store has it."""
    start = time.monotonic_ns()
    name = name or function.__name__
    key = hashlib.sha256(f"{_toolchain()} {fingerprint(function)} {signature}".encode()).hexdigest()
    with _lock:
        how, address = _found(key, function, signature, name)
        counters[how] += 1
        for listener in on_use:
            listener(Use(how, name, time.monotonic_ns() - start))
        return address


def _found(key: str, function: Callable[..., Any], signature: str, name: str) -> tuple[str, int]:
    """Which counter counts it, and the address."""
    if key in _addresses:
        return "memory_hits", _addresses[key]
    found = _read(key)
    address = _load(key, found) if found else None
    how = "disk_hits" if address is not None else "compiles"
    if address is None:
        for listener in on_compile:
            listener(name)
        made = compile_object(function, signature)
        _write(key, made)
        address = loader.load(made)
    _addresses[key] = address
    return how, address


@contextlib.contextmanager
def watched() -> Iterator[list[Use]]:
    """While this is open, every use of the store in this thread is added to the list that it gives."""
    uses: list[Use] = []
    thread = threading.get_ident()

    def listener(use: Use) -> None:
        if threading.get_ident() == thread:
            uses.append(use)

    on_use.append(listener)
    try:
        yield uses
    finally:
        on_use.remove(listener)


def _load(key: str, found: ObjectCode) -> int | None:
    try:
        return loader.load(found)
    except loader.LinkError as error:
        _warn(f"cache entry {key[:12]} cannot be used ({error}); compiling again")
        return None


@functools.cache
def _warn(message: str) -> None:
    warnings.warn(message, CacheWarning, stacklevel=4)


def _path(key: str) -> Path:
    return folder() / "objects" / key[:2] / key[2:]


def _read(key: str) -> ObjectCode | None:
    try:
        blob = _path(key).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        _warn(f"the cache cannot be read ({error}); compiling")
        return None
    head = len(_MAGIC) + 32
    if not blob.startswith(_MAGIC) or hashlib.sha256(blob[head:]).digest() != blob[len(_MAGIC) : head]:
        _warn(f"cache entry {key[:12]} is damaged; compiling again")
        return None
    size = int.from_bytes(blob[head : head + 4], "little")
    meta = json.loads(blob[head + 4 : head + 4 + size])
    return ObjectCode(meta["symbol"], blob[head + 4 + size :])


def _write(key: str, made: ObjectCode) -> None:
    meta = json.dumps({"symbol": made.symbol}).encode()
    body = len(meta).to_bytes(4, "little") + meta + made.code
    path = _path(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(body).digest() + body)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
    except OSError as error:
        # names the folder, not the entry: said once, however many kernels there are
        why = error.strerror or error
        _warn(f"the cache folder {folder()} cannot be written ({why}); kernels are compiled in every process")
