"""``relayvm cache``: list, verify, explain, move, prune and clear the kernel cache."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ...ops.native.cache import disk_cache, installed_entries
from ...ops.native.cache.cache_entry import DamagedEntry, Entry, unpack
from ...ops.native.cache.cache_key import differences, distinct_parts
from ...ops.native.tuning import tuning_records
from ...vm.device_table import DEVICES
from ...vm.diagnostics.source import FileError, InputError
from ...vm.inspection.figures import bytes_short, bytes_text
from ..load_program import read_module
from ..settings.config import Config
from ..settings.targets import check_target
from ..tuning.remember import misses
from .cache_archive import export_entries, import_entries
from .terminal.exit_codes import ExitCode
from .terminal.options import config_option, device_option, file_argument, json_option, sizes_option
from .terminal.streams import answer

#: Digits of an id in listings: enough to distinguish entries, and to name an entry.
_SHOWN_DIGITS = 12
#: The kind under which ``info`` counts a file without a readable kind.
_DAMAGED = "damaged"


@click.group("cache", short_help="Inspect and clear the kernel cache.")
def cache_command() -> None:
    """Inspect and clear the kernel cache: compiled machine code, for CPUs and for GPUs.

    The folder is RELAYVM_CACHE_DIR, else a folder in your user cache. Clearing the cache is always safe.
    """


@contextlib.contextmanager
def _folder_errors() -> Iterator[None]:
    """Turn errors of the folder into a FileError that names the folder."""
    try:
        yield
    except disk_cache.NoFolder as error:
        raise FileError(f"no cache is used: {error}", help=f"{disk_cache.FOLDER_VARIABLE} names the folder") from error
    except OSError as error:
        raise FileError(
            f"the cache cannot be used: {error.filename or disk_cache.folder()}: {error.strerror or error}"
        ) from error


def _answer(data: Any, lines: list[str], as_json: bool) -> None:
    answer(data, "\n".join(lines), as_json)


# ---- contents ----------------------------------------------------------------------------------------------------------------


@cache_command.command()
@click.option("--entries", "each", is_flag=True, help="List the entries, the last used first.")
@json_option
def info(each: bool, as_json: bool) -> None:
    """Show the folder, number and size of the entries by kind, the cap, the first and the last use."""
    with _folder_errors():
        folder = disk_cache.folder()
        rows = [_row(file) for file in sorted(disk_cache.entry_files(), key=lambda file: -file.used_ns)]
    kinds: dict[str, dict[str, int]] = {}
    for row in rows:
        kind = kinds.setdefault(row["kind"], {"entries": 0, "bytes": 0})
        kind["entries"], kind["bytes"] = kind["entries"] + 1, kind["bytes"] + row["bytes"]
    data: dict[str, Any] = {
        "folder": str(folder),
        "entries": len(rows),
        "bytes": sum(row["bytes"] for row in rows),
        "max_bytes": disk_cache.cap(),
        "kinds": dict(sorted(kinds.items())),
        "oldest": rows[-1]["used"] if rows else None,
        "newest": rows[0]["used"] if rows else None,
        "tuning_records": len(tuning_records.load()),
    }
    _answer(data | {"list": rows} if each else data, _info_lines(data) + (_row_lines(rows) if each else []), as_json)


def _row(file: disk_cache.EntryFile) -> dict[str, Any]:
    try:
        entry = disk_cache.check(file.path)
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
    """Check the checksum of every entry. Lists damaged and foreign files and then ends with 1."""
    with _folder_errors():
        files = list(disk_cache.entry_files())
    bad = {}
    for file in files:
        try:
            disk_cache.check(file.path)
        except FileNotFoundError:  # evicted meanwhile
            continue
        except (DamagedEntry, OSError) as error:
            bad[str(file.path)] = str(getattr(error, "strerror", None) or error)
    lines = [f"{path}: {why}" for path, why in bad.items()]
    summary = (
        f"{len(bad)} of {_count(len(files))} cannot be used; they are compiled again"
        if bad
        else f"{_count(len(files))}, all whole"
    )
    data = {"entries": len(files), "bad": [{"path": path, "reason": why} for path, why in bad.items()]}
    _answer(data, [*lines, summary], as_json)
    return ExitCode.CHECK if bad else ExitCode.OK


@cache_command.command()
@click.option("--own", is_flag=True, help="Without kernels of usual layers and networks: a few seconds.")
@json_option
def install(own: bool, as_json: bool) -> None:
    """Compile the machine's own code, and kernels of usual layers and networks, into the folder of the package.

    All users of this installation then start faster with an empty cache: in an image, or with a new home folder.
    """
    from ..installation.install import install as write_entries

    folder = installed_entries.folder()
    try:
        written = write_entries(own)
    except OSError as error:
        help_ = "install as the owner of the package's folder"
        raise FileError(f"cannot write {folder}: {error.strerror or error}", help=help_) from error
    _answer({"folder": str(folder), "written": written}, [f"{folder}: {_count(written)} written"], as_json)


# ---- archives ----------------------------------------------------------------------------------------------------------------


@cache_command.command("export")
@click.argument("out", type=click.Path(path_type=Path), metavar="OUT.tar")
@json_option
def export_command(out: Path, as_json: bool) -> None:
    """Write all entries to one file, for an image or for machines with the same CPU, GPU and versions.

    With RELAYVM_CACHE_DIR an empty folder while the programs run once, the file has the kernels of these programs alone.
    """
    with _folder_errors():
        count, nbytes = export_entries(out)
    _answer({"file": str(out), "entries": count, "bytes": nbytes}, [f"{out}: {_count(count)}, {bytes_text(nbytes)}"], as_json)


@cache_command.command("import")
@click.argument("archive", type=click.Path(path_type=Path), metavar="IN.tar")
@json_option
def import_command(archive: Path, as_json: bool) -> None:
    """Store the entries of a file that `relayvm cache export` wrote.  They are machine code: import files that you trust."""
    with _folder_errors():
        counts = import_entries(archive)
    lines = [f"{_count(counts['imported'])} imported, {counts['known']} known before"]
    if counts["for_other_machines"]:
        lines.append(f"{_count(counts['for_other_machines'])} for another CPU, which this machine does not use")
    _answer(counts, lines, as_json)


# ---- deletion ----------------------------------------------------------------------------------------------------------------


@cache_command.command()
@click.option("--tuning", is_flag=True, help="Delete the tuning records instead.")
@json_option
def clear(tuning: bool, as_json: bool) -> None:
    """Delete every entry. Running programs are not affected; later programs compile their kernels again."""
    if not tuning:
        _delete(disk_cache.clear, as_json)
        return
    with _folder_errors():
        count, nbytes = tuning_records.clear()
    _answer({"deleted": count, "bytes": nbytes}, [f"deleted {_records(count)}, {bytes_text(nbytes)}"], as_json)


def _records(n: int) -> str:
    return f"{n} tuning record{'' if n == 1 else 's'}"


@cache_command.command()
@click.option("--max-bytes", type=click.IntRange(min=0), help=f"The cap; default: {disk_cache.CAP_VARIABLE}, else 1 GiB.")
@json_option
def prune(max_bytes: int | None, as_json: bool) -> None:
    """Delete the least recently used entries until the rest is within the cap."""
    _delete(lambda: disk_cache.prune(disk_cache.cap() if max_bytes is None else max_bytes), as_json)


def _delete(how: Callable[[], tuple[int, int]], as_json: bool) -> None:
    with _folder_errors():
        files, nbytes = how()
    _answer({"deleted": files, "bytes": nbytes}, [f"deleted {_count(files)}, {bytes_text(nbytes)}"], as_json)


# ---- differences of keys -----------------------------------------------------------------------------------------------------


@cache_command.command()
@click.argument("a")
@click.argument("b")
@json_option
def explain(a: str, b: str, as_json: bool) -> None:
    """List the fields in which the keys of A and B differ: the reason why both were compiled.

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
        x, y = distinct_parts(x, y)
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
    found = sorted((file for file in disk_cache.entry_files() if file.id.startswith(text)), key=lambda file: file.id)
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
    """Report tuning hits; for each miss, the fields in which the nearest record differs.

    FILE is a program (.relay).
    """
    target = device or DEVICES[0]
    check_target(target)
    found = list(misses(read_module(file), Config.of(**config), target, sizes or None))
    lines = [f"{what}: {'found' if why is None else why}" for what, why in found]
    _answer([{"of": what, "found": why is None, "why": why} for what, why in found], lines, as_json)
