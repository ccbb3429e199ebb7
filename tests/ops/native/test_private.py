"""A cache that another user can change is not used, wherever on the way to an entry that is."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from pwd import struct_passwd

import pytest

from relayvm.ops.native.cache import disk_cache, private_files
from relayvm.ops.native.cache.disk_cache import CacheWarning
from relayvm.ops.native.cache.private_files import NotPrivate
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.tuning import tuning_records
from relayvm.ops.native.tuning.fingerprint import TUNING, fingerprint

from .fresh import entry, fresh_cache, fresh_process, key

OTHER = 12345
posix = pytest.mark.skipif(os.name != "posix", reason="no permission bits here")
root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A cache in a folder of its own, with entry 1."""
    (tmp_path / "above").mkdir()
    made = fresh_cache(monkeypatch, tmp_path / "above")
    disk_cache.write(entry(1))
    tuning_records.save([record(1)])
    yield made


def record(number: int) -> tuning_records.Record:
    return tuning_records.Record(fingerprint(TUNING, {"of": f"test {number}"}, {}), {"number": number})


def mode(bits: int) -> Callable[[Path], None]:
    return lambda path: path.chmod(bits)


def given_away(path: Path) -> None:
    os.chown(path, OTHER, OTHER)


def shared_with_a_group(path: Path) -> None:
    os.chown(path, -1, OTHER)
    path.chmod(0o770)


def through_a_link(path: Path) -> None:
    """As the link of another user, who can let it point elsewhere."""
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))
    os.lchown(path, OTHER, OTHER)


def linked(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))


def named_twice(path: Path) -> None:
    os.link(path, path.with_name("moved"))


def as_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


_BY_ROOT = (given_away, through_a_link, shared_with_a_group)
ENTRY = f"entries/{key(1).id[:2]}/{key(1).id[2:]}"
#: What is wrong with which path, "" for the folder of the cache, and words of the warning.
CASES = [
    *(
        pytest.param(place, change, words, marks=root if change in _BY_ROOT else (), id=f"{place or 'it'}-{name}")
        for place in ("..", "", "entries", "tmp", f"entries/{key(1).id[:2]}", ENTRY)
        for name, change, words in (
            ("all may write", mode(0o777), "other users may write to "),
            ("the group may write", shared_with_a_group, "other users may write to "),
            ("another user's", given_away, "belongs to another user"),
        )
    ),
    pytest.param("", through_a_link, "belongs to another user", marks=root, id="it-link"),
    pytest.param("entries", linked, "is a link", id="entries-link"),
    pytest.param("tmp", linked, "is a link", id="tmp-link"),
    pytest.param(ENTRY, linked, "is no ordinary file", id="entry-link"),
    pytest.param(ENTRY, named_twice, "has a second name", id="entry-second name"),
    pytest.param(ENTRY, as_a_pipe, "is no ordinary file", id="entry-pipe"),
]


@posix
@pytest.mark.parametrize(("place", "change", "words"), CASES)
def test_what_another_user_can_change_is_neither_read_nor_written(
    cache: Path, monkeypatch: pytest.MonkeyPatch, place: str, change: Callable[[Path], None], words: str
) -> None:
    change(cache / place)
    of_one_entry, only_written = place == ENTRY, place == "tmp"
    fresh_process(monkeypatch)
    with pytest.warns(CacheWarning) as warned:
        for number in (1, 2):
            got = kernel_store.get_or_make(key(number), "k", lambda: b"new")
            assert got == (entry(1).payload if only_written and number == 1 else b"new")
    assert len(warned) == 1 and words in str(warned[0].message)
    written = {file.relative_to(cache).as_posix() for file in (cache / "entries").rglob("*") if file.is_file()}
    second = f"entries/{key(2).id[:2]}/{key(2).id[2:]}"
    in_other_folder = place == f"entries/{key(1).id[:2]}" != f"entries/{key(2).id[:2]}"
    assert (second in written) == (of_one_entry or in_other_folder)


