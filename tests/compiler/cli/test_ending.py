"""The end of every command, and its output besides the answer: errors, progress, warnings."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from relayvm.compiler.commands import dump_command
from relayvm.compiler.commands.cli import main
from relayvm.compiler.commands.terminal.exit_codes import ExitCode
from relayvm.compiler.commands.terminal.progress import compile_progress
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.jit.native_compiler import has_near_constants
from relayvm.vm.options import CHECK_VARIABLE

from .answers import answer

ROOT = Path(__file__).resolve().parents[3]


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "compile", "dump", "explain", "profile", "compare", "ops", "isa", "env"):
        assert command in answer(capsys, "--help")
        assert "--json" in answer(capsys, command, "--help")
    assert answer(capsys, "--version").startswith("relayvm")
    assert main([]) == ExitCode.USAGE


def test_an_internal_error_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("boom\nand more")

    monkeypatch.setattr(dump_command, "read_module", broken)
    monkeypatch.delenv("RELAYVM_TRACEBACK", raising=False)
    args = ["dump", "rows.relay", "--stage", "parsed"]
    assert main(args) == ExitCode.INTERNAL
    line = "internal error: RuntimeError: boom; please report it, with what RELAYVM_TRACEBACK=1 shows\n"
    assert capsys.readouterr().err == line
    monkeypatch.setenv("RELAYVM_TRACEBACK", "1")
    assert main(args) == 70
    err = capsys.readouterr().err
    assert err.startswith("Traceback") and err.endswith(line)


def test_ctrl_c_ends_an_endless_recursion(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        code = main(["run", str(ROOT / "tests" / "bad_input" / "endless.relay"), "--input", "n=1"])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert code == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_a_reader_that_had_enough_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([sys.executable, "-m", "relayvm", "isa"], stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (done.stderr, done.returncode) == (b"", 0)


@pytest.mark.parametrize("args", [["isa"], ["--help"]])
def test_a_full_disk_is_no_internal_error(args: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-m", "relayvm", *args], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.stderr == b"error: cannot write to standard output: No space left on device\n"
    assert done.returncode == ExitCode.FILE


@pytest.mark.parametrize("args", [["isa", "nothing"], ["run"], ["run", "nothing.relay"]])
def test_standard_error_that_takes_no_more_leaves_the_exit_code(args: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-m", "relayvm", *args], stdout=full, stderr=full, check=False)
    assert done.returncode in (ExitCode.INPUT, ExitCode.USAGE, ExitCode.FILE)


def test_a_reader_who_left_does_not_hide_a_check_that_fails(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    args = ["compare", "rows.relay", "--dim", "n=3", "--repeat", "1", "--fail-if", "b.launches > 0"]
    try:
        done = subprocess.run([sys.executable, "-m", "relayvm", *args], stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert done.returncode == ExitCode.CHECK and done.stderr.startswith(b"fail-if: b.launches > 0 holds")


def test_characters_that_standard_output_lacks_are_escaped(folder: Path) -> None:
    args = [sys.executable, "-m", "relayvm", "explain", "rows.relay", "--dim", "n=5", "--device", "sim"]
    done = subprocess.run(args, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}, check=True)
    assert rb"16\xb7?n" in done.stdout


def test_closed_streams_take_anything(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["run", "rows.relay", "--dim", "n=3"]) == 0
    assert main(["run", "nothing.relay"]) == ExitCode.FILE


def test_an_unwritable_cache_is_said_once(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("no folder")
    monkeypatch.setenv("RELAYVM_CACHE_DIR", str(folder / "file"))
    monkeypatch.setattr(kernel_store, "_addresses", kernel_store.SingleFlight())
    code = main(["run", "rows.relay", "--entry", "@double", "--shape", "k=3"])
    lines = capsys.readouterr().err.splitlines()
    words = f"the cache folder {folder / 'file'} cannot be written (Not a directory); kernels are compiled in every process"
    assert (code, lines) == (0, [f"warning: {words}"])


def test_a_second_process_imports_no_compiler_backend(folder: Path) -> None:
    args = ["run", "rows.relay", "--dim", "n=3", "--json"]
    program = f"import sys; from relayvm.compiler.commands.cli import main; main({args}); print(*sys.modules, file=sys.stderr)"
    environment = os.environ | {CHECK_VARIABLE: "0"}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert json.loads(done.stdout)["kernel_compiles"] == 0
    modules = set(done.stderr.split())
    loaded = {name.partition(".")[0] for name in modules}
    backends = {"lark", "numba", "scipy", "rich"} | ({"llvmlite"} if has_near_constants() else set())
    assert "numpy" in loaded and not loaded & backends
    unused = ["ops.defs", "ops.codegen.cpu", "ops.core.type_relation", "shape_funcs.defs", "serving"]
    unused += ["vm.inspection.explain", "vm.report.profiling"]
    unused += [f"compiler.{name}" for name in ("ir", "text", "lowering.pipeline", "emit", "comparison.compare")]
    assert {"relayvm.vm.runtime.loop", "relayvm.compiler.executable_cache"} <= modules
    assert not sorted(modules & {f"relayvm.{name}" for name in unused})


def test_a_terminal_sees_that_kernels_are_compiled(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(kernel_store, "on_compile", [])
    with compile_progress():
        for name in ("exp", "add"):
            for listener in kernel_store.on_compile:
                listener(name)
    err = capsys.readouterr().err
    assert re.search(r"compiled 2 kernels in \d+\.\d s; the next run finds them compiled", err)
    assert kernel_store.on_compile == []
    with compile_progress():
        pass
    assert capsys.readouterr().err == "", "nothing compiled, nothing said"


def test_a_pipe_sees_nothing_of_a_short_compilation(capsys: pytest.CaptureFixture[str]) -> None:
    assert not sys.stderr.isatty()
    with compile_progress():
        pass
    assert capsys.readouterr().err == ""


def test_warnings_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    real = dump_command.read_module

    def warning(path: Path, params: Path | None) -> Any:
        warnings.warn("the cache cannot be written", kernel_store.CacheWarning, stacklevel=1)
        return real(path, params)

    monkeypatch.setattr(dump_command, "read_module", warning)
    assert main(["dump", "rows.relay", "--stage", "parsed"]) == 0
    assert capsys.readouterr().err == "warning: the cache cannot be written\n"


_RUN = """
import atexit, sys, threading, time
from relayvm.__main__ import run
atexit.register(print, "atexit")
sys.argv[1:] = {args}
{before}
run()
"""
_THREAD = "threading.Thread(target=lambda: (time.sleep(0.3), print('thread'))).start()"


@pytest.mark.parametrize("before, last", [("", "atexit"), (_THREAD, "thread\natexit")])
def test_threads_and_functions_at_exit_end_before_the_process(before: str, last: str) -> None:
    for args, code in ((["isa"], 0), (["isa", "nothing"], ExitCode.INPUT)):
        text = _RUN.format(args=args, before=before)
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
        assert done.returncode == code and done.stdout.endswith(f"{last}\n"), done
