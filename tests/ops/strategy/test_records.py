"""Tuning records: whole lines or none, with any writers; an unusable record is named, and the run continues."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from relayvm.ops.native.cache import checked_lines, disk_cache
from relayvm.ops.native.cache.cache_key import CacheKey
from relayvm.ops.native.cache.checked_lines import CheckedLine, RejectedLine
from relayvm.ops.native.cache.disk_cache import CacheWarning
from relayvm.ops.native.tuning import tuning_records
from relayvm.ops.native.tuning.tuning_records import Record

from ..native.fresh import fresh_cache, fresh_process
from ..native.test_store_races import child, ended

PROCESSES, EACH = 8, 1000


def record(number: int, data: int = 0, version: int = tuning_records.FORMAT_VERSION) -> Record:
    fields = {tuning_records.FORMAT_FIELD: str(version), "operator": f"op {number}", "bucket": "(?n, 4)"}
    return Record(CacheKey.of("tuning", fields), {"chosen": "loops", "ns": [1.5, data]})


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = fresh_cache(monkeypatch, tmp_path)
    tuning_records._record_file.cache_clear()
    return folder


@contextlib.contextmanager
def one_warning(words: str) -> Iterator[None]:
    with pytest.warns(CacheWarning) as warned:
        yield
    assert [str(w.message) for w in warned] == [words]


# ---- lines -------------------------------------------------------------------------------------------------------------------


def test_no_byte_of_a_line_can_change_and_none_can_be_missing() -> None:
    line = record(1).line()
    assert tuning_records.parse(line) == ([record(1)], [])
    assert json.loads(line)["record"]["data"] == record(1).data, "a line is JSON"
    damaged = [line[:i] + bytes([line[i] ^ 1 << bit]) + line[i + 1 :] for i in range(len(line) - 1) for bit in range(8)]
    damaged += [line[:i] for i in range(1, len(line) - 1)]
    for bad in damaged:
        found, refused = tuning_records.parse(bad)
        assert not found and refused, bad


def sealed(text: bytes) -> bytes:
    """A line with a right checksum around this text."""
    return b'{"check":"' + checked_lines._check(text) + b'","record":' + text + b"}\n"


@pytest.mark.parametrize(
    "text",
    [
        b"", b"1", b"[1]", b"{", b"\xff", b'{"a": NaN}', b'{"a": "\\ud800"}', b"[" * 5000, b'{"fields": 3, "data": {}}', b"{}",
        b'{"fields": [], "data": {}}', b'{"fields": [["a"]], "data": {}}', b'{"fields": [["kind", 1]], "data": {}}',
        b'{"fields": [["kind", "tuning"]], "data": []}', b'{"fields": [["kind", "tuning"]], "data": {}}',
    ],
)  # fmt: skip
def test_a_right_checksum_does_not_make_a_record(text: bytes) -> None:
    found, refused = tuning_records.parse(sealed(text))
    assert not found and len(refused) == 1


def test_lines_are_numbered_and_blank_ones_do_not_count() -> None:
    data = b"\n" + record(1).line() + b"  \nforeign\n" + record(2).line()
    assert [(type(line), line.line) for line in checked_lines.unpack(data)] == [
        (CheckedLine, 2),
        (RejectedLine, 4),
        (CheckedLine, 5),
    ]
    with pytest.raises(ValueError, match="at most 65536 are possible"):
        checked_lines.pack({"a": "b" * checked_lines.MAX_LINE_BYTES})
    (long,) = checked_lines.unpack(b"x" * (checked_lines.MAX_LINE_BYTES + 1))
    assert long == RejectedLine(1, "it has 65537 bytes, of at most 65536")


# ---- the file ----------------------------------------------------------------------------------------------------------------


def test_what_is_saved_is_known_and_the_last_one_holds(cache: Path) -> None:
    assert tuning_records.load() == {} and not cache.exists(), "looking makes nothing"
    assert tuning_records.save([record(1), record(2)]) == 2
    assert tuning_records.load() == {record(n).key.id: record(n) for n in (1, 2)}
    assert tuning_records.save([record(1, data=7)]) == 1
    tuning_records._record_file.cache_clear()
    assert tuning_records.load() == {record(1).key.id: record(1, data=7), record(2).key.id: record(2)}
    assert (cache / "tuning.jsonl").stat().st_mode & 0o777 == 0o600


def test_what_another_process_adds_is_seen(cache: Path) -> None:
    tuning_records.save([record(1)])
    assert len(tuning_records.load()) == 1
    assert ended(child(lambda: tuning_records.save([record(2)]))) == 0
    assert len(tuning_records.load()) == 2
    tuning_records.path().unlink()
    assert tuning_records.load() == {}
    tuning_records.save([record(n) for n in range(5)])
    assert len(tuning_records.load()) == 5, "another file of the same name"


def test_eight_processes_lose_nothing(cache: Path) -> None:
    def save(process: int) -> None:
        for number in range(EACH):
            tuning_records.save([record(process * EACH + number)])

    pids = [child(lambda process=process: save(process)) for process in range(PROCESSES)]
    assert [ended(pid) for pid in pids] == [0] * PROCESSES
    found, refused = tuning_records.parse(tuning_records.path().read_bytes())
    assert refused == [] and len(found) == len({r.key.id for r in found}) == PROCESSES * EACH == len(tuning_records.load())


def test_a_cut_line_costs_only_itself(cache: Path) -> None:
    tuning_records.save([record(1), record(2)])
    where = tuning_records.path()
    where.write_bytes(where.read_bytes()[:-20])
    why = "it is not a line of this format, or is cut short"
    with one_warning(f"a line of {where} cannot be used (line 2: {why}); it is left out"):
        assert list(tuning_records.load().values()) == [record(1)]
    tuning_records.save([record(3)])
    assert list(tuning_records.load().values()) == [record(1), record(3)]


def test_foreign_old_and_newer_lines_are_named_once(cache: Path) -> None:
    tuning_records.save([record(1), record(2, version=0), record(3, version=99)])
    where = tuning_records.path()
    with where.open("ab") as file:
        file.write(b"notes\n" + b"\x89PNG\r\n\0\n" + record(4).line())
    with pytest.warns(CacheWarning) as warned:
        assert list(tuning_records.load().values()) == [record(1), record(4)]
        fresh = tuning_records._RecordFile(where).read()
    assert len(warned) == 1 and list(fresh.values()) == [record(1), record(4)]
    versions = [f"line {n + 1}: it has the format version {v}; this relayvm reads version 1" for n, v in ((1, 0), (2, 99))]
    why = "; ".join([*versions, "line 4: it is not a line of this format, or is cut short", "and 2 more"])
    assert str(warned[0].message) == f"5 lines of {where} cannot be used ({why}); they are left out"


def test_a_huge_file_is_neither_read_nor_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning_records.save([record(1)])
    where, size = tuning_records.path(), tuning_records.path().stat().st_size
    monkeypatch.setattr(tuning_records, "MAX_BYTES", size - 1)
    lost = "those of this process are lost with it"
    words = f"tuning records cannot be kept in {where} (it has {size} bytes, of at most {size - 1}); {lost}"
    with one_warning(words):
        assert tuning_records.load() == {} and tuning_records.save([record(2)]) == 0
        assert list(tuning_records.load().values()) == [record(2)], "what could not be written holds in this process"
    assert where.stat().st_size == size


def test_a_long_file_is_shortened_to_the_last_record_of_each_key(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = record(50, version=99).line()
    limit = 40 * len(newer)
    monkeypatch.setattr(tuning_records, "SHORTEN_BYTES", limit)
    disk_cache.make_folder(cache)
    tuning_records.path().write_bytes(newer + b"damaged\n")
    for turn in range(200):
        tuning_records.save([record(turn % 5, data=turn)])
        assert tuning_records.path().stat().st_size <= limit
    with pytest.warns(CacheWarning):
        known = tuning_records.load()
    assert {r.data["ns"][1] for r in known.values()} == {*range(195, 200)}
    assert newer in tuning_records.path().read_bytes(), "whole lines of other versions stay"
    assert sorted(f.name for f in cache.iterdir()) == ["tuning.jsonl", "tuning.lock"], "nothing temporary is left"


def test_many_keys_leave_the_newest(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_records, "SHORTEN_BYTES", 40 * len(record(1).line()))
    for number in range(100):
        tuning_records.save([record(number)])
    known = tuning_records.load().values()
    assert record(99) in known and record(0) not in known and 15 <= len(known) <= 40


@pytest.mark.skipif(os.name != "posix", reason="no permission bits here")
def test_a_file_that_others_may_write_is_not_used(cache: Path) -> None:
    tuning_records.save([record(1)])
    where = cache / "tuning.jsonl"
    where.chmod(0o666)
    with one_warning(f"no tuning records are used (other users may write to {where})"):
        assert tuning_records.load() == {} and tuning_records.save([record(2)]) == 0


def test_no_folder_and_no_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, "0")
    assert tuning_records.save([record(1)]) == 0 and not cache.exists()
    monkeypatch.delenv(disk_cache.CAP_VARIABLE)
    monkeypatch.setenv(disk_cache.FOLDER_VARIABLE, "~nobody-of-this-name/cache")
    with one_warning("no tuning records are used (there is no home folder; set RELAYVM_CACHE_DIR)"):
        assert [*tuning_records.load().values()] == [record(1)] and tuning_records.save([record(2)]) == 0
    fresh_process(monkeypatch)
    blocked = cache.parent / "file"
    blocked.write_text("")
    monkeypatch.setenv(disk_cache.FOLDER_VARIABLE, str(blocked / "cache"))
    with pytest.warns(CacheWarning, match=r"tuning records cannot be kept in .*; those of this process are lost with it"):
        assert tuning_records.load() == {} and tuning_records.save([record(1)]) == 0


def test_without_locks_nothing_is_lost(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refuse(handle: int, operation: int) -> None:
        raise OSError("no locks on this disk")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(tuning_records, "SHORTEN_BYTES", 1)
    tuning_records.save([record(1)])
    tuning_records.save([record(2)])
    assert len(tuning_records.load()) == 2


def test_clear(cache: Path) -> None:
    assert tuning_records.clear() == (0, 0)
    tuning_records.save([record(1)])
    size = tuning_records.path().stat().st_size
    assert tuning_records.clear() == (1, size) and tuning_records.load() == {}
