"""The kernel cache as a user sees it: models that share kernels, a second process, ``relayvm cache``."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from relayvm.compiler.commands.cli import main
from relayvm.compiler.text.grammar_tables import GRAMMAR
from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.cache.cache_entry import Entry
from relayvm.ops.native.cache.cache_key import CacheKey
from relayvm.ops.native.cache.host_processor import PROCESSOR
from relayvm.ops.native.compiled.kernel_store import SHARED

from ..ops.native.fresh import fresh_cache

# ---- models -----------------------------------------------------------------------------------------------------------------

TWO_MODELS = """
import json
import numpy as np
import relayvm as relay
from relayvm.ops.native.compiled import kernel_store as store

def model(width, head):
    block = "let %y{o} = tanh(multiply(nn.relu(add(%{i}, 0.25f)), 0.5f)); let %s{o} = sum(%y{o}, axis=[1], keepdims=True);"
    block += " let %t{o} = subtract(%y{o}, %s{o});"
    chain = " ".join(block.format(o=i + 1, i=f"t{i}") for i in range(4))
    return '#[version = "0.0.5"]\\ndef @main(%t0: Tensor[(?, ' + width + "), float32]) { " + chain + f" {head}(%t4) }}"

for text in (model("?", "exp"), model("8", "sqrt")):
    relay.VirtualMachine(relay.compile(text)).run(np.ones((2, 8), np.float32))
