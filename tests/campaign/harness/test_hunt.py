"""The harness finds each way of failing, by its seed, goes on behind it, and makes the case smaller."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..hunt import hunt, write
from ..worker import Finding
from .deliberate import CRASH, ERROR, HANG, PART, WRONG

WANTED = {CRASH: "crash", HANG: "hang", ERROR: "error", WRONG: "wrong"}


@pytest.mark.extensive
def test_every_failure_is_found_made_smaller_and_becomes_a_test(tmp_path: Path) -> None:
    report = hunt(PART.name, 0, 100, 0.0, 2)
    assert {f.seed: f.kind for f in report.findings} == WANTED
    assert report.trials == 100
    # a process that ended took with it the counts of its batch; no other is missing
    assert 5 * 30 <= report.seen["numbers"] < 5 * 100
    for finding in report.findings:
        path = write(PART.name, finding, tmp_path)
        assert f"assert [{finding.seed}] == []" in path.read_text("utf-8")
        compile(path.read_text("utf-8"), str(path), "exec")


def test_a_finding_of_another_kind_is_not_the_same() -> None:
    crash, key, value = Finding(0, "crash", "x"), Finding(0, "error", "KeyError: 1"), Finding(0, "error", "ValueError: 1")
    assert key.same_kind(Finding(1, "error", "KeyError: 2"))
    assert not key.same_kind(value)
    assert not key.same_kind(crash)
    assert not key.same_kind(None)


def test_without_a_count_the_time_ends_it() -> None:
    report = hunt(PART.name, 1000, None, 0.5, 1)
    assert report.trials > 0
    assert not report.findings
