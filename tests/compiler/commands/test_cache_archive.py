"""``relayvm cache export`` and ``import``: the entries of one folder in another; damaged archives store nothing wrong."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import relayvm as relay
from relayvm.compiler.commands import cache_archive
from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.cache.cache_entry import Entry
from relayvm.ops.native.cache.cache_key import CacheKey

from ..cli.answers import answer, data


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Let the process use the cache folder of this name."""

    def named(name: str) -> Path:
        monkeypatch.setenv(disk_cache.FOLDER_VARIABLE, str(tmp_path / name))
        return tmp_path / name

    return named


def entry(number: int, **fields: str) -> Entry:
    return Entry(CacheKey.of("test", {"number": str(number), **fields}), f"entry {number}", "", bytes([number]) * 100)


@pytest.fixture
def archive(tmp_path: Path, use: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> Path:
    use("first")
    for k in range(3):
        disk_cache.write(entry(k, **({"processor": "z80", "features": "", "triple": "cpm"} if k == 2 else {})))
    out = tmp_path / "kernels.tar"
    assert data(capsys, "cache", "export", str(out))["entries"] == 3
    return out


def test_another_folder_has_the_entries(archive: Path, use: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    use("second")
    disk_cache.write(entry(0))
    assert data(capsys, "cache", "import", str(archive)) == {"imported": 2, "known": 1, "for_other_machines": 1}
    for k in (0, 1):
        found = disk_cache.read(entry(k).key)
        assert found is not None and bytes(found.payload) == entry(k).payload
    lines = answer(capsys, "cache", "import", str(archive)).splitlines()
    assert lines == ["0 entries imported, 3 known before", "1 entry for another CPU, which this machine does not use"]


def test_damaged_entries_are_not_exported(archive: Path, use: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    use("first")
    path = disk_cache.path_of(entry(1).key.id)
    path.write_bytes(path.read_bytes()[:-1])
    assert data(capsys, "cache", "export", str(archive))["entries"] == 2


def rewritten(archive: Path, change: Callable[[str, bytes], tuple[str, bytes]]) -> None:
    with tarfile.open(archive) as opened:
        members = [(m.name, file.read()) for m in opened if (file := opened.extractfile(m)) is not None]
    with tarfile.open(archive, "w") as made:
        for name, content in (change(*member) for member in members):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda name, content: (name, content[:-1]), "cannot be used: its checksum is wrong"),
        (lambda name, content: (name[:-1] + "x", content), "has the name of another entry"),
        (lambda name, content: ("../" + name, content), "is no exported cache: it has a member '../relayvm-cache/"),
        (lambda name, content: ("README", b"text"), "is no exported cache: it has a member 'README'"),
    ],
)  # fmt: skip
def test_archives_that_are_refused(
    archive: Path, use: Callable[[str], Path], change: Callable[[str, bytes], tuple[str, bytes]], message: str
) -> None:
    rewritten(archive, change)
    use("second")
    with pytest.raises(relay.RelayError) as caught:
        cache_archive.import_entries(archive)
    assert message in str(caught.value)
    assert not list(disk_cache.entry_files())


def test_files_that_are_no_archive(tmp_path: Path, use: Callable[[str], Path]) -> None:
    use("second")
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(relay.RelayError, match="is no exported cache"):
        cache_archive.import_entries(tmp_path / "text")
    with pytest.raises(relay.RelayError, match="cannot read"):
        cache_archive.import_entries(tmp_path / "nothing")
    with pytest.raises(relay.RelayError, match="has no entries"):
        cache_archive.export_entries(tmp_path / "out.tar")
    disk_cache.write(entry(0))
    with pytest.raises(relay.RelayError, match="cannot write"):
        cache_archive.export_entries(tmp_path / "no folder" / "out.tar")
