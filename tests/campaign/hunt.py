"""Trials of one part on several workers, and the processing of findings."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .part import Part, load
from .worker import BATCH, Finding, Worker

#: Of findings.
KINDS = ("wrong", "error", "refused", "crash", "hang")
#: Findings of one part after which the rest is not worth the time.
MOST_FINDINGS = 20
#: Smaller cases that are tried for one finding, and for how long.
MOST_SMALLER, SMALLER_SECONDS = 400, 120.0


@dataclass
class Report:
    """The outcome of a part."""

    part: Part
    trials: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        kinds = Counter(f.kind for f in self.findings)
        counts = ", ".join(f"{kinds[k]} {k}" for k in KINDS)
        lines = [f"{self.part.name}: {self.trials:,} {self.part.unit} in {self.seconds:.0f} s: {counts}"]
        if self.seen:
            lines.append("  " + ", ".join(_summed(self.seen)))
        return "\n".join(lines)


def _summed(seen: Counter[str]) -> list[str]:
    """Each count; those of ``kind/value`` as one line, how many different ones there are."""
    kinds: dict[str, Counter[str]] = {}
    for what, n in seen.items():
        kind, _, value = what.partition("/")
        kinds.setdefault(kind, Counter())[value] += n
    return [
        f"{kind}: {values.total():,}" + (f" of {len(values):,} different ones" if "" not in values else "")
        for kind, values in sorted(kinds.items())
    ]


def hunt(name: str, first: int, trials: int | None, seconds: float, jobs: int) -> Report:
    """Check the cases of the seeds from ``first``: ``trials`` of them (None: as many as there is time for).

    With ``trials`` the time does not end it: a count that was asked for is a count that was done.
    """
    report, started, following = Report(load(name)), time.monotonic(), first
    workers = [Worker(name) for _ in range(jobs)]
    try:
        while True:
            spent = time.monotonic() - started
            over = len(report.findings) >= MOST_FINDINGS or (spent > seconds if trials is None else following >= first + trials)
            for worker in workers:
                if worker.idle and not over:
                    batch = range(following, following + BATCH if trials is None else min(following + BATCH, first + trials))
                    following = batch.stop
                    over = trials is not None and following >= first + trials
                    worker.ask(batch)
            busy = [w for w in workers if not w.idle]
            if not busy:
                break
            for worker in busy:
                report.findings += worker.poll(0.02)
    finally:
        for worker in workers:
            report.seen += worker.seen
            worker.close()
    report.trials, report.seconds = following - first, time.monotonic() - started
    return report


def minimised(name: str, finding: Finding) -> object:
    """The smallest case found that fails as the finding's does; a new child checks each, for it may crash."""
    part, started, tried = load(name), time.monotonic(), 0
    case, worker = part.draw(finding.seed), Worker(name)
    try:
        progress = True
        while progress:
            progress = False
            for smaller in part.smaller(case):
                tried += 1
                if tried > MOST_SMALLER or time.monotonic() - started > SMALLER_SECONDS:
                    return case
                worker.ask((finding.seed, smaller))
                found = []
                while not worker.idle:
                    found += worker.poll(0.05)
                if found and finding.same_kind(found[0]):
                    case, progress = smaller, True
                    break
    finally:
        worker.close()
    return case


def write(name: str, finding: Finding, folder: Path) -> Path:
    """Make the finding smaller and write it to a file that is a test."""
    part = load(name)
    body = part.write(minimised(name, finding))
    folder.mkdir(parents=True, exist_ok=True)
    test = f"test_{name.replace('.', '_')}_{finding.seed}"
    path = folder / f"{test}.py"
    title = re.sub(r"\s+", " ", f"{finding.kind}: {finding.what}")[:110].replace('"', "'").replace("\\", "/")
    lines = "\n".join(f"    {line}" if line else "" for line in body.splitlines())
    path.write_text(f'"""{title}"""\n\n\ndef {test}() -> None:\n{lines}\n', encoding="utf-8")
    return path
