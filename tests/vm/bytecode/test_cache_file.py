"""The file of a saved cache: a round trip, and the refusal of all other files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from relayvm.ops.native.cache import checked_lines
from relayvm.ops.native.cache.cache_key import CacheKey
from relayvm.ops.native.tuning.tuning_records import FORMAT_FIELD, FORMAT_VERSION, Record
from relayvm.vm.api import cache_file
from relayvm.vm.api.cache_file import MAGIC, Bundle
from relayvm.vm.diagnostics.source import CacheMismatch

from ...ops.native.fresh import entry

MADE_FOR = CacheKey.of("saved cache", {FORMAT_FIELD: "1", "relayvm": "0.1.0", "program": "abc"})


def record(number: int) -> Record:
    return Record(CacheKey.of("tuning", {FORMAT_FIELD: str(FORMAT_VERSION), "operator": f"op {number}"}), {"ns": [1.5]})


def whole() -> Bundle:
    return Bundle(MADE_FOR, (entry(1, nbytes=20), entry(2, nbytes=20)), (record(1), record(2)))


@pytest.mark.parametrize("kept", [whole(), Bundle(MADE_FOR), Bundle(MADE_FOR, records=(record(1),))])
def test_what_is_written_is_read(kept: Bundle, tmp_path: Path) -> None:
    data = kept.to_bytes()
    assert Bundle.from_bytes(data) == kept and Bundle.from_bytes(data).to_bytes() == data
    (tmp_path / "file").write_bytes(data)
    assert cache_file.read(tmp_path / "file") == kept


def test_no_byte_can_change_and_none_can_be_missing() -> None:
    data = whole().to_bytes()
    damaged = [data[:i] + bytes([data[i] ^ 1 << i % 8]) + data[i + 1 :] for i in range(len(data))]
    damaged += [data[:i] for i in range(len(data))] + [data + b"\0", data + data, data[1:]]
    for bad in damaged:
        with pytest.raises(CacheMismatch):
            Bundle.from_bytes(bad)


def sealed(header: Any, entries: bytes = b"", version: int = cache_file.FORMAT_VERSION) -> bytes:
    """A file with these contents, correct sizes and a correct checksum."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = cache_file._HEAD.pack(MAGIC, version, len(text), len(entries)) + text + entries
    return body + hashlib.sha256(body).digest()


EMPTY = {"made_for": MADE_FOR.fields, "entries": [], "records": ""}


def test_an_empty_one_is_right() -> None:
    assert Bundle.from_bytes(sealed(EMPTY)) == Bundle(MADE_FOR)


@pytest.mark.parametrize(
    "data",
    [
        sealed(b""), sealed(b"{"), sealed(b"\xff"), sealed([1]), sealed(3), sealed({}), sealed(b"[" * 9999),
        sealed(EMPTY | {"entries": 3}), sealed(EMPTY | {"entries": [1]}), sealed(EMPTY | {"entries": [-1]}),
        sealed(EMPTY | {"entries": [True]}, b"x"), sealed(EMPTY | {"entries": [1.0]}, b"x"),
        sealed(EMPTY | {"entries": [10**30]}),
        sealed(EMPTY | {"entries": [3]}, b"foo"), sealed(EMPTY, b"rest"), sealed(EMPTY | {"records": 3}),
        sealed(EMPTY | {"records": None}), sealed(EMPTY | {"records": "\ud800"}), sealed(EMPTY | {"made_for": 3}),
        sealed(EMPTY | {"made_for": [["a"]]}), sealed(EMPTY | {"made_for": [["a", 1]]}),
        sealed(EMPTY | {"made_for": [["a", "\udfff"]]}),
    ],
)  # fmt: skip
def test_a_right_checksum_does_not_make_a_bundle(data: bytes) -> None:
    with pytest.raises(CacheMismatch, match=r"^error: it is damaged: its contents do not make sense"):
        Bundle.from_bytes(data)


def test_each_fault_has_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    data = whole().to_bytes()
    line = checked_lines.pack({"fields": [["kind", "tuning"], ["format", "9"]], "data": {}}).decode()
    version = f"this one reads version {cache_file.FORMAT_VERSION}"
    for bad, words in (
        (b"", "it is no saved cache"),
        (b"PK\3\4" + data, "it is no saved cache"),
        (data[:20], "it is truncated: it ends after 20 bytes, within its first 32"),
        (data[:-1], f"it is truncated or damaged: it has {len(data) - 1} bytes, not {len(data)}"),
        (data[:-1] + b"\0", "it is damaged: its checksum does not match its contents"),
        (sealed(EMPTY, version=99), f"it has the format version 99, made by a newer relayvm; {version}"),
        (sealed(EMPTY, version=0), f"it has the format version 0, made by an older relayvm; {version}"),
        (
            sealed(EMPTY | {"records": line}),
            "its tuning records cannot be used: line 1: it has the format version 9; this relayvm reads version 1",
        ),
    ):
        with pytest.raises(CacheMismatch) as found:
            Bundle.from_bytes(bad)
        assert str(found.value) == f"error: {words}"
    monkeypatch.setattr(cache_file, "MAX_BYTES", len(data) - 1)
    with pytest.raises(CacheMismatch, match=f"it has {len(data)} bytes, of at most {len(data) - 1}"):
        Bundle.from_bytes(data)
