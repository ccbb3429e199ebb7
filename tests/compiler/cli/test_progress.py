"""Progress on a terminal: a line for what takes longer than a second, and nothing for what does not."""

from __future__ import annotations

import io
import sys
import time

import pytest

from relayvm.compiler.commands import progress


class Terminal(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in place of standard error; called within a test, for pytest replaces standard error before it."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "LATE_SECONDS", 0.05)
    return made


def test_a_long_compilation_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with progress.compile_progress():
        ends = time.monotonic() + 10
        while "reading and compiling the program" not in terminal.getvalue() and time.monotonic() < ends:
            time.sleep(0.01)
    assert "reading and compiling the program" in terminal.getvalue()


@pytest.mark.parametrize("late", [True, False])
def test_a_short_compilation_has_none(monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    terminal = terminal_of(monkeypatch)
    with progress.compile_progress(late):
        time.sleep(0 if late else 0.2)
    time.sleep(0.1)
    assert terminal.getvalue() == ""


def test_a_file_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(progress, "LATE_SECONDS", 0.01)
    with progress.compile_progress():
        time.sleep(0.1)
    assert file.getvalue() == ""
