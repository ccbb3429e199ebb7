"""A plugin for pytest: the outcome of each test, a line of JSON as soon as it is known, so that a killed run is no lost run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import Any

import pytest

#: Where to, and after how many seconds no further test is begun; set by who starts pytest.
VARIABLE, SECONDS = "RELAYVM_OUTCOMES", "RELAYVM_SECONDS"
#: Rows that are no test's outcome: how many tests there are, and that the time was over before all had run.
COLLECTED, STOPPED = "collected", "stopped"
_began = time.monotonic()
_session: list[pytest.Session] = []


def _write(row: dict[str, Any]) -> None:
    with open(os.environ[VARIABLE], "a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")


def _is_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remember the session, to stop it."""
    _session[:] = [session]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Record the number of tests, without workers."""
    if not _is_worker() and session.items:
        _write({COLLECTED: len(session.items)})


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    """Record the number of tests, if workers collect."""
    _write({COLLECTED: len(ids)})


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test's call, or what went wrong before or after it.  With workers, only their leader is told all."""
    if _is_worker():
        return
    if report.when == "call" or not report.passed:
        words = str(report.longrepr).strip().splitlines()[-1:] if report.failed else []
        outcome = "failed" if report.failed else report.outcome
        _write({"test": report.nodeid, "outcome": outcome, "why": "".join(words)[:300]})
    seconds = os.environ.get(SECONDS)
    if seconds and time.monotonic() - _began > float(seconds) and report.when == "teardown":
        _write({STOPPED: True})
        stopped = _session[0].config.pluginmanager.getplugin("dsession") or _session[0]
        stopped.shouldstop = "the time is over"
