"""The exit code of every end of a command, and its description in the help."""

from __future__ import annotations

from pathlib import Path

import pytest

from relayvm.compiler.commands.cli import main
from relayvm.compiler.commands.terminal.exit_codes import ExitCode

from .answers import answer

TWICE = ("compare", "rows.relay", "--dim", "n=3", "--repeat", "1")

ENDS = {
    ExitCode.OK: [["run", "rows.relay", "--dim", "n=3"], [*TWICE, "--fail-if", "b.dtoh_copies > 0"]],
    ExitCode.CHECK: [[*TWICE, "--fail-if", "b.launches > 0"]],
    ExitCode.USAGE: [["run"], ["run", "rows.relay", "--config", "x=1"], ["run", "rows.relay", "--device", "tpu"], ["walk"]],
    ExitCode.DIFFERENT: [["compare", "rows.relay", "other.relay", "--dim", "n=3", "--repeat", "1"]],
    ExitCode.INPUT: [["compare", "rows.relay"], ["run", "rows.relay", "--entry", "no"], ["run", "rows.relay", "--dim", "k=1"]],
    ExitCode.FILE: [["compare", "no.relay"], ["run", "no.rvm"], ["run", "."], ["compile", "rows.relay", "-o", "no/x.rvm"]],
    ExitCode.PROGRAM: [["run", "bad.relay"], ["run", "bad.rvm"], ["compare", "rows.relay", "bad.rvm"]],
    ExitCode.RUN: [["run", "divide.relay", "--input", "x=0"]],
}


@pytest.mark.parametrize("code", ENDS)
def test_how_commands_end(code: ExitCode, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: float32) { nothing(%x) }\n')
    Path("bad.rvm").write_text("no executable")
    Path("divide.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: int32) { 1 / %x }\n')
    Path("other.relay").write_text(Path("rows.relay").read_text().replace("sum(%x))", "max(%x))"))
    for args in ENDS[code]:
        assert main(args) == code, (args, capsys.readouterr().err)


def test_every_code_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    lines = answer(capsys, "--help").splitlines()
    for code in ExitCode:
        assert f"  {code:>5}  {code.meaning}" in lines
    assert max(map(len, lines)) < 80
