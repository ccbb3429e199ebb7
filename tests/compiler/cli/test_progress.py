"""Progress: a line on a terminal after a second, a line elsewhere after two, and nothing for what is shorter."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable

import pytest

import relayvm as relay
from relayvm.compiler.commands.terminal import progress
from relayvm.ops.native.compiled import compile_reports, kernel_store


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


def _until(there: Callable[[], bool]) -> bool:
    ends = time.monotonic() + 10
    while not there() and time.monotonic() < ends:
        time.sleep(0.01)
    return there()


def test_a_file_has_a_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(compile_reports, "SECONDS", (0.01, 0.1))
    with progress.compile_progress():
        assert _until(lambda: "\n" in file.getvalue())
        for listener in tuple(kernel_store.on_compile):
            listener("exp")
        assert _until(lambda: "exp" in file.getvalue())
    lines = file.getvalue().splitlines()
    assert lines[0] == "relayvm: compiling the program, 0 s"
    assert lines[1] == "relayvm: compiling kernels, number 1: exp, 0 s"
    time.sleep(0.5)
    assert file.getvalue().splitlines() == lines, "no line follows"


def test_a_logger_has_them_at_info(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_reports, "SECONDS", (0.01, 100.0))
    with compile_reports.logged():
        time.sleep(0.1)
    assert not caplog.records, "the logger takes warnings only"
    caplog.set_level("INFO", "relayvm")
    with compile_reports.logged(), compile_reports.logged():
        assert _until(lambda: bool(caplog.records))
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == ("relayvm", "INFO", "compiling the program, 0 s")


def test_compile_and_the_machine_report_to_the_logger(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_reports, "SECONDS", (0.0, 100.0))
    caplog.set_level("INFO", "relayvm")
    exe = relay.compile('#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n), float32]) { exp(%x) }')
    assert [r.name for r in caplog.records] == ["relayvm"]
    caplog.clear()
    monkeypatch.setattr(compile_reports, "reported", _noting(noted := list[str]()))
    relay.VirtualMachine(exe)
    assert noted == ["info"]


def _noting(noted: list[str]) -> Callable[[Callable[[str], object]], contextlib.AbstractContextManager[None]]:
    def reported(say: Callable[[str], object]) -> contextlib.AbstractContextManager[None]:
        noted.append(say.__name__)
        return contextlib.nullcontext()

    return reported
