"""The tests of the suite on the GPU."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import emulated, recorded
from ..figures import Goal, Recorder, Unfinished
from ..machines import ROOT
from ..processes import Ended, run
from ..scale import TINY, Scale

NONE = Goal(at_most=0)
#: Tests of the emulated GPU itself.
WITHOUT_A_GPU = ("tests/cuda",)
#: One file, where everything is tiny.
_FEW = "tests/e2e/copies/test_unread_results.py"
_WORKERS = 8
_LISTED = 40
#: Seconds reserved for the work after the tests.
_RESERVE_S = 5.0
#: Before that, no further test is begun: those that run come to their end.
_LAST_TEST_S = 20.0


def command(*more: str) -> list[str]:
    """pytest for the tests that run on the GPU."""
    ignored = [f"--ignore={folder}" for folder in WITHOUT_A_GPU]
    plugins = ["-p", "gpu.recorded", "-p", "no:cacheprovider"]
    return [sys.executable, "-m", "pytest", "-q", "--device", "cuda", "-k", "cuda", *ignored, *plugins, *more]


def environment(outcomes: Path) -> dict[str, str]:
    """The environment of such a process."""
    path = os.pathsep.join(filter(None, [str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", "")]))
    which = {emulated.VARIABLE: "1" if emulated.plugged else "0"}
    # the variables that mark a worker are only for these tests' own workers
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    return outer | which | {"PYTHONPATH": path, recorded.VARIABLE: str(outcomes)}


@dataclass(frozen=True)
class Outcomes:
    """The record of the plugin: the last outcome of each test, how many tests there are, and whether the time was over."""

    rows: list[dict[str, str]]
    collected: int
    stopped: bool

    @property
    def counts(self) -> Counter[str]:
        """The number of tests by outcome."""
        return Counter(row["outcome"] for row in self.rows)


def outcomes(path: Path) -> Outcomes:
    """The contents of the file that ``environment`` names."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    rows = [json.loads(line) for line in text.splitlines()]
    tests = {row["test"]: row for row in rows if "test" in row}
    collected = max([row[recorded.COLLECTED] for row in rows if recorded.COLLECTED in row], default=0)
    return Outcomes(list(tests.values()), collected, any(recorded.STOPPED in row for row in rows))


def measure(record: Recorder, scale: Scale, seconds: float) -> None:
    """Passed, failed and skipped tests; the names of those that failed.

    Raises RuntimeError unless all that ran passed, Unfinished where the time was over before all had run.
    """
    workers = min(_WORKERS, os.cpu_count() or 1)
    few = [_FEW, "-n0"] if scale is TINY else ["-n", str(workers)]
    with tempfile.TemporaryDirectory(prefix="relayvm-tests-") as folder:
        path = Path(folder) / "outcomes"
        limited = environment(path) | {recorded.SECONDS: str(max(seconds - _RESERVE_S - _LAST_TEST_S, seconds / 2))}
        ended = run(command(*few), seconds - _RESERVE_S, Path(folder) / "log", limited, ROOT)
        found = outcomes(path)
    record.facts(workers=workers, collected=found.collected, exit_code=ended.code)
    judge(record, found, ended)


def judge(record: Recorder, found: Outcomes, ended: Ended) -> None:
    """Figures of a run of pytest; raises as ``measure`` does."""
    counts, failed = found.counts, [row for row in found.rows if row["outcome"] == "failed"]
    left = found.stopped or ended.code is None
    words = f"{len(found.rows)} of {found.collected} tests ran in the time that there was, {counts['failed']} failed"
    record.figure("tests on cuda", "passed", "tests", counts["passed"])
    if left and not failed:
        record.missing("tests on cuda", "failed", "tests", words, NONE)
    else:
        record.figure("tests on cuda", "failed", "tests", counts["failed"], NONE)
    record.figure("tests on cuda", "skipped", "tests", counts["skipped"])
    record.facts(failed=[row["test"] for row in failed])
    if failed:
        record.text("what failed", "\n".join(_line(row) for row in failed[:_LISTED]))
    if ended.code != 0:
        record.text("the end of what pytest wrote", ended.output[-4000:])
    if left and not failed:
        raise Unfinished(words)
    if ended.code != 0:
        raise RuntimeError(words if left else f"pytest ended with {ended.code}: {counts['failed']} of {len(found.rows)} failed")
    if not counts["passed"]:
        raise RuntimeError("no test ran")


def _line(row: dict[str, Any]) -> str:
    return f"{row['test']}: {row['why']}"
