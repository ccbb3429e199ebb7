"""The kernel store: compiled machine code in this process and on disk, keyed by everything that determines it.

In the process, each key is compiled once, for any number of threads that ask for it at the same time (``SingleFlight``).
Different keys compile in parallel if their compiler does.  Nothing is evicted from this level: kernels are compiled for all
shapes, so their number is the number of kernels in the programs.  The level on disk is ``disk_cache``.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from ..cache import disk_cache
from ..cache.cache_entry import Entry
from ..cache.cache_key import CacheKey
from ..cache.disk_cache import CacheWarning, folder
from ..cache.file_locks import one_at_a_time
from ..code_parts import Part
from ..given_literals import filled
from ..jit.native_compiler import (
    OPTIMIZED,
    UNOPTIMIZED,
    Levels,
    ObjectCode,
    compile_object,
    compile_part,
    compile_parts,
    options,
    toolchain_fields,
)
from ..linking import linker as loader
from .function_fingerprint import fingerprint

__all__ = [
    "CacheWarning",
    "Shared",
    "Use",
    "address_at",
    "address_of",
    "address_of_entry",
    "counters",
    "entry_of",
    "folder",
    "function_name",
    "get_or_make",
    "is_stored",
    "know",
    "object_key",
    "obtain_parts",
    "obtain_shared",
    "offer",
    "on_compile",
    "on_object",
    "on_use",
    "requested",
    "source_key",
    "toolchain",
    "tracked_keys",
    "tracked_uses",
]  # fmt: skip

T = TypeVar("T")

#: The name of entries with code that kernels share which differ in literals.
SHARED = "without literals"
#: Counters of this process.  Every use is one of ``compiles`` (of which ``nvrtc_compiles`` by a CUDA compiler), ``disk_hits`` and
#: ``memory_hits``; ``bytes_read`` and ``bytes_written`` count files of the cache.
counters: Counter[str] = Counter()

#: Callbacks before a compilation, with the name of its function (the command line shows progress), in the compiling thread.
on_compile: list[Callable[[str], None]] = []
#: Callbacks before LLVM compiles code, of one kernel or of kernels that differ in literals.  A kernel that takes code which is
#: there already has no such call.
on_object: list[Callable[[], None]] = []
#: Callbacks after every use of the store, in the thread that asked.
on_use: list[Callable[[Use], None]] = []

_watchers: contextvars.ContextVar[tuple[Callable[[Use, CacheKey], object], ...]] = contextvars.ContextVar("watchers", default=())
#: Every key that was asked for in this process.
requested: dict[CacheKey, None] = {}
#: Entries that an executable brought along (see ``offer``), by their ids.
_offered: dict[str, Entry] = {}
#: The ids of entries of this package's functions (see ``know``).
_known: dict[str, str] = {}
_counting = threading.Lock()


class Use(NamedTuple):
    """A use of the store: ``how`` is ``compiles``, ``disk_hits`` or ``memory_hits``; ``ns`` is the time it took."""

    how: str
    name: str
    ns: int


class SingleFlight(Generic[T]):
    """Values by key, each made once: a thread that asks for a value in the making waits for it."""

    def __init__(self) -> None:
        self._values: dict[str, T] = {}
        self._pending: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], T]) -> tuple[T, bool]:
        """The value, and whether this call made it.  An exception of ``make`` is raised here, and the next thread tries again."""
        while True:
            with self._lock:
                if key in self._values:
                    return self._values[key], False
                done = self._pending.get(key)
                if done is None:
                    done = self._pending[key] = threading.Event()
                    break
            done.wait()
        try:
            value = make()
            with self._lock:
                self._values[key] = value
            return value, True
        finally:
            with self._lock:
                del self._pending[key]
            done.set()


_addresses: SingleFlight[int] = SingleFlight()
_payloads: SingleFlight[bytes] = SingleFlight()
_parts: SingleFlight[bytes] = SingleFlight()
_shared_code: SingleFlight[Entry] = SingleFlight()
_loading = threading.Lock()


@functools.cache
def toolchain() -> dict[str, str]:
    """The toolchain that compiles functions here, by name (see ``native_compiler.toolchain_fields``)."""
    return toolchain_fields()


def object_key(function: Callable[..., Any], signature: str, levels: Levels = OPTIMIZED) -> CacheKey:
    """The key of the machine code of a ``@native`` function."""
    return source_key(fingerprint(function), signature, levels)


def source_key(source: str, signature: str, levels: Levels) -> CacheKey:
    """The key of the machine code of a function; ``source`` is a hash of all that determines its behaviour."""
    return CacheKey.of("object", {"source": source, "signature": signature, **toolchain(), "options": options(levels)})


def function_name(function: Callable[..., Any], signature: str) -> str:
    """The name of a ``@native`` function with its signature, in ``know``."""
    return f"{function.__module__}.{function.__qualname__} {signature}"


def know(functions: Mapping[str, str]) -> None:
    """Learn the ids of the entries of functions of this package, by ``function_name``, so that no fingerprint is computed."""
    _known.update(functions)


def address_of_entry(key_id: str, name: str) -> int | None:
    """The address of the machine code of the entry with this id; None unless the store has the entry."""
    entry = _offered.get(key_id) or disk_cache.read_id(key_id)
    if entry is None:
        return None
    with _counting:
        counters["bytes_read"] += len(entry.payload)
    try:
        return _get_counted(_addresses, entry.key, name, lambda: ("disk_hits", _map_code(entry)))
    except loader.LinkError as error:
        disk_cache.warn_unusable(entry.key, error)
        return None


def address_of(function: Callable[..., Any], signature: str, name: str | None = None, levels: Levels = OPTIMIZED) -> int:
    """The address of the machine code of a ``@native`` function, compiled unless the store has it."""
    known = _known.get(function_name(function, signature)) if levels != UNOPTIMIZED else None
    address = None if known is None else address_of_entry(known, name or function.__name__)
    if address is not None:
        return address
    key = object_key(function, signature, levels)
    return address_at(key, name or function.__name__, lambda: function, signature, levels)


class Shared(NamedTuple):
    """The machine code that kernels with other literals share, at its own key (see ``given_literals``)."""

    key: CacheKey
    define: Callable[[], Callable[..., Any]]
    literals: tuple[float | int, ...]


def address_at(
    key: CacheKey, name: str, define: Callable[[], Callable[..., Any]], signature: str, levels: Levels,
    shared: Callable[[], Shared | None] = lambda: None,
) -> int:  # fmt: skip
    """The address of the machine code at a key; unless the store has it, the ``@native`` function of ``define`` is compiled.

    ``shared``: the same function without its literals, whose code is taken where it is compiled already.
    """

    def compiled() -> tuple[str, bytes]:
        with_literals = shared()
        if with_literals is not None:
            entry = _code_of_shared(with_literals, signature, levels)
            code = filled(bytes(entry.payload), with_literals.literals)
            if code is not None:
                return entry.symbol, code
        made = _object(define, signature, levels)
        return made.symbol, made.code

    return _get_counted(_addresses, key, name, lambda: _load_or_make(key, name, compiled, _map_code))


def _code_of_shared(shared: Shared, signature: str, levels: Levels) -> Entry:
    """The entry of code without literals, compiled unless the process or the disk has it.  Not counted: kernels are."""

    def make() -> Entry:
        made = _object(shared.define, signature, levels)
        return Entry(shared.key, SHARED, made.symbol, made.code)

    return _shared_code.get(shared.key.id, lambda: _once_of_all(shared.key, make))[0]


def _object(define: Callable[[], Callable[..., Any]], signature: str, levels: Levels) -> ObjectCode:
    """The object code of a function and its parts."""
    for listener in tuple(on_object):
        listener()
    return compile_object(define(), signature, levels, _code_of_part)


def _code_of_part(part: Part, levels: Levels) -> bytes:
    """The object of a part, compiled unless the process or the disk has it.  Not counted: kernels contain their parts."""
    key = source_key(fingerprint(part.function), f"part {part.symbol}", levels)

    def make() -> Entry:
        return Entry(key, f"part {part.symbol}", "", compile_part(part, levels, _code_of_part))

    return _parts.get(key.id, lambda: bytes(_once_of_all(key, make).payload))[0]


def _once_of_all(key: CacheKey, make: Callable[[], Entry]) -> Entry:
    """The entry of the disk, else that of ``make``, which is written: one process makes it while others wait."""
    found = disk_cache.read(key)
    if found is None:
        with one_at_a_time(key):
            found = disk_cache.read(key)
            if found is None:
                found = make()
                disk_cache.write(found)
    return found


def obtain_parts(function: Callable[..., Any], signature: str) -> None:
    """Store the parts of a ``@native`` function, as kernels link them; its own code is not compiled."""
    compile_parts(function, signature, OPTIMIZED, _code_of_part)


def obtain_shared(shared: Shared, signature: str) -> None:
    """Store the machine code that kernels with other literals share; no kernel is made of it."""
    _code_of_shared(shared, signature, OPTIMIZED)


def get_or_make(key: CacheKey, name: str, make: Callable[[], bytes]) -> bytes:
    """The bytes of this key from the process or the disk, else the result of ``make``, which is then stored.

    ``name`` is for people.  Raises the exceptions of ``make``.
    """
    return _get_counted(
        _payloads, key, name, lambda: _load_or_make(key, name, lambda: ("", make()), lambda entry: bytes(entry.payload))
    )


def _get_counted(level: SingleFlight[T], key: CacheKey, name: str, obtain: Callable[[], tuple[str, T]]) -> T:
    """The value of ``key`` in the process.  Counts the use and calls the ``on_use`` callbacks."""
    start, how = time.monotonic_ns(), "memory_hits"

    def make() -> T:
        nonlocal how
        how, value = obtain()
        return value

    value, _ = level.get(key.id, make)
    with _counting:
        counters[how] += 1
        requested.setdefault(key)
    use = Use(how, name, time.monotonic_ns() - start)
    for watcher in _watchers.get():
        watcher(use, key)
    for listener in tuple(on_use):
        listener(use)
    return value


def _load_or_make(key: CacheKey, name: str, make: Callable[[], tuple[str, bytes]], usable: Callable[[Entry], T]) -> tuple[str, T]:
    """Load from the disk, else make and write: the name of the counter, and the result of ``usable`` for the entry."""
    found = _offered.get(key.id) or disk_cache.read(key)
    if found is not None:
        with _counting:
            counters["bytes_read"] += len(found.payload)
        try:
            return "disk_hits", usable(found)
        except loader.LinkError as error:
            disk_cache.warn_unusable(key, error)
    for listener in tuple(on_compile):
        listener(name)
    entry = Entry(key, name, *make())
    written = disk_cache.write(entry)
    with _counting:
        counters["bytes_written"] += written
        counters["nvrtc_compiles"] += key.kind == "cubin"
    return "compiles", usable(entry)


def _map_code(entry: Entry) -> int:
    """The address of object code, mapped into this process.  Raises LinkError."""
    with _loading:
        return loader.load(ObjectCode(entry.symbol, bytes(entry.payload)))


def is_stored(key: CacheKey) -> bool:
    """Whether the store has code at a key, as far as can be told without reading it."""
    return key.id in _offered or disk_cache.is_stored(key)


def offer(entry: Entry) -> None:
    """Store this entry, compiled elsewhere for the same key.  Its origin must be trusted: the entry is executable code."""
    _offered[entry.key.id] = entry
    disk_cache.write(entry)


def entry_of(key: CacheKey) -> Entry | None:
    """The entry of a key, to be stored with an executable; None if the store does not have it."""
    return _offered.get(key.id) or disk_cache.read(key)


@contextlib.contextmanager
def tracked_uses() -> Iterator[list[Use]]:
    """Record every use of the store in this thread, or on its behalf, in the list that this context manager yields."""
    uses: list[Use] = []
    with _tracking(lambda use, key: uses.append(use)):
        yield uses


@contextlib.contextmanager
def tracked_keys() -> Iterator[dict[CacheKey, None]]:
    """As ``tracked_uses``, for the keys that are used, each once."""
    keys: dict[CacheKey, None] = {}
    with _tracking(lambda use, key: keys.setdefault(key)):
        yield keys


@contextlib.contextmanager
def _tracking(watcher: Callable[[Use, CacheKey], object]) -> Iterator[None]:
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)
