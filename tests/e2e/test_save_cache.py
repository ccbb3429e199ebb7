"""A program's kernels and tuning records, copied to another process or machine; rejected entries are named."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.native.blas.library_calls import TABLE
from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.cache.cache_key import CacheKey
from relayvm.ops.native.cache.disk_cache import CacheWarning
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.tuning import tuning_records
from relayvm.ops.native.tuning.fingerprint import TUNING, fingerprint
from relayvm.vm.api import cache_file, saved_cache
from relayvm.vm.api.cache_file import Bundle
from relayvm.vm.api.saved_cache import KINDS
from relayvm.vm.loading.executable_fingerprint import machine_fields

from .. import two_ways as op
from ..ops.native.fresh import fresh_cache, fresh_process

X = np.linspace(0, 1, 3000, dtype="float32")


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    with op.two_ways():
        yield fresh_cache(monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the cache of a process that has tuned and run the program, and with the file that the process saved."""
    folder = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch, op.two_ways():
        fresh_cache(patch, folder)
        exe = relay.compile(op.program("3000"), tune="full")
        assert {p.group.implementation for p in exe.packed} >= {op.FAST}
        relay.VirtualMachine(exe)
        exe.save_cache(folder / "saved")
    return folder


@pytest.fixture
def saved(tuned: Path, cache: Path, tmp_path: Path) -> Path:
    """The saved cache of a tuned program, which the cache of the test holds too."""
    shutil.copytree(tuned / "cache", cache)
    return Path(shutil.copy2(tuned / "saved", tmp_path / "saved"))


def elsewhere(monkeypatch: pytest.MonkeyPatch, folder: Path) -> relay.Executable:
    """The untuned program in a new process with an empty cache."""
    fresh_cache(monkeypatch, folder / "elsewhere")
    return relay.compile(op.program("3000"))


