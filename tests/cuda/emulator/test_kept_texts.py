"""Runs of the tests at the same time, with one cache folder: each has its own texts, and ``rest`` those of a whole run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ...emulator import kept_texts


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the folders of runs."""
    monkeypatch.setenv("RELAYVM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(kept_texts.VARIABLE, "")
    return tmp_path / "texts_of_test"


@contextmanager
def run(writes: bool) -> Iterator[None]:
    """A run of the tests: its environment until the block ends."""
    before = os.environ[kept_texts.VARIABLE]
    lock = kept_texts.begin(writes)
    try:
        yield
    finally:
        os.environ[kept_texts.VARIABLE] = before
        if lock is not None:
            os.close(lock)


def test_a_run_keeps_its_texts_while_another_begins() -> None:
    with run(writes=True):
        kept_texts.keep("first")
        with run(writes=True):
            assert list(kept_texts.texts()) == []
            kept_texts.keep("second")
            kept_texts.keep("second")
        kept_texts.keep("more")
        assert set(kept_texts.texts()) == {"first", "more"}
    with run(writes=False):
        assert list(kept_texts.texts()) == ["second"]


def test_rest_reads_the_newest_run_that_has_ended_and_holds_it(folder: Path) -> None:
    with run(writes=False):
        assert list(kept_texts.texts()) == []
    with run(writes=True):
        kept_texts.keep("whole")
    with run(writes=True):
        kept_texts.keep("newer")
    assert len(list(folder.iterdir())) == 1, "a run removes the folders of runs that have ended"
    with run(writes=False), run(writes=False):
        with run(writes=True):
            kept_texts.keep("a part")
            with run(writes=False):
                assert list(kept_texts.texts()) == ["newer"]
        assert list(kept_texts.texts()) == ["newer"]
