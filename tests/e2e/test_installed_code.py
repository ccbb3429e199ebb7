"""``relayvm cache install``: a process with an empty cache finds the machine's own code in the folder of the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from relayvm.compiler.commands.cli import main
from relayvm.compiler.commands.terminal.exit_codes import ExitCode
from relayvm.ops.native.cache import disk_cache, installed_entries
from relayvm.ops.native.cache.cache_entry import pack
from relayvm.ops.native.cache.disk_cache import CacheWarning

from ..ops.native.fresh import entry, fresh_cache, key

_PROGRAM = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(3,), float32]) { %x }\n'


def relayvm(code: Path, cache: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {installed_entries.FOLDER_VARIABLE: str(code), disk_cache.FOLDER_VARIABLE: str(cache)}
    command = [sys.executable, "-m", "relayvm", *args]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=True)


def test_a_process_compiles_nothing_that_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, cache, program = tmp_path / "code", tmp_path / "cache", tmp_path / "p.relay"
    program.write_text(_PROGRAM)
    written = json.loads(relayvm(code, cache, "cache", "install", "--json").stdout)
    files = [path for path in code.rglob("*") if path.is_file()]
    assert written == {"folder": str(code), "written": len(files)}
    assert {disk_cache.check(path).key.kind for path in files} == {"grammar", "object", "processor"}
    assert json.loads(relayvm(code, cache, "cache", "install", "--json").stdout)["written"] == 0
    assert not relayvm(code, cache, "run", str(program)).stderr
    monkeypatch.setenv(disk_cache.FOLDER_VARIABLE, str(cache))
    assert [disk_cache.check(file.path).key.kind for file in disk_cache.entry_files()] == ["executable"]


def installed(number: int) -> Path:
    path = installed_entries.path_of(key(number).id)
    path.parent.mkdir(parents=True)
    path.write_bytes(pack(entry(number)))
    return path


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of installed code, beside an empty cache."""
    monkeypatch.setenv(installed_entries.FOLDER_VARIABLE, str(tmp_path / "code"))
    fresh_cache(monkeypatch, tmp_path)
    return tmp_path / "code"


def test_an_installed_entry_is_read_and_never_written(folders: Path) -> None:
    path = installed(1)
    before = path.stat()
    assert disk_cache.read(key(1)) == entry(1) and disk_cache.is_stored(key(1))
    assert disk_cache.read(key(2)) is None and not disk_cache.is_stored(key(2))
    assert path.stat() == before and not [*disk_cache.entry_files()]
    disk_cache.clear()
    assert path.exists()


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: pack(entry(2))])
def test_a_damaged_installed_entry_is_a_miss_and_a_warning(folders: Path, damage: object) -> None:
    path = installed(1)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.warns(CacheWarning, match=r"cannot be used: .*compiling again \(see `relayvm cache install`\)") as warned:
        assert disk_cache.read(key(1)) is None
        assert disk_cache.read(key(1)) is None
    assert len(warned) == 1


def test_a_folder_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "code").write_text("")
    monkeypatch.setenv(installed_entries.FOLDER_VARIABLE, str(tmp_path / "code"))
    fresh_cache(monkeypatch, tmp_path)
    monkeypatch.setattr(
        "relayvm.vm.machine.machine_code.obtain_all", lambda: None
    )  # the machine itself is loaded in this process
    assert main(["cache", "install"]) == ExitCode.FILE
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"error: cannot write {tmp_path / 'code'}: Not a directory",
        "help: install as the owner of the package's folder",
    ]
