"""`relayvm explain` and `relayvm profile`: copies, views, files."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from relayvm.compiler.commands.cli import main
from relayvm.compiler.commands.profile_command import draw
from relayvm.compiler.commands.terminal.exit_codes import ExitCode
from relayvm.vm.report.profile_report import Profile

from .answers import answer, data


def test_explain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "explain", "rows.relay", "--device", "sim", "--dim", "n=5")
    assert "%x, float32[?n, 4]; 16·?n = 80 bytes" in text
    assert "because: argwhere: the kernel reports the size of its result" in text
    assert "nothing: the kernel's count is data" in text
    options = ("--device", "sim", "--shape", "x=5,4", "--config", "strict_copies=on")
    found = data(capsys, "explain", "rows.relay", *options)
    assert found["sizes"] == {"n": 5} and found["config"]["strict_copies"] == "on"
    (count,) = [c for c in found["copies"] if c["kind"] == "count"]
    assert (count["exact_bytes"], count["op"], count["host_waits"]) == (8, "argwhere", True)
    answer(capsys, "compile", "rows.relay", "--device", "sim", "-o", "rows.rvm")
    assert data(capsys, "explain", "rows.rvm", "--shape", "x=5,4")["copies"] == found["copies"]
    assert data(capsys, "explain", "rows.relay", "--entry", "double")["copies"] == []


def test_profile(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("profile", "rows.relay", "--dim", "n=9", "--device", "sim", "--repeat", "3")
    found = Profile.from_data(data(capsys, *args))
    assert (found.runs, found.device, found.total("dtoh").nbytes) == (3, "sim", 3 * 8)
    text = answer(capsys, *args)
    assert "sim activities:" in text and "argwhere: the kernel reports the size of its result" in text


@pytest.mark.parametrize("view", ["nvprof", "operators", "source", "memory", "copies"])
def test_profile_views(view: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "profile", "rows.relay", "--dim", "n=9", "--device", "sim", "--repeat", "1", "--view", view)
    assert text.startswith("Profile: @main on sim, ") and len(text.splitlines()) > 3


def test_profile_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"--json-out": "p.json", "--csv": "p.csv", "--markdown": "p.md", "--trace": "t.json", "--html": "p.html"}
    options = [word for pair in names.items() for word in pair]
    answer(capsys, "profile", "rows.relay", "--dim", "n=9", "--device", "sim", "--repeat", "2", "--warmup", "1", *options)
    written = {name: Path(name).read_text(encoding="utf-8") for name in names.values()}
    found = Profile.from_json(written["p.json"])
    assert (found.runs, found.warmup) == (2, 1)
    assert (written["p.csv"], written["p.md"]) == (found.to_csv(), found.to_markdown())
    assert (written["t.json"], written["p.html"]) == (found.to_chrome_trace(), found.to_html())
    assert main(["profile", "rows.relay", "--dim", "n=9", "--repeat", "1", "--html", "no/such/folder.html"]) == ExitCode.FILE
    assert "cannot write no/such/folder.html: No such file or directory" in capsys.readouterr().err


def test_a_profile_on_a_terminal_is_cut_to_its_width() -> None:
    console = Console(width=40, force_terminal=True, color_system="standard", file=io.StringIO(), highlight=False)
    draw("Profile: @main on sim\n  5  " + "x" * 60 + "\n DtoH  [red]", console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "\x1b[31m" in text and "[red]" in plain and all(len(line) <= 40 for line in plain.splitlines())
