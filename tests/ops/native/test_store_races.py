"""Many processes at once, and processes that are killed: an entry is whole or not there."""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.cache.cache_entry import Entry
from relayvm.ops.native.compiled import kernel_store

from ... import tiers
from .fresh import entry, fresh_cache, fresh_process, key

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

PROCESSES, KEYS = 8, 100


def child(work: Callable[[], object]) -> int:
    """Run ``work`` in a process of its own, which ends with 0 if it returns; its id."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def ended(pid: int) -> int:
    """Wait for a process: its exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def payload(number: int, process: int) -> bytes:
    """The code that process ``process`` compiles: its length depends on the key, its contents on the process."""
    return bytes([process]) * (1000 + 37 * number)


def test_eight_processes_and_a_hundred_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    start = tmp_path / "start"

    def work(process: int) -> Callable[[], object]:
        def run() -> None:
            fresh_process(monkeypatch)
            order = random.Random(process).sample(range(KEYS), KEYS)
            while not start.exists():
                time.sleep(0.001)
            for number in order:
                found = kernel_store.get_or_make(key(number), "k", lambda number=number: payload(number, process))
                assert found == payload(number, found[0]), "a whole winner, of whichever process"
            uses = kernel_store.counters
            assert uses["compiles"] + uses["disk_hits"] == KEYS
            (tmp_path / f"done {process}").write_text(str(uses["compiles"]))

        return run

    pids = [child(work(process)) for process in range(PROCESSES)]
    start.touch()
    assert [ended(pid) for pid in pids] == [0] * PROCESSES
    found = [disk_cache.check(file.path) for file in disk_cache.entry_files()]
    assert sorted(e.key.id for e in found) == sorted(key(n).id for n in range(KEYS)), "one entry a key"
    winners = {e.key: e.payload for e in found}
    for number in range(KEYS):
        assert winners[key(number)] == payload(number, winners[key(number)][0])
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []
    assert sum(int((tmp_path / f"done {p}").read_text()) for p in range(PROCESSES)) >= KEYS
    fresh_process(monkeypatch)
    for number in range(KEYS):
        kernel_store.get_or_make(key(number), "k", pytest.fail)
    assert kernel_store.counters["disk_hits"] == KEYS and kernel_store.counters["compiles"] == 0


def whole(number: int) -> Entry:
    return entry(number, nbytes=200_000)


def all_whole(cache: Path, numbers: range) -> int:
    """Every entry is one of those that were written, and whole; how many there are."""
    known = {key(n).id: n for n in numbers}
    files = list(disk_cache.entry_files())
    for file in files:
        assert disk_cache.check(file.path) == whole(known[file.id])
    return len(files)


@pytest.mark.drawn
def test_killed_at_any_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """200 processes (fewer in ``make test``) that do nothing but write, each killed after a random time."""
    cache = fresh_cache(monkeypatch, tmp_path)
    rng, numbers = random.Random(4), range(40)

    def write_for_ever() -> None:
        while True:
            for number in numbers:
                disk_cache.write(whole(number))

    least = tiers.examples(200)
    for killed in itertools.count(1):
        pid = child(write_for_ever)
        time.sleep(rng.uniform(0.0005, 0.006) * (1 + killed / 100))  # longer where other work delays the writes
        os.kill(pid, signal.SIGKILL)
        assert ended(pid) == -signal.SIGKILL
        left = len(list((cache / "tmp").glob("*")))
        if killed >= least and left > 0 and all_whole(cache, numbers) > 0:
            break
        assert killed < 1000, "none was hit while it wrote"
    assert all_whole(cache, numbers) > 0
    for number in numbers:
        disk_cache.write(whole(number))
    assert all_whole(cache, numbers) == len(numbers)
    for file in (cache / "tmp").iterdir():
        os.utime(file, (0, 0))
    disk_cache.prune(1 << 30)
    assert list((cache / "tmp").iterdir()) == []


@pytest.mark.split(2)
@pytest.mark.parametrize("replaced", [False, True], ids=["new", "replaced"])
def test_killed_at_every_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, replaced: bool) -> None:
    """A write dies after each of its calls, and after each sixteenth of its bytes."""
    cache = fresh_cache(monkeypatch, tmp_path)
    if replaced:
        disk_cache.write(whole(1))
    steps = 0
    while ended(child(lambda step=steps: dying(step))) == -signal.SIGKILL:
        assert all_whole(cache, range(2)) in ((1,) if replaced else (0, 1))
        steps += 1
    assert steps >= 20 and all_whole(cache, range(2)) == 1


def dying(step: int) -> None:
    """Write an entry; die just before step number ``step``, of as many as there are."""
    taken = 0

    def before(call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*args: object, **kwargs: object) -> object:
            nonlocal taken
            if taken == step:
                os.kill(os.getpid(), signal.SIGKILL)
            taken += 1
            return call(*args, **kwargs)

        return wrapped

    class Slowly:
        """A file to which bytes go in sixteen writes."""

        def __init__(self, handle: int) -> None:
            self.handle = handle

        def __enter__(self) -> Slowly:
            return self

        def write(self, data: bytes) -> None:
            size = len(data) // 16 + 1
            for at in range(0, len(data), size):
                before(os.write)(self.handle, data[at : at + size])

        def __exit__(self, *_: object) -> None:
            before(os.close)(self.handle)

    os.fdopen = lambda handle, mode: Slowly(handle)  # this process ends here
    os.mkdir, os.replace = before(os.mkdir), before(os.replace)
    tempfile.mkstemp = before(tempfile.mkstemp)
    disk_cache.write(whole(1))
    before(lambda: None)()
