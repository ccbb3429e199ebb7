"""Locks of entries: one process at a time makes an entry, and a lock ends with its process."""

from __future__ import annotations

import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.cache.cache_key import CacheKey
from relayvm.ops.native.cache.file_locks import one_at_a_time

from .fresh import fresh_cache

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files are not locked there")
KEY, OTHER = (CacheKey.of("object", {"source": name}) for name in ("a", "b"))


def hold(key: CacheKey, entered: Any, end: Any) -> None:
    with one_at_a_time(key):
        entered.set()
        end.wait()


@pytest.fixture
def holder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A process that holds the lock of ``KEY``, and the event that ends its context."""
    fresh_cache(monkeypatch, tmp_path)
    context = multiprocessing.get_context("fork")
    entered, end = context.Event(), context.Event()
    process = context.Process(target=hold, args=(KEY, entered, end))
    process.start()
    assert entered.wait(60)
    yield process, end
    process.kill()
    process.join()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_process_waits_for_the_process_that_has_the_lock(holder: Any, is_killed: bool) -> None:
    process, end = holder
    with one_at_a_time(OTHER):  # another entry needs no wait
        assert process.is_alive()
    waiting = multiprocessing.get_context("fork").Event()
    second = multiprocessing.get_context("fork").Process(target=hold, args=(KEY, waiting, end))
    second.start()
    try:
        assert not waiting.wait(0.2)
        if is_killed:
            process.kill()
        else:
            end.set()
        assert waiting.wait(60)
    finally:
        second.kill()
        second.join()


def test_the_folder_keeps_no_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    with one_at_a_time(KEY):
        assert disk_cache.lock_path(KEY.id).exists()
    assert not disk_cache.lock_path(KEY.id).exists()


def test_without_a_cache_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, "0")
    with one_at_a_time(KEY), one_at_a_time(KEY):
        time.sleep(0)
