"""Conditions that hold for all elements, or for none, by the ranges of positions and sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.commands.cli import main

from ...programs import HEADER

CONDITIONS = [
    ("greater_equal(%i, 0i64)", True),
    ("less(%i, 0i64)", False),
    ("greater(%i, -1i64)", True),
    ("less_equal(0i64, %i)", True),
    ('broadcast_to_like(greater_equal(shape_of(%x, dtype="int64"), 0i64), %x)', True),
    ("greater_equal(minimum(%i, 3i64), 0i64)", True),
    ("logical_and(greater_equal(%i, 0i64), logical_not(less(%i, -2i64)))", True),
    ("less(maximum(%i, 7i64), 7i64)", False),
    ('greater_equal(cast(cast(%i, dtype="int32"), dtype="int64"), 0i64)', None),  # a cast may wrap
    ("greater_equal(%i - 1i64, 0i64)", None),
    ("greater(%i, 0i64)", None),
    ("greater_equal(%w, 0i64)", None),
]


@pytest.mark.parametrize("condition, known", CONDITIONS)
def test_a_choice_by_a_condition_of_positions(
    condition: str, known: bool | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        HEADER + "def @main(%x: Tensor[(?n), float32], %w: Tensor[(?n), int64]) {"
        ' let %i = arange(0i64, take(shape_of(%x, dtype="int64"), 0i64, axis=0), 1i64, dtype="int64");'
        f" where({condition}, %x, %x + 1f) }}"
    )
    (tmp_path / "choice.relay").write_text(text)
    assert main(["dump", str(tmp_path / "choice.relay"), "--stage", "fused"]) == 0
    assert ("where(" in capsys.readouterr().out) == (known is None)
    x, w = np.arange(3, dtype=np.float32), np.array([-1, 0, 1])
    found, plain = (relay.VirtualMachine(relay.compile(text, opt_level=level)).run(x, w).tolist() for level in (2, 0))
    assert found == plain
    assert known is None or found == (x if known else x + 1).tolist()
