"""The cache of executables: a program's file that was compiled before is loaded from the folder of the kernel cache.

An entry is one file of the kernel cache (see docs/cache.md), under a key of everything that the compiler reads: the contents of
the file (a text or a model), its path, the device, the configuration, the tuning records, the machine, and the sources of this
package.  The data files of a model are named by the model itself, so their digests are in the entry, and are compared when it is
read.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np

from ..ops.native.cache import disk_cache
from ..ops.native.cache.cache_entry import Entry
from ..ops.native.cache.cache_key import CacheKey
from ..ops.native.cache.installed_version import installed_version
from ..ops.native.compiled import kernel_store
from ..ops.native.file_pages import release_pages
from ..ops.native.tuning import tuning_records
from ..ops.native.tuning.fingerprint import NONE
from ..ops.registration.custom_op import has_own_declarations
from ..vm import thread_count
from ..vm.api.executable import Executable
from ..vm.bytecode.executable_file import from_cache, sections
from ..vm.bytecode.trusted import register
from ..vm.bytecode.verify import verify
from ..vm.diagnostics.source import ExecutableFormatError
from ..vm.loading.executable_fingerprint import code_fields, machine_fields
from ..vm.machine import machine_code
from ..vm.runtime.kernels.prepared import Prepared, remember
from .inputs.model_files import is_model_file
from .remembered_digests import remembered
from .settings.config import Config
from .tuning.settings import OFF, Tuning

#: The kind of an entry.
EXECUTABLE = "executable"
#: The share of the cache's cap that one executable may take: the kernels of other programs stay.
LARGEST_SHARE = 4
#: The least bytes of a file whose digest is remembered.
_LARGE = 1 << 20
#: The executable begins at a multiple of so many bytes.
_ALIGNMENT = 64
#: Executables of so many bytes of weights are written by a thread, while the process obtains the kernels.
_MANY_BYTES = 16 << 20
_writing: list[threading.Thread] = []
#: Counters of this process: ``hits``, ``misses``, ``writes``.
counters: Counter[str] = Counter()

#: The folder of the package.
PACKAGE = Path(__file__).resolve().parents[1]
#: The folders of the package, and the suffixes of files that decide what the compiler emits.
FOLDERS, _SUFFIXES = ("compiler", "declarations", "ops", "shape_funcs", "vm"), (".py", ".lark", ".rly")
#: Two changes within this time may have the same time: clocks of file systems tick every few milliseconds, of some each second.
_LATELY_NS = 5 * 10**9
#: Source files that change later than this may differ from the loaded modules.
_LOADED_NS = time.time_ns()


def cached(
    path: Path, target: str, settings: Config, tuning: Tuning, compiled: Callable[[], tuple[Executable, Mapping[str, Path]]]
) -> Executable:
    """The executable of a program's file from the cache, else the result of ``compiled``, which is then stored.

    ``compiled`` returns a model's data files, too, by their paths from its folder.
    """
    _end_writing()
    state = _state_of(path)
    key = key_of(path, target, settings, tuning)
    found = None if key is None else _read(key, path.parent)
    if found is not None:
        counters["hits"] += 1
        return found
    counters["misses"] += 1
    exe, files = compiled()
    program = None if key is None or state is None or state != _state_of(path) else dict(key.fields)["program"]
    if key is not None and key == key_of(path, target, settings, tuning, program):  # the file was not replaced meanwhile
        _write(key, exe, path, files)
    return exe


# ---- the key -----------------------------------------------------------------------------------------------------------------


def key_of(path: Path, target: str, settings: Config, tuning: Tuning, program: str | None = None) -> CacheKey | None:
    """The key of an executable; None if the file cannot be read, or its executable depends on more than the key.

    ``program``: the digest of the file, if it is known.
    """
    sources, digest, is_model = source_digest(), program or _digest_of(path), is_model_file(path)
    if sources is None or digest is None or has_own_declarations() or (is_model and _has_foreign_converters()):
        return None
    onnx = _version_of_onnx() if is_model else NONE
    if onnx is None:
        return None
    fields = {
        "program": digest,
        "path": str(path),
        "config": ",".join(f"{key}={value}" for key, value in settings.texts().items()),
        "records": NONE if tuning.mode == OFF else _records(),
        "sources": sources,
        "onnx": onnx,
        **machine_fields(target, ["blas"]),
        **code_fields(target),
    }
    return CacheKey.of(EXECUTABLE, fields)


def _digest_of(path: Path) -> str | None:
    """The SHA-256 of a file, that of a large one as an equal state of the file had it; None if it cannot be read."""
    state = _state_of(path)
    if state is None or path.stat().st_size < _LARGE:
        return _read_digest(path)

    def read() -> str | None:
        digest = _read_digest(path)
        return digest if _state_of(path) == state else None

    return remembered(str(path.resolve()), state, read) or _read_digest(path)


def _read_digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return None  # the importer or the parser reports it


def _state_of(path: Path) -> tuple[int, ...] | None:
    """Numbers that change with a file's contents; None if the file changed so lately that its times may not tell."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < _LATELY_NS:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _has_foreign_converters() -> bool:
    """Whether an operator of ONNX is converted by code outside of this package."""
    from .onnx_frontend.operator_table import declared_operators  # not for texts

    own = __name__.partition(".")[0] + "."
    return any(not c.convert.__module__.startswith(own) for _, _, versions in declared_operators() for c in versions)


