"""The tests of the suite on the card."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from . import emulated, recorded
from .figures import Goal, Recorder
from .machines import ROOT
from .processes import run
from .scale import TINY, Scale

NONE = Goal(at_most=0)
#: Tests of the emulated card itself.
WITHOUT_A_CARD = ("tests/cuda",)
#: One file, where everything is tiny.
_FEW = "tests/e2e/test_unread_results.py"
_WORKERS = 8
_LISTED = 40
#: Seconds that are left for what comes after the tests.
_RESERVE_S = 5.0


def command(*more: str) -> list[str]:
    """pytest for the tests that run on the card."""
    ignored = [f"--ignore={folder}" for folder in WITHOUT_A_CARD]
    plugins = ["-p", "gpu.recorded", "-p", "no:cacheprovider"]
    return [sys.executable, "-m", "pytest", "-q", "--device", "cuda", "-k", "cuda", *ignored, *plugins, *more]


def environment(outcomes: Path) -> dict[str, str]:
    """Of such a process."""
    path = os.pathsep.join(filter(None, [str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", "")]))
    which = {emulated.VARIABLE: "1" if emulated.plugged else "0"}
    # these tests' own workers say that they are some, and nobody else's
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    return outer | which | {"PYTHONPATH": path, recorded.VARIABLE: str(outcomes)}


def outcomes(path: Path) -> list[dict[str, str]]:
    """What the plugin wrote: the last outcome of each test."""
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return list({row["test"]: row for row in rows if row}.values())


def measure(record: Recorder, scale: Scale, seconds: float) -> None:
    """Passed, failed and skipped tests; the names of those that failed.  Raises RuntimeError unless they all pass."""
    workers = min(_WORKERS, os.cpu_count() or 1)
    few = [_FEW, "-n0"] if scale is TINY else ["-n", str(workers)]
    with tempfile.TemporaryDirectory(prefix="relayvm-tests-") as folder:
        path = Path(folder) / "outcomes"
        ended = run(command(*few), seconds - _RESERVE_S, Path(folder) / "log", environment(path), ROOT)
        found = outcomes(path)
    counts = Counter(row["outcome"] for row in found)
    failed = [row for row in found if row["outcome"] == "failed"]
    record.figure("tests on cuda", "passed", "tests", counts["passed"])
    record.figure("tests on cuda", "failed", "tests", counts["failed"], NONE)
    record.figure("tests on cuda", "skipped", "tests", counts["skipped"])
    record.facts(workers=workers, failed=[row["test"] for row in failed], exit_code=ended.code)
    if failed:
        record.text("what failed", "\n".join(_line(row) for row in failed[:_LISTED]))
    if ended.code != 0:
        record.text("the end of what pytest wrote", ended.output[-4000:])
        words = "the time was over" if ended.code is None else f"pytest ended with {ended.code}"
        raise RuntimeError(f"{words}: {counts['failed']} of {len(found)} tests that ran failed")
    if not counts["passed"]:
        raise RuntimeError("no test ran")


def _line(row: dict[str, Any]) -> str:
    return f"{row['test']}: {row['why']}"
