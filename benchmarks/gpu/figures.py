"""The record of a part of the run, written after each figure: figures with spread and goal, texts, and the outcome."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

#: The outcome of a part or of a section of a part.
DONE, FAILED, UNFINISHED, NOT_RUN = "done", "failed", "unfinished", "not run"
#: The result of comparing a figure with its goal; a figure without a goal is for information.
HELD, MISSED, INFORMATION = "held", "missed", "information"


class NotRun(Exception):
    """A measurement is impossible here; the text has the reason.  It is recorded as not run, never as held."""


class Unfinished(Exception):
    """The time was over before all work was done, and nothing had failed.  It is recorded as unfinished, never as held."""


@dataclass(frozen=True)
class Spread:
    """Samples of one quantity."""

    median: float
    min: float
    max: float
    samples: int

    @staticmethod
    def of(samples: Sequence[float]) -> Spread:
        """The spread of at least one sample."""
        return Spread(statistics.median(samples), min(samples), max(samples), len(samples))

    def per(self, count: float) -> Spread:
        """The spread divided by ``count``."""
        return Spread(self.median / count, self.min / count, self.max / count, self.samples)


@dataclass(frozen=True)
class Goal:
    """The goal of a median: ``at_most`` or ``at_least`` a number, in the figure's unit."""

    at_most: float | None = None
    at_least: float | None = None

    def verdict(self, value: float) -> str:
        """``held`` or ``missed``."""
        fine = (self.at_most is None or value <= self.at_most) and (self.at_least is None or value >= self.at_least)
        return HELD if fine else MISSED


class Recorder:
    """The record of one part: a JSON file that is rewritten after each figure, so that figures survive a kill."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._start = path, time.monotonic()
        self.data: dict[str, Any] = {
            "name": name, "card": "", "status": UNFINISHED, "why": "", "seconds": 0.0, "figures": [], "texts": [], "facts": {},
        }  # fmt: skip
        self.write()

    def figure(self, task: str, who: str, unit: str, found: Spread | float, goal: Goal | None = None) -> None:
        """One figure; a number without a spread is a count."""
        spread = found if isinstance(found, Spread) else Spread(found, found, found, 1)
        verdict = goal.verdict(spread.median) if goal else INFORMATION
        self._add(task, who, unit, asdict(spread), goal, verdict, "")

    def missing(self, task: str, who: str, unit: str, why: str, goal: Goal | None = None, status: str = NOT_RUN) -> None:
        """A missing figure, with the reason."""
        self._add(task, who, unit, dict.fromkeys(("median", "min", "max")) | {"samples": 0}, goal, status, why)

    def _add(self, task: str, who: str, unit: str, spread: dict[str, Any], goal: Goal | None, verdict: str, why: str) -> None:
        row = {"task": task, "who": who, "unit": unit, **spread, "goal": asdict(goal) if goal else None}
        self.data["figures"].append({**row, "verdict": verdict, "why": why})
        self.write()

    def text(self, title: str, text: str) -> None:
        """A table for people."""
        self.data["texts"].append({"title": title, "text": text})
        self.write()

    def gpu(self, name: str) -> None:
        """The machine that the part runs on."""
        self.data["card"] = name
        self.write()

    def facts(self, **facts: Any) -> None:
        """Data that is no figure: names, versions, lists."""
        self.data["facts"].update(facts)
        self.write()

    @contextlib.contextmanager
    def task(self, name: str, who: str = "relayvm", unit: str = "", goal: Goal | None = None) -> Iterator[None]:
        """Record an exception of the block and continue the part; the part has failed, unless the block could not be run."""
        try:
            yield
        except NotRun as why:
            self.missing(name, who, unit, str(why), goal)
        except Unfinished as why:
            self.missing(name, who, unit, str(why), goal, UNFINISHED)
        except Exception as error:
            self.missing(name, who, unit, brief(error), goal, FAILED)
            self.text(f"{name}: {who}", traceback.format_exc())

    def end(self, status: str, why: str = "") -> None:
        """The outcome of the part."""
        failed = [f for f in self.data["figures"] if f["verdict"] == FAILED]
        left = [f for f in self.data["figures"] if f["verdict"] == UNFINISHED]
        self.data["status"] = FAILED if status == DONE and failed else UNFINISHED if status == DONE and left else status
        failed = failed or left
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        self.data["why"] = why or (f"{failed[0]['task']}: {failed[0]['why']}{more}" if failed else "")
        self.write()

    def write(self) -> None:
        """Write the file atomically."""
        self.data["seconds"] = round(time.monotonic() - self._start, 3)
        temporary = self._path.with_suffix(".part")
        temporary.write_text(json.dumps(self.data), encoding="utf-8")
        os.replace(temporary, self._path)


def brief(error: BaseException) -> str:
    """An error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
