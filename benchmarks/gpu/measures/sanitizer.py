"""NVIDIA's compute-sanitizer over tests of the suite: reads and writes outside of memory, and races."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from .. import recorded
from ..figures import Goal, NotRun, Recorder, Unfinished
from ..machines import ROOT
from ..processes import Ended, run
from ..scale import TINY, Scale
from .suite import command, environment, outcomes

NONE = Goal(at_most=0)
#: The tools, and the part of the time that each may take.
TOOLS = {"memcheck": 0.6, "racecheck": 0.4}
#: Every kernel on small arrays, which takes no machine, and the machine's own ways; as many as there is time for.
FILES = ("tests/ops/cuda", "tests/e2e/copies/test_unread_results.py", "tests/e2e/test_halves.py")
#: Of a tool's time, when no further test is begun: it has to count its errors then.
_PART = 0.8
_SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: (\d+) hazards? displayed)")
#: Its message if it does not support this GPU or machine.
_REFUSED = ("Device not supported", "Unable to find injection library", "Failed to initialize", "debugger is not supported")


def measure(record: Recorder, scale: Scale, seconds: float) -> None:
    """The number of errors that each tool reports.  Raises NotRun without the program; then no goal is held."""
    program = shutil.which("compute-sanitizer") or _in_toolkit()
    if program is None:
        raise NotRun("compute-sanitizer is not installed (it comes with the CUDA toolkit)")
    for tool, share in TOOLS.items():
        with record.task(tool, "relayvm", "errors", NONE):
            _check(record, scale, program, tool, seconds * share - 1)


def _in_toolkit() -> str | None:
    found = Path("/usr/local/cuda/bin/compute-sanitizer")
    return str(found) if found.exists() else None


def _check(record: Recorder, scale: Scale, program: str, tool: str, seconds: float) -> None:
    # that the driver refuses a call is no error of a kernel: some tests let it
    more = ["--report-api-errors=no"] if tool == "memcheck" else []
    sanitizer = [program, f"--tool={tool}", "--target-processes=application-only", "--print-limit=20", *more]
    files = FILES[1:2] if scale is TINY else FILES
    with tempfile.TemporaryDirectory(prefix="relayvm-sanitizer-") as folder:
        path = Path(folder) / "outcomes"
        tests, limited = command("-n0", *files), environment(path) | {recorded.SECONDS: str(seconds * _PART)}
        ended = run([*sanitizer, *tests], seconds, Path(folder) / "log", limited, ROOT)
        found = outcomes(path)
    record.facts(**{f"{tool}: tests": dict(found.counts) | {"collected": found.collected}})
    _judge(record, tool, ended, found.counts)


def _judge(record: Recorder, tool: str, ended: Ended, counts: Counter[str]) -> None:
    refused = next((words for words in _REFUSED if words in ended.output), None)
    if refused:
        raise NotRun(f"compute-sanitizer cannot work here: {refused}")
    summaries = [int(a or b) for a, b in _SUMMARY.findall(ended.output)]
    if not summaries or sum(summaries) or counts["failed"]:
        record.text(f"{tool}: the end of what it wrote", ended.output[-4000:])
    if not summaries:
        words = f"before it counted its errors, after {sum(counts.values())} tests"
        if ended.code is None and not counts["failed"]:
            raise Unfinished(f"the time was over {words}")
        raise RuntimeError(f"it ended with {ended.code} {words}")
    record.figure(tool, "relayvm", "errors", sum(summaries), NONE)
    if not counts["passed"]:
        raise RuntimeError("no test passed under it")
    if sum(summaries):
        raise RuntimeError(f"{sum(summaries)} errors")
