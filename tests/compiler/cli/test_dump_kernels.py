"""`relayvm dump` of kernels: the sources of each device, and machine code of GPUs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from relayvm.compiler.commands.cli import main
from relayvm.compiler.commands.terminal.exit_codes import ExitCode
from relayvm.ops.codegen.cuda.device_code import disassembler, nvrtc

from ...emulator import proof
from .answers import answer

GPU = ("--device", "cuda")


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC itself compiles, also where a GPU is emulated."""
    monkeypatch.setattr(nvrtc, "cubin", proof.CUBIN)
    monkeypatch.setattr(nvrtc, "compiler", proof.COMPILER)
    if reason := proof.missing():
        pytest.skip(reason)


def test_sources_are_those_of_the_device(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    on_gpu = answer(capsys, "dump", "rows.relay", "--stage", "kernels", *GPU)
    on_host = answer(capsys, "dump", "rows.relay", "--stage", "kernels")
    assert "__global__ void" in on_gpu and "def kernel(argv, n):" not in on_gpu
    assert "__global__ void" not in on_host and "def kernel(argv, n):" in on_host


def test_machine_code_has_a_line_of_figures_for_each_kernel(
    folder: Path, capsys: pytest.CaptureFixture[str], compiler: None
) -> None:
    try:
        disassembler.listing(b"")
    except disassembler.NoDisassembler as reason:
        if "not installed" in str(reason):
            pytest.skip(str(reason))
    Path("exp.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(?,), float32]) { exp(%x) }\n')
    text = answer(capsys, "dump", "exp.relay", "--stage", "sass", *GPU)
    assert text.startswith("# exp, sm_")
    memory, counts = r"\d+ registers, 0 bytes of stack, 0 bytes of shared memory", r"\d+ instructions, 0 spills, 0 barriers"
    assert re.search(rf"^# \w+: {memory}; {counts}; loads: .*128 bits; stores: .*128 bits$", text, re.M)
    assert "EXIT ;" in text


def test_a_program_for_the_host_has_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "rows.relay", "--stage", "sass"]) == ExitCode.INPUT
    assert capsys.readouterr().err == (
        "error: a program for cpu has no machine code of a GPU\nhelp: compile it for cuda: --device cuda\n"
    )


def test_a_missing_disassembler_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], compiler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(disassembler, "_folders", lambda: iter(()))
    disassembler._path.cache_clear()
    assert main(["dump", "rows.relay", "--stage", "sass", *GPU]) == ExitCode.USAGE
    disassembler._path.cache_clear()
    assert capsys.readouterr().err == (
        "error: there is no machine code to show: nvdisasm is not installed; install relayvm[sass] or the CUDA toolkit\n"
        "help: `--stage kernels` shows the source of the kernels\n"
    )
