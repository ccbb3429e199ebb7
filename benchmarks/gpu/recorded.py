"""A plugin for pytest: the outcome of each test, a line of JSON as soon as it is known, so that a killed run is no lost run."""

from __future__ import annotations

import json
import os
import time

import pytest

#: Where to, and after how many seconds no further test is begun; set by who starts pytest.
VARIABLE, SECONDS = "RELAYVM_OUTCOMES", "RELAYVM_SECONDS"
_began = time.monotonic()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """After a test: is the time over?"""
    seconds = os.environ.get(SECONDS)
    if seconds and time.monotonic() - _began > float(seconds):
        item.session.shouldstop = "the time is over"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test's call, or what went wrong before or after it.  With workers, only their leader is told all."""
    if "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.passed):
        return
    words = str(report.longrepr).strip().splitlines()[-1:] if report.failed else []
    outcome = "failed" if report.failed else report.outcome
    with open(os.environ[VARIABLE], "a", encoding="utf-8") as out:
        out.write(json.dumps({"test": report.nodeid, "outcome": outcome, "why": "".join(words)[:300]}) + "\n")
