"""The kernel cache: compiled machine code in this process and on disk, found by everything that made it.

In the process, each key is compiled once, however many threads ask for it at the same time (``SingleFlight``); different
keys compile in parallel where their compiler does.  Nothing is dropped from this level: kernels are compiled for all
shapes, so their number is that of the kernels in the programs.  What lies on disk, and where: ``disk``.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from . import disk
from . import load as loader
from .cache_key import CacheKey
from .compile import ObjectCode, compile_object, fingerprint, toolchain_fields
from .disk import CacheWarning, folder
from .entry import Entry

__all__ = [
    "CacheWarning", "Use", "address_of", "asked", "counters", "entry_of", "folder", "kept", "offer", "on_compile", "on_use",
    "toolchain", "watched", "watched_keys",
]  # fmt: skip

T = TypeVar("T")

#: What this process did.  Every use is one of ``compiles`` (of which ``nvrtc_compiles`` by a CUDA compiler), ``disk_hits``
#: and ``memory_hits``; ``bytes_read`` and ``bytes_written`` are of files of the cache.
counters: Counter[str] = Counter()

#: Called with the name of what is about to be compiled (the command line shows progress), by the thread that compiles.
on_compile: list[Callable[[str], None]] = []
#: Called with every use of the store, when it is over, by the thread that asked.
on_use: list[Callable[[Use], None]] = []

_watchers: contextvars.ContextVar[tuple[Callable[[Use, CacheKey], object], ...]] = contextvars.ContextVar("watchers", default=())
#: Every key that was asked for in this process.
asked: dict[CacheKey, None] = {}
#: Entries that were brought along (see ``offer``), by their ids.
_offered: dict[str, Entry] = {}
_counting = threading.Lock()


class Use(NamedTuple):
    """A function that was asked for: ``how`` is ``compiles``, ``disk_hits`` or ``memory_hits``; ``ns`` is what it took."""

    how: str
    name: str
    ns: int


class SingleFlight(Generic[T]):
    """Values by key, each made once: a thread that wants what another is making waits for it."""

    def __init__(self) -> None:
        self._made: dict[str, T] = {}
        self._being_made: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], T]) -> tuple[T, bool]:
        """The value, and whether this call made it.  Where ``make`` raises, so does this, and the next thread tries."""
        while True:
            with self._lock:
                if key in self._made:
                    return self._made[key], False
                done = self._being_made.get(key)
                if done is None:
                    done = self._being_made[key] = threading.Event()
                    break
            done.wait()
        try:
            value = make()
            with self._lock:
                self._made[key] = value
            return value, True
        finally:
            with self._lock:
                del self._being_made[key]
            done.set()


_addresses: SingleFlight[int] = SingleFlight()
_payloads: SingleFlight[bytes] = SingleFlight()
_loading = threading.Lock()


@functools.cache
def toolchain() -> dict[str, str]:
    """What turns functions into code here, by name (see ``compile.toolchain_fields``)."""
    return toolchain_fields()


def address_of(function: Callable[..., Any], signature: str, name: str | None = None) -> int:
    """The address of the machine code of a ``@native`` function, compiled unless the store has it."""
    name = name or function.__name__
    key = CacheKey.of("object", {"source": fingerprint(function), "signature": signature, **toolchain()})

    def compiled() -> tuple[str, bytes]:
        made = compile_object(function, signature)
        return made.symbol, made.code

    return _used(_addresses, key, name, lambda: _obtained(key, name, compiled, _loaded))


def kept(key: CacheKey, name: str, make: Callable[[], bytes]) -> bytes:
    """The bytes of this key from the process or the disk, else what ``make`` returns, which is then kept.

    ``name`` is for people.  Raises what ``make`` raises.
    """
    return _used(_payloads, key, name, lambda: _obtained(key, name, lambda: ("", make()), lambda entry: entry.payload))


def _used(level: SingleFlight[T], key: CacheKey, name: str, obtain: Callable[[], tuple[str, T]]) -> T:
    """The value of ``key`` in the process; counts the use and tells it to who listens."""
    start, how = time.monotonic_ns(), "memory_hits"

    def make() -> T:
        nonlocal how
        how, value = obtain()
        return value

    value, _ = level.get(key.id, make)
    with _counting:
        counters[how] += 1
        asked.setdefault(key)
    use = Use(how, name, time.monotonic_ns() - start)
    for watcher in _watchers.get():
        watcher(use, key)
    for listener in tuple(on_use):
        listener(use)
    return value


def _obtained(key: CacheKey, name: str, make: Callable[[], tuple[str, bytes]], usable: Callable[[Entry], T]) -> tuple[str, T]:
    """From the disk, else made and written: which counter counts it, and what ``usable`` makes of the entry."""
    found = _offered.get(key.id) or disk.read(key)
    if found is not None:
        with _counting:
            counters["bytes_read"] += len(found.payload)
        try:
            return "disk_hits", usable(found)
        except loader.LinkError as error:
            disk.warn_unusable(key, error)
    for listener in tuple(on_compile):
        listener(name)
    entry = Entry(key, name, *make())
    written = disk.write(entry)
    with _counting:
        counters["bytes_written"] += written
        counters["nvrtc_compiles"] += key.kind == "cubin"
    return "compiles", usable(entry)


def _loaded(entry: Entry) -> int:
    """The address of object code, mapped into this process.  Raises LinkError."""
    with _loading:
        return loader.load(ObjectCode(entry.symbol, entry.payload))


def offer(entry: Entry) -> None:
    """Use this entry, which was compiled elsewhere for the same key, and keep it.  Whoever made it is trusted: it is code."""
    _offered[entry.key.id] = entry
    disk.write(entry)


def entry_of(key: CacheKey) -> Entry | None:
    """The entry of a key as it can be taken along; None where it is not kept."""
    return _offered.get(key.id) or disk.read(key)


@contextlib.contextmanager
def watched() -> Iterator[list[Use]]:
    """While this is open, every use of the store in this thread, or on its behalf, is added to the list that it gives."""
    uses: list[Use] = []
    with _watching(lambda use, key: uses.append(use)):
        yield uses


@contextlib.contextmanager
def watched_keys() -> Iterator[dict[CacheKey, None]]:
    """The same for the keys that are used, each once."""
    keys: dict[CacheKey, None] = {}
    with _watching(lambda use, key: keys.setdefault(key)):
        yield keys


@contextlib.contextmanager
def _watching(watcher: Callable[[Use, CacheKey], object]) -> Iterator[None]:
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)