def test_another_process_compiles_nothing_and_chooses_the_same(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exe = elsewhere(monkeypatch, tmp_path)
    assert {p.group.implementation for p in exe.packed} == {op.SLOW, ""}
    loaded = exe.load_cache(saved, strict=True)
    assert loaded.kernels > 1 and loaded.records == 1 and loaded.misses == ()
    tuned = relay.compile(op.program("3000"))
    assert {p.group.implementation for p in tuned.packed} == {op.FAST, ""}
    np.testing.assert_allclose(relay.VirtualMachine(tuned).run(X).numpy(), 2 * np.exp(2 * X), rtol=1e-6)
    assert kernel_store.counters["compiles"] == 0 < kernel_store.counters["disk_hits"]
    fresh_process(monkeypatch)
    relay.VirtualMachine(tuned)
    assert kernel_store.counters["compiles"] == 0, "it is kept here, too"


@pytest.mark.parametrize(("kind", "kernels", "found"), [("kernels", True, 0), ("tuning", False, 1), ("all", True, 1)])
@pytest.mark.extensive(kind=["all"])
def test_kinds(kind: str, kernels: bool, found: int, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exe = relay.compile(op.program("3000"))
    exe.save_cache(tmp_path / kind, kind)
    kept = cache_file.read(tmp_path / kind)
    assert bool(kept.entries) == kernels and len(kept.records) == found
    fresh_cache(monkeypatch, tmp_path / "elsewhere")
    for path in (saved, tmp_path / kind):
        loaded = exe.load_cache(path, kind, strict=True)
        assert (loaded.kernels > 0, loaded.records) == (kernels, found)
    assert len(tuning_records.load()) == found


def test_what_a_file_does_not_hold_is_said(saved: Path, tmp_path: Path) -> None:
    exe = relay.compile(op.program("3000"))
    for kind, asked, words in (("tuning", "kernels", "it holds no kernels"), ("kernels", "tuning", "it holds no tuning records")):
        exe.save_cache(tmp_path / kind, kind)
        with pytest.raises(relay.CacheMismatch) as error:
            exe.load_cache(tmp_path / kind, asked, strict=True)
        assert str(error.value) == f"error: {tmp_path / kind} cannot be used: {words}"


def test_another_program_is_said_and_shares_what_it_can(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh_cache(monkeypatch, tmp_path / "elsewhere")
    other = relay.compile(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(3000), float32]) {{ {op.NAME}(%x, steps=50) }}')
    with pytest.raises(relay.CacheMismatch, match=r"the nearest saved cache record differs in program:\n  program: \w+ is"):
        other.load_cache(saved, strict=True)
    with pytest.warns(CacheWarning, match="cannot be used in all its parts: .* differs in program:"):
        assert other.load_cache(saved).records == 1
    relay.compile(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(3000), float32]) {{ {op.NAME}(%x, steps=50) }}')
    relay.VirtualMachine(relay.compile(op.program("3000")))
    assert kernel_store.counters["compiles"] == 0, "kernels are found by what they are made of"


def changed(path: Path, **fields: str) -> None:
    """The file as if it had been made where these ingredients are others."""

    def other(key: CacheKey) -> CacheKey:
        return CacheKey(tuple((name, fields.get(name, value)) for name, value in key.fields))

    kept = cache_file.read(path)
    found = tuple(replace_key(record, other(record.key)) for record in kept.records)
    path.write_bytes(Bundle(other(kept.made_for), kept.entries, found).to_bytes())


def replace_key(record: tuning_records.Record, key: CacheKey) -> tuning_records.Record:
    return record._replace(key=key)


@pytest.mark.parametrize("name", ["relayvm", "processor", "features", "llvmlite", "numpy"])
def test_another_machine_or_version_is_rejected_by_name(
    name: str, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exe = relay.compile(op.program("3000"))
    changed(saved, **{name: "another"})
    fresh_cache(monkeypatch, tmp_path / "elsewhere")
    with pytest.raises(relay.CacheMismatch) as error:
        exe.load_cache(saved, strict=True)
    kinds = [f"the nearest {kind} record differs in {name}:" for kind in ("saved cache", "tuning")]
    assert [line for line in str(error.value).split("\n") if "nearest" in line][1:] == kinds[1:]
    assert str(error.value).startswith(f"error: {saved} cannot be used: {kinds[0]}\n  {name}: ")
    assert tuning_records.load() == {} and kernel_store._offered == {}, "nothing is taken"
    with pytest.warns(CacheWarning) as warned:
        assert exe.load_cache(saved).kernels == 0
    assert len(warned) == 1 and "error: " + str(warned[0].message) == str(error.value)
    assert tuning_records.load() == {} and kernel_store._offered == {}


def test_records_of_another_blas_are_rejected_by_name() -> None:
    key = fingerprint(TUNING, {}, machine_fields("cpu", TABLE))
    assert saved_cache._foreign(key) is None
    other = CacheKey(tuple((name, "another 1.0" if name == "blas" else value) for name, value in key.fields))
    why = f"the nearest tuning record differs in blas:\n  blas: {dict(key.fields)['blas']} is wanted, another 1.0 was found"
    assert saved_cache._foreign(other) == why


def test_threads_matter_to_tuning_and_not_to_kernels(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exe = relay.compile(op.program("3000"))
    fresh_cache(monkeypatch, tmp_path / "elsewhere")
    relay.set_num_threads(relay.get_num_threads() + 1)
    try:
        with pytest.warns(CacheWarning, match="cannot be used in all its parts: the nearest tuning record differs in threads:"):
            loaded = exe.load_cache(saved)
    finally:
        relay.set_num_threads(None)
    assert loaded.kernels > 0 and loaded.records == 0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:99] + bytes([data[99] ^ 1]) + data[100:],
        lambda data: b"\x80\x04\x95" + data,
        lambda data: data + b"more",
        lambda data: data[:8] + (2).to_bytes(8, "little") + data[16:],
    ],
)
def test_what_is_no_such_file_is_refused_and_the_run_goes_on(saved: Path, spoil: Callable[[bytes], bytes]) -> None:
    exe = relay.compile(op.program("3000"))
    saved.write_bytes(spoil(saved.read_bytes()))
    with pytest.warns(CacheWarning, match=f"{saved} cannot be used: it "):
        found = exe.load_cache(saved)
    assert (found.kernels, found.records) == (0, 0)
    with pytest.raises(relay.CacheMismatch, match=f"{saved} cannot be used: it "):
        exe.load_cache(saved, strict=True)
    np.testing.assert_allclose(relay.VirtualMachine(exe).run(X).numpy(), 2 * np.exp(2 * X), rtol=1e-6)