print(json.dumps(store.counters))
"""


def counted(folder: Path) -> dict[str, int]:
    env = os.environ | {"RELAYVM_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", TWO_MODELS], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_models_share_kernels_and_a_second_process_compiles_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = fresh_cache(monkeypatch, tmp_path)
    first = counted(folder)
    found = [disk_cache.check(file.path) for file in disk_cache.entry_files()]
    # code that kernels share is counted with the kernels
    entries = [e for e in found if e.key.kind not in (GRAMMAR, PROCESSOR) and e.name != SHARED]
    assert first["compiles"] == len(entries) == len({e.key for e in entries}), "compiles == distinct keys"
    assert first["memory_hits"] > 0 and "disk_hits" not in first
    second = counted(folder)
    assert "compiles" not in second and second["disk_hits"] == len(entries)
    assert second["memory_hits"] == first["memory_hits"]


# ---- the command ------------------------------------------------------------------------------------------------------------


def put(number: int, kind: str, seconds: float, **fields: str) -> str:
    """An entry of a known time; its id."""
    key = CacheKey.of(kind, {"source": str(number), **fields})
    disk_cache.write(Entry(key, f"kernel {number}", "", b"code"))
    at = datetime(2026, 1, 2, 3, 4, 5).timestamp() + seconds
    os.utime(disk_cache.path_of(key.id), (at, at))
    return key.id


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[str, str, str]:
    """The ids of three entries, the oldest first."""
    fresh_cache(monkeypatch, tmp_path)
    features = ",".join(f"+f{i}" for i in range(40))
    return (
        put(1, "object", 0, processor="icelake", features=features),
        put(1, "object", 60, processor="icelake", features=features.replace("+f7,", "-f7,")),
        put(1, "cubin", 120, arch="sm_90"),
    )


def lines_of(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> list[str]:
    """The standard output of ``relayvm cache``; its standard error if it fails."""
    assert main(["cache", *args]) == code
    out, err = capsys.readouterr()
    assert (out == "") == (err != "")
    return (out or err).splitlines()


def sizes() -> dict[str, int]:
    return {file.id: file.size for file in disk_cache.entry_files()}


def test_info(capsys: pytest.CaptureFixture[str], three: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, "5000")
    one, two, cubin = (sizes()[i] for i in three)
    total = f"3 entries, {one + two + cubin} bytes"
    lines = [
        f"folder     {disk_cache.folder()}",
        f"all        {total} of 5000 bytes (4.88 KiB)",
        f"cubin      1 entry, {cubin} bytes",
        f"object     2 entries, {one + two} bytes",
        "last used  2026-01-02 03:04:05 to 2026-01-02 03:06:05",
    ]
    assert lines_of(capsys, "info") == lines
    listed = [
        f"{three[2][:12]}  2026-01-02 03:06:05  cubin        {cubin} B  kernel 1",
        f"{three[1][:12]}  2026-01-02 03:05:05  object       {two} B  kernel 1",
        f"{three[0][:12]}  2026-01-02 03:04:05  object       {one} B  kernel 1",
    ]
    assert lines_of(capsys, "info", "--entries") == lines + listed
    found = json.loads("\n".join(lines_of(capsys, "info", "--json")))
    assert found == {
        "folder": str(disk_cache.folder()),
        "entries": 3,
        "bytes": one + two + cubin,
        "max_bytes": 5000,
        "kinds": {"cubin": {"entries": 1, "bytes": cubin}, "object": {"entries": 2, "bytes": one + two}},
        "oldest": "2026-01-02 03:04:05",
        "newest": "2026-01-02 03:06:05",
        "tuning_records": 0,
    }
    assert [row["id"] for row in json.loads("\n".join(lines_of(capsys, "info", "--entries", "--json")))["list"]] == [*three[::-1]]


def test_an_empty_cache(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = fresh_cache(monkeypatch, tmp_path)
    assert lines_of(capsys, "info") == [f"folder     {folder}", "all        0 entries, 0 bytes of 1073741824 bytes (1.00 GiB)"]
    assert lines_of(capsys, "verify") == ["0 entries, all whole"]
    assert lines_of(capsys, "clear") == lines_of(capsys, "prune") == ["deleted 0 entries, 0 bytes"]
    assert not folder.exists(), "looking makes nothing"


def test_verify(capsys: pytest.CaptureFixture[str], three: tuple[str, str, str]) -> None:
    assert lines_of(capsys, "verify") == ["3 entries, all whole"]
    damaged = disk_cache.path_of(three[0])
    damaged.write_bytes(damaged.read_bytes()[:-1])
    foreign = damaged.with_name("notes")
    foreign.write_text("mine")
    assert sorted(lines_of(capsys, "verify", code=1)) == sorted(
        [
            f"{damaged}: its checksum is wrong",
            f"{foreign}: it is not an entry of this cache",
            "2 of 4 entries cannot be used; they are compiled again",
        ]
    )
    found = json.loads("\n".join(lines_of(capsys, "verify", "--json", code=1)))
    assert found["entries"] == 4 and {bad["path"] for bad in found["bad"]} == {str(damaged), str(foreign)}
    assert lines_of(capsys, "info")[3].startswith("damaged    2 entries, ")


def test_prune_and_clear(capsys: pytest.CaptureFixture[str], three: tuple[str, str, str]) -> None:
    assert lines_of(capsys, "prune") == ["deleted 0 entries, 0 bytes"]
    old, _, cubin = (sizes()[i] for i in three)
    left = sum(sizes().values()) - 1
    assert lines_of(capsys, "prune", "--max-bytes", str(left)) == [f"deleted 1 entry, {old} bytes"]
    assert {*sizes()} == {*three[1:]}
    assert json.loads("\n".join(lines_of(capsys, "prune", "--max-bytes", str(cubin), "--json")))["deleted"] == 1
    assert lines_of(capsys, "clear") == [f"deleted 1 entry, {cubin} bytes"]
    assert sizes() == {}
    assert "Invalid value for '--max-bytes'" in lines_of(capsys, "prune", "--max-bytes", "-1", code=2)[-1]


def test_explain(capsys: pytest.CaptureFixture[str], three: tuple[str, str, str], tmp_path: Path) -> None:
    one, two, cubin = three
    lines = [f"a  {one[:12]}  object  kernel 1", f"b  {two[:12]}  object  kernel 1"]
    assert lines_of(capsys, "explain", one[:12], two) == [*lines, "features differs:", "  a  +f7", "  b  -f7"]
    assert lines_of(capsys, "explain", one, one) == [lines[0], lines[0].replace("a", "b", 1), "their keys are the same"]
    found = lines_of(capsys, "explain", one, cubin)
    assert found[2:5] == ["kind differs:", "  a  object", "  b  cubin"]
    assert found[5:8] == ["processor differs:", "  a  icelake", "  b  (no such field)"]
    assert found[-3:] == ["arch differs:", "  a  (no such field)", "  b  sm_90"]
    data = json.loads("\n".join(lines_of(capsys, "explain", one, cubin, "--json")))
    assert data["b"] == {"id": cubin, "name": "kernel 1"}
    assert data["differences"][0] == {"field": "kind", "a": "object", "b": "cubin"}
    copy = tmp_path / "copy"
    copy.write_bytes(disk_cache.path_of(one).read_bytes())
    assert lines_of(capsys, "explain", str(copy), two)[:2] == lines, "a file is as good as an id"


def test_explain_what_is_not_there(capsys: pytest.CaptureFixture[str], three: tuple[str, str, str], tmp_path: Path) -> None:
    helped = "help: `relayvm cache info --entries` lists them"
    absent = next(d for d in "0123456789abcdef" if not any(i.startswith(d * 2) for i in three)) * 2
    assert lines_of(capsys, "explain", absent, three[0], code=5) == [f"error: no entry's id begins with {absent}", helped]
    words = "error: exp is neither a file nor the first digits of an entry's id"
    assert lines_of(capsys, "explain", "exp", three[0], code=5) == [words, helped]
    twins = [three[0], *(put(n, "cubin", n) for n in range(16))]  # some digit begins two of 17 ids
    prefix = next(a[0] for a in twins if sum(b[0] == a[0] for b in sizes()) > 1)
    found = lines_of(capsys, "explain", prefix, three[0], code=5)
    assert found[0].split(":")[1].endswith(f"entries' ids begin with {prefix}") and found[1] == "help: give more digits"
    (tmp_path / "notes").write_text("mine")
    words = f"error: {tmp_path / 'notes'} cannot be used: it is not an entry of this cache"
    assert lines_of(capsys, "explain", str(tmp_path / "notes"), three[0], code=5) == [words]


@pytest.mark.parametrize("command", [["info"], ["verify"], ["clear"], ["prune"], ["explain", "a", "b"]])
def test_no_folder(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv(disk_cache.FOLDER_VARIABLE, "~nobody-of-this-name/cache")
    words = "error: no cache is used: there is no home folder; set RELAYVM_CACHE_DIR"
    assert lines_of(capsys, *command, code=6) == [words, "help: RELAYVM_CACHE_DIR names the folder"]
    assert main(["env"]) == 0
    assert "cache      none: there is no home folder; set RELAYVM_CACHE_DIR" in capsys.readouterr().out


def test_a_folder_that_cannot_be_cleared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, three: tuple[str, str, str]
) -> None:
    def fail(path: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "unlink", fail)
    (line,) = lines_of(capsys, "clear", code=6)
    assert line.startswith(f"error: the cache cannot be used: {disk_cache.folder()}") and line.endswith(": Read-only file system")
