"""What was compiled and measured for an executable, taken along: into a file, and from it into this process's cache."""

from __future__ import annotations

import difflib
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from ..ops.implementation import CARD, HOST
from ..ops.native import records, store
from ..ops.native.cache_key import CacheKey
from ..ops.native.disk import CacheWarning
from ..ops.native.entry import Entry
from ..ops.native.fingerprint import TUNING, explain_miss, fingerprint
from ..ops.native.libraries import TABLE
from ..ops.native.records import Record
from ..ops.tuning import Preferences, libraries_of
from .bundle import Bundle, read
from .executable import DEVICES, Executable
from .fingerprint import code_fields, machine_fields, program_hash
from .kernels import SIGNATURE
from .layout import CUDA
from .source import CacheMismatch, ConfigError, FileError, RelayError
from .whole_file import write_whole

#: What can be saved: compiled kernels, tuning records, both.
KINDS = ("kernels", "tuning", "all")
KERNELS, RECORDS, ALL = KINDS
#: What the fingerprint of a file is about.
_SAVED = "saved cache"


@dataclass(frozen=True)
class Loaded:
    """What a saved cache gave: how many kernels and tuning records; ``misses``: what of it cannot be used here, and why."""

    kernels: int = 0
    records: int = 0
    misses: tuple[str, ...] = ()


def check_kind(kind: str) -> None:
    """Raises ConfigError for a kind that there is not."""
    if kind not in KINDS:
        near = difflib.get_close_matches(str(kind), KINDS, 1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"there is no kind of cache {kind!r}", help=f"{guess}valid: {', '.join(KINDS)}")


# ---- out ---------------------------------------------------------------------------------------------------------------------


def save_cache(exe: Executable, path: str | os.PathLike[str], kind: str = ALL) -> None:
    """Write what is compiled (now, if it is not yet) and measured for ``exe`` on this machine into a file.

    Raises ConfigError for another kind, FileError where the file cannot be written, RelayError where the
    kernels are not kept here.
    """
    check_kind(kind)
    entries = _entries(exe) if kind != RECORDS else ()
    found = _records(exe) if kind != KERNELS else ()
    write_whole(path, Bundle(_made_for(exe), entries, found).to_bytes())


def _made_for(exe: Executable) -> CacheKey:
    return fingerprint(_SAVED, {"program": program_hash(exe)}, code_fields(exe.target))


def _entries(exe: Executable) -> tuple[Entry, ...]:
    from .machine import VirtualMachine

    with store.watched_keys() as used:
        VirtualMachine(exe)
    # the machine's own functions were asked for by whichever machine was first
    keys = [*used, *(key for key in store.asked if key not in used and _is_of_machine(key))]
    found = [(key, store.entry_of(key)) for key in keys]
    if lost := [key for key, entry in found if entry is None]:
        help_ = "the cache folder must be usable: `relayvm cache info`"
        raise RelayError(f"{len(lost)} of {len(found)} kernels cannot be saved: the cache does not hold them", help=help_)
    return tuple(entry for _, entry in found if entry is not None)


def _is_of_machine(key: CacheKey) -> bool:
    """Is it the machine code of a function that is no program's kernel?"""
    return key.kind == "object" and dict(key.fields)["signature"] != SIGNATURE


def _records(exe: Executable) -> tuple[Record, ...]:
    preferences = Preferences.of(records.known())
    found: dict[str, Record] = {}
    for p in exe.packed:
        if p.group.nodes[0].operator.kernels:
            call = p.group.call_on(CARD if p.device == CUDA else HOST)
            machine = machine_fields(call.device, libraries_of(call))
            found |= {record.key.id: record for record in preferences.records_of(call, machine)}
    return tuple(found.values())


# ---- in ----------------------------------------------------------------------------------------------------------------------


def load_cache(exe: Executable, path: str | os.PathLike[str], kind: str = ALL, strict: bool = False) -> Loaded:
    """Take from a file what was compiled or measured for ``exe``.

    What cannot be used here (a damaged file, another program, version, processor, driver, ...) is a warning that names what
    differs, or with ``strict`` an error: then nothing is taken.  Raises ConfigError for another kind, FileError where the
    file cannot be read, CacheMismatch.
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
        store.offer(entry)
    records.save(usable.records)
    return loaded


def _settled(path: Path, loaded: Loaded, strict: bool) -> Loaded:
    """Say what cannot be used.  Raises CacheMismatch where that is asked for."""
    if loaded.misses:
        message = f"{path} cannot be used" + (" in all its parts" if loaded.kernels or loaded.records else "")
        words = "\n".join((f"{message}: {loaded.misses[0]}", *loaded.misses[1:]))
        if strict:
            raise CacheMismatch(words)
        warnings.warn(words, CacheWarning, stacklevel=4)
    return loaded


def _usable(exe: Executable, bundle: Bundle, kind: str) -> tuple[Bundle, list[str]]:
    """What of a bundle is for this program and machine, and why the rest is not."""
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
    """The part of a fingerprint that says whether machine code can run: kernels are found by their own keys."""
    return CacheKey(tuple(field for field in key.fields if field[0] != "program"))


def _foreign(key: CacheKey) -> str | None:
    """Why a tuning record is not of this machine; None where it is."""
    fields = dict(key.fields)
    device = fields.get("device", DEVICES[0])
    if key.kind != TUNING or device not in (HOST, CARD):
        return explain_miss(fingerprint(TUNING, {}, {}), [key])
    ours = dict(fingerprint(TUNING, {}, machine_fields(device, TABLE)).fields)
    wanted = CacheKey(tuple((name, ours.get(name, value)) for name, value in key.fields))
    return None if wanted == key else explain_miss(wanted, [key])