@pytest.mark.skipif(os.name != "posix", reason="no permission bits here")
def test_kernels_that_another_user_can_change_are_refused(saved: Path) -> None:
    exe = relay.compile(op.program("3000"))
    (saved.parent / "holder").mkdir()
    saved = saved.rename(saved.parent / "holder" / "saved")
    for place, bits in ((saved, 0o666), (saved, 0o660), (saved.parent, 0o777)):
        before = place.stat().st_mode
        place.chmod(bits)
        with pytest.warns(CacheWarning, match="it holds machine code, and is not yours alone: other users may write to "):
            found = exe.load_cache(saved)
        assert (found.kernels, found.records) == (0, 0)
        assert exe.load_cache(saved, "tuning", strict=True).records == 1, "which are no code"
        place.chmod(before)
    (saved.parent / "link").symlink_to(saved)
    assert exe.load_cache(saved.parent / "link", strict=True).kernels > 1


@pytest.mark.filterwarnings("ignore::relayvm.ops.native.cache.disk_cache.CacheWarning")
def test_bytes_altered_anywhere_are_refused(saved: Path, tmp_path: Path) -> None:
    exe = relay.compile(op.program("3000"))
    data, draw = saved.read_bytes(), random.Random(0)
    for _ in range(300):
        at = draw.randrange(len(data))
        saved.write_bytes(data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :] if draw.random() < 0.7 else data[:at])
        if saved.read_bytes() != data:
            assert exe.load_cache(saved).misses


def test_mistakes(tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exe = relay.compile(op.program("3000"))
    for call in (exe.save_cache, exe.load_cache):
        with pytest.raises(relay.ConfigError) as wrong:
            call(saved, "kernel")
        assert str(wrong.value) == (
            "error: there is no kind of cache 'kernel'\nhelp: did you mean 'kernels'? valid: kernels, tuning, all"
        )
    with pytest.raises(relay.RelayError, match=f"cannot read {tmp_path / 'none'}: No such file or directory"):
        exe.load_cache(tmp_path / "none")
    with pytest.raises(relay.RelayError, match=f"cannot read {tmp_path}: Is a directory"):
        exe.load_cache(tmp_path)
    with pytest.raises(relay.RelayError, match=f"cannot write {tmp_path}: it is not a regular file"):
        exe.save_cache(tmp_path)
    fresh_cache(monkeypatch, tmp_path / "elsewhere")
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, "0")
    with pytest.raises(relay.RelayError) as lost:
        exe.save_cache(tmp_path / "lost")
    assert "kernels cannot be saved: the cache does not hold them\nhelp: the cache folder must be usable" in str(lost.value)
    assert not (tmp_path / "lost").exists()


def test_kernels_are_used_where_nothing_can_be_kept(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exe = relay.compile(op.program("3000"))
    fresh_cache(monkeypatch, tmp_path / "elsewhere")
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, "0")
    loaded = exe.load_cache(saved, "kernels")
    relay.VirtualMachine(exe)
    assert loaded.kernels > 1 and kernel_store.counters["compiles"] == 0 and not (tmp_path / "elsewhere").exists()


def test_all_kinds_are_documented() -> None:
    assert saved_cache.save_cache.__defaults__ == ("all",) and "all" in KINDS
    assert all(f"``{kind}``" in (relay.Executable.save_cache.__doc__ or "") for kind in KINDS)


FIRST = """
import sys
import relayvm as relay
exe = relay.compile('#[version = "0.0.5"]\\ndef @main(%x: Tensor[(?, 3), float32]) { tanh(multiply(%x, 0.625f)) }')
exe.save(sys.argv[1])
exe.save_cache(sys.argv[2])
"""
SECOND = """
import sys, json
import numpy as np
import relayvm as relay
from relayvm.ops.native.compiled import kernel_store as store
exe = relay.Executable.load(sys.argv[1])
exe.load_cache(sys.argv[2], strict=True)
relay.VirtualMachine(exe).run(np.ones((2, 3), np.float32))
print(json.dumps(store.counters))
"""


def test_a_process_of_its_own_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the first process finds the cache of all tests
    warned = []
    for number, script in enumerate((FIRST, SECOND)):
        command = [sys.executable, "-c", script, str(tmp_path / "model.rvm"), str(tmp_path / "saved")]
        env = os.environ | ({disk_cache.FOLDER_VARIABLE: str(tmp_path / "elsewhere")} if number else {})
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        warned.append(done.stdout)
    counters = json.loads(warned[1])
    assert counters.get("compiles", 0) == 0 < counters["disk_hits"], "nor the machine itself"
