"""Caches: entries that are damaged, cut, swapped, another user's, writable for others, written and deleted at the same time, or
whose writer is killed; each process gets the right bytes, from the cache or made anew, and never others.

Files that are another user's hold a right checksum and wrong bytes: only their owner tells them from ours.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.cache.cache_entry import Entry, pack
from relayvm.ops.native.cache.cache_key import CacheKey
from relayvm.ops.native.compiled import kernel_store

from .part import Part

#: A seed, the number of the fault, the entries that it meets.
Case = tuple[int, str, tuple[int, ...]]
_KEYS = range(4)
_OTHER_USER = 12345


def _key(number: int) -> CacheKey:
    return CacheKey.of("cubin", {"source": f"text {number}", "arch": "sm_90"})


def _bytes(number: int) -> bytes:
    return bytes([number]) * 3000


def _path(number: int) -> Path:
    found = _key(number).id
    return disk_cache.folder() / "entries" / found[:2] / found[2:]


def _fresh() -> None:
    """Forget the cache, as a new process has."""
    kernel_store.counters.clear()
    kernel_store._addresses, kernel_store._payloads = kernel_store.SingleFlight(), kernel_store.SingleFlight()
    kernel_store._offered.clear()
    disk_cache._causes.cache_clear()
    disk_cache._writes = type(disk_cache._writes)()


def _evil(number: int) -> bytes:
    return pack(Entry(_key(number), "k", "", b"of another user"))


def _spoil(r: random.Random, fault: str, number: int) -> None:
    path = _path(number)
    data = path.read_bytes()
    if fault == "damaged":
        at = r.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << r.randrange(8)]) + data[at + 1 :])
    elif fault == "cut":
        path.write_bytes(data[: r.randrange(len(data))])
    elif fault == "swapped":
        path.write_bytes(_path(r.choice(_KEYS)).read_bytes())
    elif fault == "lengthened":
        path.write_bytes(data + r.randbytes(r.randrange(1, 99)))
    elif fault == "another user's":
        path.write_bytes(_evil(number))
        os.chown(path, _OTHER_USER, _OTHER_USER)
    elif fault == "writable":
        path.write_bytes(_evil(number))
        path.chmod(r.choice((0o666, 0o660, 0o602)))
    elif fault == "linked":
        path.rename(path.with_name("elsewhere"))
        path.with_name("elsewhere").write_bytes(_evil(number))
        (os.symlink if r.random() < 0.5 else os.link)(path.with_name("elsewhere"), path)
    elif fault == "a pipe":
        path.unlink()
        os.mkfifo(path)
    else:
        path.write_bytes(_evil(number))
        place = r.choice((path.parent, disk_cache.folder(), disk_cache.folder() / "entries", disk_cache.folder().parent))
        place.chmod(0o777) if r.random() < 0.5 else os.chown(place, _OTHER_USER, _OTHER_USER)


def _meanwhile(r: random.Random, fault: str) -> int:
    """Another process, which writes and deletes entries for ever."""
    child = os.fork()
    if child == 0:
        while True:
            number = r.choice(_KEYS)
            disk_cache.write(Entry(_key(number), "k", "", _bytes(number)))
            if r.random() < 0.3:
                _path(number).unlink(missing_ok=True)
    time.sleep(r.random() / 200)
    if fault == "killed":
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return 0
    return child


FAULTS = (
    "damaged",
    "cut",
    "swapped",
    "lengthened",
    "linked",
    "a pipe",
    "writable",
    "a folder",
    "another user's",
    "raced",
    "killed",
)


class Caches(Part[Case]):
    """Faults of the cache."""

    name, unit, slice_trials, hang_seconds = "caches", "faults", 40, 30.0

    def draw(self, seed: int) -> Case:
        """A fault, and the entries that have it."""
        r = random.Random(seed)
        faults = FAULTS if os.geteuid() == 0 else [f for f in FAULTS if f not in ("a folder", "another user's")]
        return seed, r.choice(faults), tuple(r.sample(_KEYS, r.randrange(1, 5)))

    def check(self, case: Case) -> str | None:
        """Whether a process gets other bytes than its own, twice."""
        seed, fault, numbers = case
        r, above = random.Random(seed), Path(tempfile.mkdtemp())
        before = os.environ.get(disk_cache.FOLDER_VARIABLE)
        os.environ[disk_cache.FOLDER_VARIABLE] = str(above / "cache")
        self.seen[fault] += 1
        other = 0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", disk_cache.CacheWarning)
                _fresh()
                for number in _KEYS:
                    disk_cache.write(Entry(_key(number), "k", "", _bytes(number)))
                if fault in ("raced", "killed"):
                    other = _meanwhile(r, fault)
                else:
                    for number in numbers if fault != "a folder" else numbers[:1]:
                        _spoil(r, fault, number)
                return self._wrong()
        finally:
            if other:
                os.kill(other, signal.SIGKILL)
                os.waitpid(other, 0)
            shutil.rmtree(above)
            os.environ.pop(disk_cache.FOLDER_VARIABLE)
            if before is not None:
                os.environ[disk_cache.FOLDER_VARIABLE] = before

    def _wrong(self) -> str | None:
        for _ in range(2):
            _fresh()
            for number in _KEYS:
                got = kernel_store.get_or_make(_key(number), "k", lambda number=number: _bytes(number))
                if got != _bytes(number):
                    return f"entry {number} gave {got[:20]!r}"
            self.seen.update(
                Counter({f"{how}": n for how, n in kernel_store.counters.items() if how in ("compiles", "disk_hits")})
            )
        return None

    def smaller(self, case: Case) -> list[Case]:
        """With one entry."""
        seed, fault, numbers = case
        return [(seed, fault, (n,)) for n in numbers] if len(numbers) > 1 else []

    def write(self, case: Case) -> str:
        """Check it again."""
        return f"from tests.campaign.caches import PART\n\nassert PART.check({case!r}) is None"


PART = Caches()
