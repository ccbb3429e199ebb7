"""A kernel cache of a test's own: a new folder, and nothing known in the process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.cache.cache_entry import Entry
from relayvm.ops.native.cache.cache_key import CacheKey
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.tuning import tuning_records


def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the kernel store to the state of a new process: nothing loaded, counted or warned of."""
    monkeypatch.setattr(kernel_store, "counters", Counter())
    monkeypatch.setattr(kernel_store, "_addresses", kernel_store.SingleFlight())
    monkeypatch.setattr(kernel_store, "_payloads", kernel_store.SingleFlight())
    monkeypatch.setattr(kernel_store, "_parts", kernel_store.SingleFlight())
    monkeypatch.setattr(kernel_store, "_offered", {})
    monkeypatch.setattr(kernel_store, "_known", {})
    monkeypatch.setattr(kernel_store, "requested", {})
    monkeypatch.setattr(disk_cache, "_writes", type(disk_cache._writes)())
    monkeypatch.setattr(tuning_records, "_unsaved", {})
    disk_cache._causes.cache_clear()


def fresh_cache(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """A new process with an empty cache: its folder, which does not exist yet."""
    monkeypatch.setenv(disk_cache.FOLDER_VARIABLE, str(folder / "cache"))
    monkeypatch.delenv(disk_cache.CAP_VARIABLE, raising=False)
    fresh_process(monkeypatch)
    return folder / "cache"


def key(number: int, arch: str = "sm_90") -> CacheKey:
    return CacheKey.of("cubin", {"source": f"text {number}", "arch": arch})


def entry(number: int, nbytes: int = 64, arch: str = "sm_90") -> Entry:
    """An entry whose code is its number, again and again."""
    return Entry(key(number, arch), f"kernel {number}", "", bytes([number % 256]) * nbytes)
