"""``relayvm cache``: what the kernel cache holds, whether it is whole, and why two kernels are two entries."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ...ops.native import disk, records
from ...ops.native.cache_key import apart, differences
from ...ops.native.entry import DamagedEntry, Entry, unpack
from ...vm.executable import DEVICES
from ...vm.report.tables import bytes_short, bytes_text
from ...vm.source import FileError, InputError
from ..compile import check_target
from ..config import Config
from ..tuning.remember import misses
from .exit_codes import ExitCode
from .opening import read_module
from .options import config_option, device_option, file_argument, json_option, sizes_option
from .streams import answer

#: Digits of an id that are shown: enough to tell entries apart, and to name one.
_SHOWN_DIGITS = 12
#: What ``info`` counts a file as whose kind cannot be read.
_DAMAGED = "damaged"


@click.group("cache", short_help="Look at the kernel cache, clear it.")
def cache_command() -> None:
    """Look at the kernel cache: compiled machine code, for processors and for cards.

    Its folder is RELAYVM_CACHE_DIR, else a folder in your user cache. Clearing it is always safe.
    """


@contextlib.contextmanager
def _folder_errors() -> Iterator[None]:
    """What is wrong with the folder, as an error for people."""
    try:
        yield
    except disk.NoFolder as error:
        raise FileError(f"no cache is used: {error}", help=f"{disk.FOLDER_VARIABLE} names the folder") from error
    except OSError as error:
        raise FileError(f"the cache cannot be used: {error.filename or disk.folder()}: {error.strerror or error}") from error


def _answer(data: Any, lines: list[str], as_json: bool) -> None:
    answer(data, "\n".join(lines), as_json)


# ---- what is there -----------------------------------------------------------------------------------------------------------


@cache_command.command()
@click.option("--entries", "each", is_flag=True, help="List the entries, the last used first.")
@json_option
def info(each: bool, as_json: bool) -> None:
    """Show the folder, the number and size of the entries by kind, the cap, the first and the last use."""
    with _folder_errors():
        folder = disk.folder()
        rows = [_row(file) for file in sorted(disk.stored(), key=lambda file: -file.used_ns)]
    kinds: dict[str, dict[str, int]] = {}
    for row in rows:
        kind = kinds.setdefault(row["kind"], {"entries": 0, "bytes": 0})
        kind["entries"], kind["bytes"] = kind["entries"] + 1, kind["bytes"] + row["bytes"]
    data: dict[str, Any] = {
        "folder": str(folder),
        "entries": len(rows),
        "bytes": sum(row["bytes"] for row in rows),
        "max_bytes": disk.cap(),
        "kinds": dict(sorted(kinds.items())),
        "oldest": rows[-1]["used"] if rows else None,
        "newest": rows[0]["used"] if rows else None,
        "tuning_records": len(records.known()),
    }
    _answer(data | {"list": rows} if each else data, _info_lines(data) + (_row_lines(rows) if each else []), as_json)


def _row(file: disk.Stored) -> dict[str, Any]:
    try:
        entry = disk.check(file.path)
        kind, name = entry.key.kind, entry.name
    except (DamagedEntry, OSError):
        kind, name = _DAMAGED, ""
    used = datetime.fromtimestamp(file.used_ns // 10**9).isoformat(sep=" ")
    return {"id": file.id, "kind": kind, "name": name, "bytes": file.size, "used": used}


def _info_lines(data: dict[str, Any]) -> list[str]:
    kinds = [f"{kind:<10} {_count(found['entries'])}, {bytes_text(found['bytes'])}" for kind, found in data["kinds"].items()]
    used = [f"last used  {data['oldest']} to {data['newest']}"] if data["entries"] else []
    whole = f"{_count(data['entries'])}, {bytes_text(data['bytes'])} of {bytes_text(data['max_bytes'])}"
    tuning = [f"tuning     {_records(data['tuning_records'])}"] if data["tuning_records"] else []
    return [f"folder     {data['folder']}", f"all        {whole}", *kinds, *used, *tuning]


def _row_lines(rows: list[dict[str, Any]]) -> list[str]:
    return [
        f"{row['id'][:_SHOWN_DIGITS]}  {row['used']}  {row['kind']:<8} {bytes_short(row['bytes']):>9}  {row['name']}".rstrip()
        for row in rows
    ]


def _count(n: int) -> str:
    return f"{n} entr{'y' if n == 1 else 'ies'}"


@cache_command.command()
@json_option
def verify(as_json: bool) -> int:
    """Check the checksum of every entry. Ends with 1 when a file is damaged or foreign, after a list of those."""
    with _folder_errors():
        files = list(disk.stored())
    bad = {}
    for file in files:
        try:
            disk.check(file.path)
        except FileNotFoundError:  # evicted meanwhile
            continue
        except (DamagedEntry, OSError) as error:
            bad[str(file.path)] = str(getattr(error, "strerror", None) or error)
    lines = [f"{path}: {why}" for path, why in bad.items()]
    said = (
        f"{len(bad)} of {_count(len(files))} cannot be used; they are compiled again"
        if bad
        else f"{_count(len(files))}, all whole"
    )
    data = {"entries": len(files), "bad": [{"path": path, "reason": why} for path, why in bad.items()]}
    _answer(data, [*lines, said], as_json)
    return ExitCode.CHECK if bad else ExitCode.OK


# ---- less of it --------------------------------------------------------------------------------------------------------------


@cache_command.command()
@click.option("--tuning", is_flag=True, help="Delete the tuning records instead.")
@json_option
def clear(tuning: bool, as_json: bool) -> None:
    """Delete every entry. Programs that run are not disturbed; the next ones compile their kernels again."""
    if not tuning:
        _delete(disk.clear, as_json)
        return
    with _folder_errors():
        count, nbytes = records.clear()
    _answer({"deleted": count, "bytes": nbytes}, [f"deleted {_records(count)}, {bytes_text(nbytes)}"], as_json)


def _records(n: int) -> str:
    return f"{n} tuning record{'' if n == 1 else 's'}"


@cache_command.command()
@click.option("--max-bytes", type=click.IntRange(min=0), help=f"What may stay; default: {disk.CAP_VARIABLE}, else 1 GiB.")
@json_option
def prune(max_bytes: int | None, as_json: bool) -> None:
    """Delete the entries that were not used for longest, until the rest is within the cap."""
    _delete(lambda: disk.prune(disk.cap() if max_bytes is None else max_bytes), as_json)


def _delete(how: Callable[[], tuple[int, int]], as_json: bool) -> None:
    with _folder_errors():
        files, nbytes = how()
    _answer({"deleted": files, "bytes": nbytes}, [f"deleted {_count(files)}, {bytes_text(nbytes)}"], as_json)


# ---- why two -----------------------------------------------------------------------------------------------------------------


@cache_command.command()
@click.argument("a")
@click.argument("b")
@json_option
def explain(a: str, b: str, as_json: bool) -> None:
    """Name what A and B differ in: the reason why the one was compiled although the other was there.

    A and B are the first digits of entries' ids (`relayvm cache info --entries` lists them), or files.
    """
    with _folder_errors():
        left, right = _entry(a), _entry(b)
    found = differences(left.key, right.key)
    data = {
        "a": {"id": left.key.id, "name": left.name},
        "b": {"id": right.key.id, "name": right.name},
        "differences": [{"field": name, "a": x, "b": y} for name, x, y in found],
    }
    lines = [f"{side}  {e.key.id[:_SHOWN_DIGITS]}  {e.key.kind}  {e.name}" for side, e in (("a", left), ("b", right))]
    for name, x, y in found:
        x, y = apart(x, y)
        lines += [f"{name} differs:", f"  a  {x}", f"  b  {y}"]
    _answer(data, lines if found else [*lines, "their keys are the same"], as_json)


def _entry(text: str) -> Entry:
    """The entry that ``text`` names: a file, or the first digits of an id.  Raises InputError."""
    path = Path(text)
    if not path.is_file():
        path = _by_prefix(text)
    try:
        return unpack(path.read_bytes())
    except DamagedEntry as error:
        raise InputError(f"{path} cannot be used: {error}") from error


def _by_prefix(text: str) -> Path:
    if not re.fullmatch("[0-9a-f]+", text):
        raise InputError(f"{text} is neither a file nor the first digits of an entry's id", help=_LIST)
    found = sorted((file for file in disk.stored() if file.id.startswith(text)), key=lambda file: file.id)
    if not found:
        raise InputError(f"no entry's id begins with {text}", help=_LIST)
    if len(found) > 1:
        shown = ", ".join(file.id[:_SHOWN_DIGITS] for file in found[:4]) + (", ..." if len(found) > 4 else "")
        raise InputError(f"{len(found)} entries' ids begin with {text}: {shown}", help="give more digits")
    return found[0].path


_LIST = "`relayvm cache info --entries` lists them"


# ---- tuning records ----------------------------------------------------------------------------------------------------------


@cache_command.command()
@file_argument
@sizes_option
@device_option
@config_option
@json_option
def miss(file: Path, sizes: dict[str, tuple[int, ...]], device: str | None, config: dict[str, str], as_json: bool) -> None:
    """Say which tuning records FILE finds, and of those it misses what the nearest one differs in.

    FILE is a program (.relay).
    """
    target = device or DEVICES[0]
    check_target(target)
    found = list(misses(read_module(file), Config.of(**config), target, sizes or None))
    lines = [f"{what}: {'found' if why is None else why}" for what, why in found]
    _answer([{"of": what, "found": why is None, "why": why} for what, why in found], lines, as_json)
