"""`relayvm compile` and `relayvm dump`: a stored program runs like its text, and every stage is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from relayvm.compiler.commands.cli import main
from relayvm.compiler.commands.terminal.exit_codes import ExitCode

from ...devices import DEVICES
from .answers import answer, data


@pytest.mark.spread("device")
@pytest.mark.parametrize("device", DEVICES)
def test_an_executable_runs_as_its_text(folder: Path, capsys: pytest.CaptureFixture[str], device: str) -> None:
    made = data(capsys, "compile", "rows.relay", "-o", "rows.rvm", "--device", device, "--config", "fuse=off")
    assert made["bytes"] == (folder / "rows.rvm").stat().st_size and made["config"]["fuse"] == "off"
    stored = data(capsys, "run", "rows.rvm", "--dim", "n=5", "--config", "fuse=off", "--device", device)
    text = data(capsys, "run", "rows.relay", "--dim", "n=5", "--config", "fuse=off", "--device", device)
    for key in ("results", "device", "config"):
        assert stored[key] == text[key]
    assert "rows.rvm: " in answer(capsys, "compile", "rows.relay", "-o", "rows.rvm")


@pytest.mark.parametrize(
    ("stage", "parts"),
    [
        ("parsed", ["def @main(%x: Tensor[(?n, 4), float32]", "argwhere("]),
        ("typed", ["/* ty=Tensor[(?n", "bool] */"]),
        ("fused", ["Primitive=1"]),
        ("alloc", ["memory.alloc_storage", "vm.invoke_op(@"]),
        ("bytecode", ["InvokePacked", "Ret"]),
        ("kernels", ["# argwhere", "def kernel(argv, n):"]),
    ],
)
def test_dump(folder: Path, capsys: pytest.CaptureFixture[str], stage: str, parts: list[str]) -> None:
    text = answer(capsys, "dump", "rows.relay", "--stage", stage)
    assert all(part in text for part in parts)
    found = data(capsys, "dump", "rows.relay", "--stage", stage)
    assert (found["stage"], found["text"].rstrip("\n")) == (stage, text.rstrip("\n"))
    if stage in ("bytecode", "kernels"):
        answer(capsys, "compile", "rows.relay", "-o", "rows.rvm")
        assert answer(capsys, "dump", "rows.rvm", "--stage", stage) == text


def test_what_does_not_type_can_still_be_shown_as_parsed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: float32, %y: int32) { add(%x, %y) }\n')
    assert "add(%x, %y)" in answer(capsys, "dump", "bad.relay", "--stage", "parsed")
    assert main(["dump", "bad.relay", "--stage", "typed"]) == ExitCode.PROGRAM