@posix
@root
def test_a_file_that_another_user_has_put_into_tmp_never_becomes_an_entry(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``tmp`` theirs they could put a file of their own under the name of one that is being written."""
    given_away(cache / "tmp")
    replace = os.replace

    def swapped(source: str, to: Path) -> None:
        Path(source).unlink()
        Path(source).write_bytes(b"of another user")
        replace(source, to)

    monkeypatch.setattr(os, "replace", swapped)
    fresh_process(monkeypatch)
    with pytest.warns(CacheWarning, match="belongs to another user"):
        disk_cache.write(entry(2))
    assert [file.id for file in disk_cache.entry_files()] == [key(1).id]


@posix
@pytest.mark.parametrize("place", ["..", "", "tuning.jsonl"])
@pytest.mark.parametrize("change", [mode(0o777), pytest.param(given_away, marks=root)])
def test_records_that_another_user_can_change(cache: Path, place: str, change: Callable[[Path], None]) -> None:
    assert len(tuning_records.load()) == 1
    change(cache / place)
    with pytest.warns(CacheWarning, match="no tuning records are used"):
        assert tuning_records.load() == {} and tuning_records.save([record(2)]) == 0


@posix
def test_sticky_folders_on_the_way_and_links_of_ones_own_are_fine(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache.parent.chmod(0o777 | stat.S_ISVTX)
    (tmp_path / "link").symlink_to("above/../above/cache")
    (tmp_path / "absolute").symlink_to(tmp_path / "link")
    monkeypatch.setenv(disk_cache.FOLDER_VARIABLE, str(tmp_path / "absolute"))
    fresh_process(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kernel_store.get_or_make(key(1), "k", pytest.fail) == entry(1).payload
        assert kernel_store.get_or_make(key(2), "k", lambda: b"new") == b"new" and len(list(disk_cache.entry_files())) == 2


@posix
def test_links_in_a_circle_are_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        private_files.check_folder(tmp_path / "a" / "c")
    with pytest.raises(NotPrivate, match="is no ordinary file"):
        private_files.open_file(tmp_path / "a")
    with pytest.raises(IsADirectoryError):
        private_files.open_file(tmp_path)
    assert private_files.check_folder(tmp_path / "not" / "there") == tmp_path / "not" / "there"
    (tmp_path / "file").write_text("")
    assert private_files.check_folder(tmp_path / "file" / "there")


@posix
def test_a_folder_on_the_way_may_be_written_by_the_group_of_this_user_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "..").chmod(0o770)
    group = (cache / "..").stat().st_gid
    for own in (True, False):
        monkeypatch.setattr(
            private_files, "_is_own_group", lambda asked, user, own=own: own and asked == group and user == os.geteuid()
        )
        if own:
            private_files.check_folder(cache)
        else:
            with pytest.raises(NotPrivate, match="other users may write to "):
                private_files.check_folder(cache)
    (cache / "..").chmod(0o777)
    monkeypatch.setattr(private_files, "_is_own_group", lambda asked, user: True)
    with pytest.raises(NotPrivate, match="other users may write to "):
        private_files.check_folder(cache)


@posix
def test_whose_group_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    people = [struct_passwd(("me", "", 7, 70, "", "", "")), struct_passwd(("you", "", 8, 80, "", "", ""))]
    members = {70: [], 71: ["me"], 80: [], 72: ["me", "you"]}
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: {p.pw_uid: p for p in people}[uid])
    monkeypatch.setattr(pwd, "getpwall", lambda: people)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("g", "", gid, members[gid])))
    mine = private_files._is_own_group.__wrapped__
    assert [mine(gid, 7) for gid in (70, 71, 72, 80, 99)] == [True, False, False, False, False]
    assert not mine(70, 9), "a user without a name"
    members[70] = ["you"]
    assert not mine(70, 7)
    members[70] = ["me"]
    assert mine(70, 7)
    people.append(struct_passwd(("guest", "", 9, 70, "", "", "")))
    assert not mine(70, 7)