def _records() -> str:
    """A digest of the tuning records."""
    found = sorted((id_, json.dumps(dict(record.data), sort_keys=True)) for id_, record in tuning_records.load().items())
    return hashlib.sha256(json.dumps(found).encode()).hexdigest() if found else NONE


def _version_of_onnx() -> str | None:
    """The version of the package that reads models; None without it, which the importer reports."""
    try:
        return installed_version("onnx")
    except ModuleNotFoundError:
        return None


@functools.cache
def source_digest() -> str | None:
    """A digest of this package's source files; None if they changed after this process loaded them.

    It is remembered by the states of all files: the size, and the times of the last changes of contents and of the file's entry.
    """
    found = sorted(state for name in FOLDERS for state in _states(PACKAGE / name))
    if any(changed > _LOADED_NS for _, _, changed, _ in found):
        return None

    def read() -> str:
        digest = hashlib.sha256()
        for path, *_ in found:
            with open(path, "rb", buffering=0) as file:
                text = file.read()
            digest.update(f"{path.removeprefix(str(PACKAGE))} {len(text)} ".encode())
            digest.update(text)
        return digest.hexdigest()

    return remembered("sources", hashlib.sha256(repr(found).encode()).hexdigest(), read)


def _states(folder: Path) -> Iterator[tuple[str, int, int, int]]:
    """Path, size and times (of the contents, of the entry) of the source files in a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name != "__pycache__" and entry.is_dir():
                yield from _states(Path(entry.path))
            elif entry.name.endswith(_SUFFIXES):
                state = entry.stat()
                yield entry.path, state.st_size, state.st_mtime_ns, state.st_ctime_ns


# ---- an entry ----------------------------------------------------------------------------------------------------------------


def _read(key: CacheKey, folder: Path) -> Executable | None:
    """The executable of an entry; None without an entry, and if a data file of the model changed."""
    try:
        found = disk_cache.read_mapped(key, _parsed)
    except ExecutableFormatError as error:
        disk_cache.warn_unusable(key, error.diagnostics[0].message)
        return None
    if found is None:
        return None
    exe, prepared, files = found
    if any(_digest_of(folder / name) != digest for name, digest in files.items()):
        return None
    register(exe)
    if prepared is not None:
        kernel_store.know(prepared.functions)
        remember(exe, prepared)
    return exe


def _parsed(entry: Entry) -> tuple[Executable, Prepared | None, Mapping[str, str]]:
    """The executable of an entry, its kernels, and the digests of the model's data files."""
    length = int.from_bytes(entry.payload[:8], "little")
    head = json.loads(bytes(entry.payload[8 : 8 + length]))
    exe = from_cache(memoryview(entry.payload)[8 + length :], Executable)
    if len(entry.payload) >= _MANY_BYTES:
        # the checksum takes longer than all this, and most processes run the executable
        from ..vm.api import machine as machine
    return exe, None if head["prepared"] is None else Prepared.from_json(head["prepared"]), head["files"]


def _write(key: CacheKey, exe: Executable, path: Path, files: Mapping[str, Path]) -> None:
    weights = [c for c in exe.constants if isinstance(c, np.ndarray)]
    largest, nbytes = disk_cache.cap() // LARGEST_SHARE, sum(c.nbytes for c in weights)
    if nbytes > largest:  # and mapped weights are not read
        if disk_cache.cap():
            _say_too_large(path, nbytes, largest)
        return
    verify(exe)  # readers do not verify it again
    digests = {name: _digest_of(file) for name, file in files.items()}
    found = machine_code.prepared(exe)
    head = json.dumps({"files": digests, "prepared": None if found is None else found.to_json()}).encode()
    head += b" " * (-(8 + len(head)) % _ALIGNMENT)  # constants are aligned in the file, and mapped
    rest = sections(exe, for_cache=True)  # views of the weights
    chunks = [len(head).to_bytes(8, "little"), head, next(rest)]
    if None in digests.values() or sum(map(len, chunks)) + nbytes > largest:
        return

    def write() -> None:
        counters["writes"] += bool(disk_cache.write_in_chunks(Entry(key, path.name, "", b""), chain(chunks, rest)))
        for weight in weights:
            release_pages(weight)

    if nbytes >= _MANY_BYTES and thread_count.get_num_threads() > 1:
        _writing.append(threading.Thread(target=write))  # the process waits for it when it ends
        _writing[-1].start()
    else:
        write()


def _end_writing() -> None:
    """Wait until what this process writes can be read."""
    while _writing:
        _writing.pop().join()


def _say_too_large(path: Path, nbytes: int, largest: int) -> None:
    """Warn once in a process and for a file that its executable is compiled again each time."""
    limit = f"the cache keeps executables of at most {largest / 1e6:.0f} MB, a quarter of its cap"
    least = -(-nbytes * LARGEST_SHARE * 11 // 10 // 10**9)  # a tenth for all but the weights
    remedy = f"{disk_cache.CAP_VARIABLE}={least}000000000 keeps it, and `relayvm compile` makes a file of it"
    text = f"{path} is compiled again by every process: its weights take {nbytes / 1e6:.0f} MB, and {limit}; {remedy}"
    disk_cache.warn_once(f"large {path}", text)
