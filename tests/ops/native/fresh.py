"""A kernel cache of a test's own: a new folder, and nothing known in the process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from relayvm.ops.native import disk, records, store
from relayvm.ops.native.cache_key import CacheKey
from relayvm.ops.native.entry import Entry


def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a new process knows: nothing loaded, counted or warned of."""
    monkeypatch.setattr(store, "counters", Counter())
    monkeypatch.setattr(store, "_addresses", store.SingleFlight())
    monkeypatch.setattr(store, "_payloads", store.SingleFlight())
    monkeypatch.setattr(store, "_offered", {})
    monkeypatch.setattr(store, "asked", {})
    monkeypatch.setattr(disk, "_written", type(disk._written)())
    monkeypatch.setattr(records, "_not_kept", {})
    disk._causes.cache_clear()


def fresh_cache(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """A new process with an empty cache: its folder, which does not exist yet."""
    monkeypatch.setenv(disk.FOLDER_VARIABLE, str(folder / "cache"))
    monkeypatch.delenv(disk.CAP_VARIABLE, raising=False)
    fresh_process(monkeypatch)
    return folder / "cache"


def key(number: int, arch: str = "sm_90") -> CacheKey:
    return CacheKey.of("cubin", {"source": f"text {number}", "arch": arch})


def entry(number: int, nbytes: int = 64, arch: str = "sm_90") -> Entry:
    """An entry whose code is its number, again and again."""
    return Entry(key(number, arch), f"kernel {number}", "", bytes([number % 256]) * nbytes)
