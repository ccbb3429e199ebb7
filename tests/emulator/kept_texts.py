"""The CUDA texts that ``make test`` keeps for ``rest``: a folder for each run, since runs share the folder of the cache.

A run holds a lock of its folder until its process ends: a run that writes alone, runs that read together.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

#: The environment variable with the folder of this run, for its workers and the processes that its tests start.
VARIABLE = "RELAYVM_TEXTS_OF_TEST"


def begin(writes: bool) -> int | None:
    """Take the folder of this run: a new folder for a run that ``writes``, else the newest that a run has completed.

    A run that writes removes the folders that no run holds.  Returns the file descriptor with the lock; None without a folder.
    """
    runs = Path(os.environ["RELAYVM_CACHE_DIR"]) / "texts_of_test"
    runs.mkdir(parents=True, exist_ok=True)
    choosing = os.open(runs, os.O_RDONLY)
    fcntl.flock(choosing, fcntl.LOCK_EX)
    try:
        return _new(runs) if writes else _newest(runs)
    finally:
        os.close(choosing)


def _new(runs: Path) -> int | None:
    for folder in _folders(runs):
        if (unused := _held(folder, fcntl.LOCK_EX)) is not None:
            shutil.rmtree(folder)
            os.close(unused)
    return _taken(Path(tempfile.mkdtemp(prefix=f"{time.time_ns()}-", dir=runs)), fcntl.LOCK_EX)


def _newest(runs: Path) -> int | None:
    return next((lock for f in reversed(_folders(runs)) if (lock := _taken(f, fcntl.LOCK_SH)) is not None), None)


def _folders(runs: Path) -> list[Path]:
    """The folders of runs, the oldest first."""
    return sorted(path for path in runs.iterdir() if path.is_dir())


def _taken(folder: Path, kind: int) -> int | None:
    lock = _held(folder, kind)
    if lock is not None:
        os.environ[VARIABLE] = str(folder)
    return lock


def _held(folder: Path, kind: int) -> int | None:
    """A file descriptor with a lock of the folder; None where another run has the lock."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def keep(text: str) -> None:
    """Keep a text, under the hash of its content."""
    path = Path(os.environ[VARIABLE]) / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.cu"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")  # threads compile equal texts at the same time
        part.write_text(text)
        part.replace(path)


def texts() -> Iterator[str]:
    """The texts in the folder of this run, in the order of their hashes."""
    folder = os.environ.get(VARIABLE)
    return (path.read_text() for path in sorted(Path(folder).glob("*.cu"))) if folder else iter(())
