"""A folder with two programs, in which commands run."""

from __future__ import annotations

from pathlib import Path

import pytest

ROWS = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 4), float32], %wanted: float32) {
  let %rows = squeeze(argwhere(greater(sum(%x, axis=[1]), %wanted)), axis=[1]);
  (take(%x, %rows, axis=0), sum(%x))
}
def @double(%k: Tensor[(?), int32]) { %k + %k }
"""
SLICE = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 4), float32], %end: Tensor[(1), int64]) {
  dyn.strided_slice(exp(%x), zeros(shape=[1], dtype="int64"), %end, ones(shape=[1], dtype="int64"))
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.relay").write_text(ROWS)
    (tmp_path / "slice.relay").write_text(SLICE)
    return tmp_path
