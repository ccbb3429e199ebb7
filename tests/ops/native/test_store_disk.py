"""The cache on disk: any error of a file or the folder is a miss and one warning; the least recently used entry goes first."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pickle
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.cache.cache_entry import DamagedEntry, Entry, pack, unpack
from relayvm.ops.native.cache.disk_cache import CacheWarning
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.linking import linker as loader
from relayvm.ops.native.memory import native

from .fresh import entry, fresh_cache, fresh_process, key


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return fresh_cache(monkeypatch, tmp_path)


@contextlib.contextmanager
def one_warning(words: str) -> Iterator[None]:
    with pytest.warns(CacheWarning) as warned:
        yield
    assert len(warned) == 1 and words in str(warned[0].message), [str(w.message) for w in warned]


def files(cache: Path) -> list[str]:
    return sorted(file.id for file in disk_cache.entry_files())


def aged(number: int, seconds: float) -> None:
    """Entry ``number`` was last used so long ago."""
    at = time.time() - seconds
    os.utime(disk_cache.path_of(key(number).id), (at, at))


# ---- written files ----------------------------------------------------------------------------------------------------------


def test_what_is_written_is_read(cache: Path) -> None:
    assert disk_cache.read(key(1)) is None
    written = disk_cache.write(entry(1))
    assert disk_cache.read(key(1)) == entry(1)
    (file,) = disk_cache.entry_files()
    assert file.size == written == file.path.stat().st_size and file.id == key(1).id
    assert file.path == cache / "entries" / key(1).id[:2] / key(1).id[2:]


@pytest.mark.skipif(os.name != "posix", reason="no permission bits here")
def test_folders_and_files_are_private(cache: Path) -> None:
    before = os.umask(0)
    try:
        disk_cache.write(entry(1))
    finally:
        os.umask(before)
    for path in (cache, *cache.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_the_folder_may_be_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(disk_cache.FOLDER_VARIABLE, "~/mine")
    disk_cache.write(entry(1))
    assert disk_cache.folder() == tmp_path / "mine" and (tmp_path / "mine" / "entries").is_dir()


# ---- damage -----------------------------------------------------------------------------------------------------------------


def test_no_byte_can_change_and_none_can_be_missing() -> None:
    blob = pack(entry(3, nbytes=40))
    assert unpack(blob) == entry(3, nbytes=40)
    damaged = [blob[:i] + bytes([blob[i] ^ 1 << i % 8]) + blob[i + 1 :] for i in range(len(blob))]
    damaged += [blob[:i] for i in range(len(blob))] + [blob + b"\0", blob + blob, blob[1:]]
    for bad in damaged:
        with pytest.raises(DamagedEntry):
            unpack(bad)


def sealed(header: bytes, size: int | None = None) -> bytes:
    """A file with a right checksum and this header."""
    import hashlib

    blob = pack(entry(1))
    body = (len(header) if size is None else size).to_bytes(4, "little") + header
    return blob[:16] + hashlib.sha256(body).digest() + body


@pytest.mark.parametrize(
    "blob",
    [
        sealed(b""),
        sealed(b"{}"),
        sealed(b"[1]"),
        sealed(b"{", 10**9),
        sealed(b"\xff\xfe"),
        sealed(b'{"fields": 3, "name": "", "symbol": ""}'),
        sealed(b'{"fields": [["a"]], "name": "", "symbol": ""}'),
        sealed(b'{"fields": [], "name": "", "symbol": ""}'),
        sealed(b'{"fields": [["kind", "cubin"]], "name": ""}'),
    ],
)
def test_a_right_checksum_does_not_make_an_entry(blob: bytes) -> None:
    with pytest.raises(DamagedEntry):
        unpack(blob)


def blob_with(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def put_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "magic": blob_with(lambda b: b"x" + b[1:]),
    "checksum": blob_with(lambda b: b[:20] + b"\0\0" + b[22:]),
    "length": blob_with(lambda b: b[:48] + b"\xff\xff\xff\xff" + b[52:]),
    "header": blob_with(lambda b: b[:60] + b"?" + b[61:]),
    "code": blob_with(lambda b: b[:-1] + bytes([b[-1] ^ 1])),
    "empty": blob_with(lambda b: b""),
    "cut in the header": blob_with(lambda b: b[:70]),
    "cut in the code": blob_with(lambda b: b[:-1]),
    "a pickle": blob_with(lambda b: pickle.dumps(_Bomb())),
    "another entry": blob_with(lambda b: pack(entry(99))),
    "another program's": blob_with(lambda b: b"\x7fELF" + b),
    "a folder": put_a_folder,
}


class _Bomb:
    """An object that reports that it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("unpickled",)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_a_miss_and_one_warning(cache: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    for number in (1, 2):
        disk_cache.write(entry(number))
        DAMAGE[damage](disk_cache.path_of(key(number).id))
    with one_warning("compiled in every process" if damage == "a folder" else f"cache entry {key(1).id[:12]} cannot be used"):
        for number in (1, 2):
            assert kernel_store.get_or_make(key(number), "k", lambda: b"new") == b"new"
    assert kernel_store.counters["compiles"] == 2 and kernel_store.counters["disk_hits"] == 0
    if damage != "a folder":
        fresh_process(monkeypatch)
        assert kernel_store.get_or_make(key(1), "k", pytest.fail) == b"new", "the damaged file was replaced"


@pytest.mark.parametrize("damage", [name for name in DAMAGE if name != "a folder"])
def test_damaged_machine_code_is_never_loaded(cache: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    @native
    def five() -> int:
        return 5

    loaded: list[bytes] = []
    monkeypatch.setattr(loader, "load", lambda code: loaded.append(code.code) or 1)
    kernel_store.address_of(five, "int64()")
    (file,) = (file for file in disk_cache.entry_files() if disk_cache.check(file.path).key.kind == "object")
    DAMAGE[damage](file.path)
    fresh_process(monkeypatch)
    with pytest.warns(CacheWarning):
        kernel_store.address_of(five, "int64()")
    assert kernel_store.counters["compiles"] == 1 and len(loaded) == 2
    assert unpack(file.path.read_bytes()).payload == loaded[1], "what was compiled, not what was found"


def test_code_that_cannot_be_mapped_is_compiled_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @native
    def six() -> int:
        return 6

    kernel_store.address_of(six, "int64()")
    (file,) = disk_cache.entry_files()
    whole = unpack(file.path.read_bytes())
    file.path.write_bytes(pack(whole._replace(payload=b"\x7fELF but no object")))
    fresh_process(monkeypatch)
    with one_warning("not a 64-bit ELF object"):
        assert kernel_store.address_of(six, "int64()")
    assert kernel_store.counters["compiles"] == 1 and len(unpack(file.path.read_bytes()).payload) == len(whole.payload)


# ---- a folder that cannot be used -------------------------------------------------------------------------------------------


def runs_on(number: int = 1) -> None:
    """Kernels are compiled, whatever the folder is like."""
    for i in range(number, number + 3):
        assert kernel_store.get_or_make(key(i), "k", lambda i=i: bytes([i])) == bytes([i])
    assert kernel_store.counters["compiles"] == 3


@pytest.mark.parametrize("place", ["", "entries", "tmp", f"entries/{key(1).id[:2]}"])
def test_a_file_in_the_way(cache: Path, place: str) -> None:
    (cache / place).parent.mkdir(parents=True, exist_ok=True)
    (cache / place).write_text("in the way")
    with one_warning("cannot be written (Not a directory)"):
        runs_on()


#: Each call to the system on the way to a new entry.
STEPS: dict[str, tuple[Any, str]] = {
    "stat": (os, "lstat"),
    "mkdir": (os, "mkdir"),
    "open": (tempfile, "mkstemp"),
    "rename": (os, "replace"),
}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails(cache: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int) -> None:
    def fail(path: Any = None, *args: Any, **kwargs: Any) -> Any:
        if step == "stat" and not str(path).startswith(str(cache)):
            return stat(path, *args, **kwargs)
        raise OSError(code, os.strerror(code))

    stat = os.lstat
    monkeypatch.setattr(*STEPS[step], fail)
    with one_warning(f"({os.strerror(code)})"):
        runs_on()
    monkeypatch.undo()
    assert files_below(cache) == []


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("after", [0, 1, 60])
@pytest.mark.parametrize("when", ["write", "close"])
def test_a_full_disk(cache: Path, monkeypatch: pytest.MonkeyPatch, when: str, after: int) -> None:
    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            if when == "write":
                super().write(bytes(data)[:after])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data) or 0

        def close(self) -> None:
            was_open = not self.closed
            super().close()
            if was_open and when == "close":
                raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "fdopen", lambda handle, mode: Full(handle, mode))
    with one_warning(os.strerror(errno.ENOSPC if when == "write" else errno.EDQUOT)):
        runs_on()
    assert files_below(cache) == [], "nothing half-written is left"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_really_full_device(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def on_full(dir: Path) -> tuple[int, str]:
        (tmp_path / "named").touch()
        return os.open("/dev/full", os.O_WRONLY), str(tmp_path / "named")

    monkeypatch.setattr(tempfile, "mkstemp", on_full)
    with one_warning("No space left on device"):
        runs_on()
    assert not (tmp_path / "named").exists() and files_below(cache) == []


def test_entries_that_cannot_be_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_cache.write(entry(1))

    def fail(*_: Any, **__: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", fail)
    monkeypatch.setattr(tempfile, "mkstemp", fail)
    with one_warning("cannot be read (Permission denied)"):
        runs_on()


def test_a_folder_that_one_may_only_read_is_a_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_cache.write(entry(1))
    aged(1, 10**6)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("mkdir", "utime", "replace", "unlink"):
        monkeypatch.setattr(os, name, fail)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kernel_store.get_or_make(key(1), "k", pytest.fail) == entry(1).payload


def test_no_home(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(disk_cache.FOLDER_VARIABLE)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: f"~/.cache/{name}")  # what it says without a home
    monkeypatch.chdir(tmp_path)
    with one_warning("there is no home folder; set RELAYVM_CACHE_DIR"):
        runs_on()
    assert files_below(tmp_path) == []
    fresh_process(monkeypatch)
    monkeypatch.setenv(disk_cache.FOLDER_VARIABLE, "~nobody-of-this-name/cache")
    with one_warning("there is no home folder"):
        runs_on()


@pytest.mark.skipif(os.name != "posix", reason="no permission bits here")
@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_folder_that_others_may_write_to_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    disk_cache.write(entry(1))
    (cache / "entries").chmod(mode)
    with one_warning(f"other users may write to {cache / 'entries'}"):
        runs_on()
    (cache / "entries").chmod(0o700)
    assert files(cache) == [key(1).id]
    fresh_process(monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with one_warning("belongs to another user"):
        runs_on()


# ---- its size ---------------------------------------------------------------------------------------------------------------


def test_the_least_recently_used_go_first(cache: Path) -> None:
    (size,) = {disk_cache.write(entry(i)) for i in range(5)}
    for number, hours in enumerate((9, 3, 7, 5, 11)):
        aged(number, hours * 3600)
    assert disk_cache.read(key(0)) == entry(0), "used, and so the youngest now"
    assert disk_cache.prune(3 * size) == (2, 2 * size)
    assert files(cache) == sorted(key(i).id for i in (0, 1, 3))
    assert disk_cache.prune(3 * size) == (0, 0)
    assert disk_cache.prune(0) == (3, 3 * size) and files(cache) == []


def test_writing_keeps_to_the_cap(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(pack(entry(0)))
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, str(4 * size))
    for number in range(8):
        disk_cache.write(entry(number))
        aged(number, 3600 * (20 - number))
    assert files(cache) == sorted(key(i).id for i in range(4, 8)), "all but the last are old when it is written"


def test_what_was_just_written_is_not_evicted(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whichever process: a folder that is too small holds what is in use for a while."""
    size = len(pack(entry(0)))
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, str(2 * size))
    for number in range(6):
        disk_cache.write(entry(number))
    assert len(files(cache)) == 6


def test_what_another_process_touches_meanwhile_stays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        disk_cache.write(entry(number))
        aged(number, 10**5 - number)
    listed = list(disk_cache.entry_files())
    monkeypatch.setattr(disk_cache, "entry_files", lambda: iter(listed))
    disk_cache.read(key(0))  # touches it
    disk_cache.write(entry(1))
    assert disk_cache.prune(0)[0] == 1
    monkeypatch.undo()
    monkeypatch.setenv(disk_cache.FOLDER_VARIABLE, str(cache))
    assert files(cache) == sorted(key(i).id for i in (0, 1))


def test_a_use_is_written_down_once_an_hour(cache: Path) -> None:
    disk_cache.write(entry(1))
    path = disk_cache.path_of(key(1).id)
    for seconds, is_touched in ((1800, False), (7200, True)):
        aged(1, seconds)
        before = path.stat().st_mtime
        disk_cache.read(key(1))
        assert (path.stat().st_mtime > before) is is_touched


def test_what_broken_writes_left_is_cleared_away(cache: Path) -> None:
    disk_cache.write(entry(1))
    for name, seconds in (("old", 10**4), ("new", 10)):
        left = cache / "tmp" / name
        left.write_bytes(b"half")
        os.utime(left, (time.time() - seconds,) * 2)
    disk_cache.prune(10**9)
    assert [f.name for f in (cache / "tmp").iterdir()] == ["new"], "it may be another process's, which is writing"
    assert disk_cache.clear() == (2, len(pack(entry(1))) + 4)
    assert files_below(cache) == []


@pytest.mark.parametrize(("text", "words"), [("1GB", "'1GB'"), ("-1", "'-1'"), ("1e9", "'1e9'")])
def test_a_cap_that_is_no_number(cache: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str) -> None:
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, text)
    with one_warning(f"RELAYVM_CACHE_MAX_BYTES={words} is not a number of bytes; 1073741824 is used"):
        runs_on()
    assert len(files(cache)) == 3


def test_with_a_cap_of_zero_nothing_is_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, "0")
    runs_on()
    assert not cache.exists()


def test_foreign_files_do_no_harm(cache: Path) -> None:
    disk_cache.write(entry(1))
    (cache / "entries" / "notes.txt").write_text("mine")
    (cache / "entries" / "ab").mkdir(exist_ok=True)
    (cache / "entries" / "ab" / "readme").write_text("mine")
    assert disk_cache.read(key(1)) == entry(1)
    with pytest.raises(DamagedEntry, match="not an entry of this cache"):
        disk_cache.check(cache / "entries" / "ab" / "readme")


def test_names_are_for_people_only(cache: Path) -> None:
    disk_cache.write(entry(1)._replace(name="softmax"))
    found = disk_cache.read(key(1))
    assert isinstance(found, Entry) and found.name == "softmax" and found.key == key(1)
