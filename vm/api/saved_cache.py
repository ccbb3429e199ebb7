"""Export of an executable's compiled kernels and tuning records to a file, and import into this process's cache."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from ...declarations.frozen_dataclass import frozen
from ...ops.core.implementation import GPU, HOST
from ...ops.core.similar_names import alternatives
from ...ops.native.blas.library_calls import TABLE
from ...ops.native.cache.cache_entry import Entry
from ...ops.native.cache.cache_key import CacheKey
from ...ops.native.cache.disk_cache import CacheWarning
from ...ops.native.compiled import kernel_store
from ...ops.native.tuning import tuning_records as records
from ...ops.native.tuning.fingerprint import TUNING, explain_miss, fingerprint
from ...ops.native.tuning.tuning_records import Record
from ...ops.strategy.measured import Preferences, libraries_of
from ..bytecode.atomic_file import write_whole
from ..bytecode.executable import ExecutableData
from ..diagnostics.source import CacheMismatch, ConfigError, FileError, RelayError
from ..loading.executable_fingerprint import code_fields, machine_fields, program_hash
from ..machine.machine_core import MachineCore
from ..runtime.kernels.kernel_addresses import SIGNATURE
from .cache_file import Bundle, read

#: Kinds of saved caches: compiled kernels, tuning records, both.
KINDS = ("kernels", "tuning", "all")
KERNELS, RECORDS, ALL = KINDS
#: Subject of the fingerprint of a file.
_SAVED = "saved cache"


@frozen
class Loaded:
    """Result of loading a saved cache: numbers of kernels and tuning records; ``misses``: reasons for rejected contents."""

    kernels: int = 0
    records: int = 0
    misses: tuple[str, ...] = ()


def check_kind(kind: str) -> None:
    """Check a kind of saved cache.  Raises ConfigError for an unknown kind."""
    if kind not in KINDS:
        raise ConfigError(f"there is no kind of cache {kind!r}", help=alternatives(str(kind), KINDS))


# ---- saving ------------------------------------------------------------------------------------------------------------------


def save_cache(exe: ExecutableData, path: str | os.PathLike[str], kind: str = ALL) -> None:
    """Write the kernels (missing kernels are compiled first) and the tuning records of ``exe`` on this machine to a file.

    Raises ConfigError for an unknown kind, FileError if the file cannot be written, RelayError if the kernel cache does not hold
    the kernels.
    """
    check_kind(kind)
    entries = _entries(exe) if kind != RECORDS else ()
    found = _records(exe) if kind != KERNELS else ()
    write_whole(path, Bundle(_made_for(exe), entries, found).to_bytes())


def _made_for(exe: ExecutableData) -> CacheKey:
    return fingerprint(_SAVED, {"program": program_hash(exe)}, code_fields(exe.target))


def _entries(exe: ExecutableData) -> tuple[Entry, ...]:
    with kernel_store.tracked_keys() as used:
        MachineCore(exe)
    # the interpreter's own functions were requested by the first machine of the process
    keys = [*used, *(key for key in kernel_store.requested if key not in used and _is_of_machine(key))]
    found = [(key, kernel_store.entry_of(key)) for key in keys]
    if lost := [key for key, entry in found if entry is None]:
        help_ = "the cache folder must be usable: `relayvm cache info`"
        raise RelayError(f"{len(lost)} of {len(found)} kernels cannot be saved: the cache does not hold them", help=help_)
    return tuple(entry for _, entry in found if entry is not None)


def _is_of_machine(key: CacheKey) -> bool:
    """Whether the key is of native code of the virtual machine, not of a program's kernel."""
    return key.kind == "object" and dict(key.fields)["signature"] != SIGNATURE


def _records(exe: ExecutableData) -> tuple[Record, ...]:
    preferences = Preferences.of(records.load())
    found: dict[str, Record] = {}
    for p in exe.packed:
        if p.group.nodes[0].operator.kernels:
            call = p.group.call_on(p.machine)
            machine = machine_fields(call.device, libraries_of(call))
            found |= {record.key.id: record for record in preferences.records_of(call, machine)}
    return tuple(found.values())


# ---- loading -----------------------------------------------------------------------------------------------------------------


def load_cache(exe: ExecutableData, path: str | os.PathLike[str], kind: str = ALL, strict: bool = False) -> Loaded:
    """Load the kernels and tuning records for ``exe`` from a file.

    Contents that do not fit (a damaged file, another program, version, CPU, driver, ...) cause a warning that names the
    differences.  With ``strict`` they cause CacheMismatch, and nothing is loaded.  Raises ConfigError for an unknown kind,
    FileError if the file cannot be read.
    """
    check_kind(kind)
    path = Path(path)
    try:
        bundle = read(path, trusted=kind != RECORDS)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    except CacheMismatch as error:
        return _settled(path, Loaded(misses=(error.diagnostics[0].message,)), strict)
    usable, misses = _usable(exe, bundle, kind)
    loaded = Loaded(len(usable.entries), len(usable.records), tuple(misses))
    _settled(path, loaded, strict)
    for entry in usable.entries:
        kernel_store.offer(entry)
    records.save(usable.records)
    return loaded


def _settled(path: Path, loaded: Loaded, strict: bool) -> Loaded:
    """Report rejected contents: as a warning, or as CacheMismatch with ``strict``."""
    if loaded.misses:
        message = f"{path} cannot be used" + (" in all its parts" if loaded.kernels or loaded.records else "")
        words = "\n".join((f"{message}: {loaded.misses[0]}", *loaded.misses[1:]))
        if strict:
            raise CacheMismatch(words)
        warnings.warn(words, CacheWarning, stacklevel=4)
    return loaded


def _usable(exe: ExecutableData, bundle: Bundle, kind: str) -> tuple[Bundle, list[str]]:
    """The part of a bundle for this program and machine, and the reasons for the rejected contents."""
    misses: list[str] = []
    here, entries, found = _made_for(exe), bundle.entries, bundle.records
    if here != bundle.made_for:
        misses.append(explain_miss(here, [bundle.made_for]))
    if kind == RECORDS or _without_program(here) != _without_program(bundle.made_for):
        entries = ()
    elif not entries and kind == KERNELS:
        misses.append("it holds no kernels")
    if kind == KERNELS:
        found = ()
    elif not found and kind == RECORDS:
        misses.append("it holds no tuning records")
    foreign = {record.key.id: _foreign(record.key) for record in found}
    misses += dict.fromkeys(why for why in foreign.values() if why is not None)
    return Bundle(here, entries, tuple(r for r in found if foreign[r.key.id] is None)), misses


def _without_program(key: CacheKey) -> CacheKey:
    """The part of a fingerprint that decides whether machine code can run; kernels themselves are found by their own keys."""
    return CacheKey(tuple(field for field in key.fields if field[0] != "program"))


def _foreign(key: CacheKey) -> str | None:
    """The reason why a tuning record does not fit this machine; None if it fits."""
    fields = dict(key.fields)
    device = fields.get("device", HOST)
    if key.kind != TUNING or device not in (HOST, GPU):
        return explain_miss(fingerprint(TUNING, {}, {}), [key])
    ours = dict(fingerprint(TUNING, {}, machine_fields(device, TABLE)).fields)
    wanted = CacheKey(tuple((name, ours.get(name, value)) for name, value in key.fields))
    return None if wanted == key else explain_miss(wanted, [key])
