"""Every mistake has one text with a place and what would be valid, kept in ``tests/bad_input``; the machine lives on.

A case is a file: a command line after ``$`` or Python after ``>>>``, then how it ends, then the whole text.  After a
change of words, ``pytest --update`` writes the texts anew; read the difference.
"""

from __future__ import annotations

import contextlib
import gc
import io
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm.compiler.commands.cli import main
from relayvm.compiler.comparison.run_comparison import compare
from relayvm.compiler.compile import compile
from relayvm.compiler.text.parser import parse
from relayvm.vm.api.executable import Executable
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.diagnostics.source import RelayError, VMError
from relayvm.vm.report.completion import finish
from relayvm.vm.thread_count import set_num_threads

from ..devices import DEVICES
from ..golden_texts import Golden

FOLDER = Path(__file__).resolve().parents[1] / "bad_input"
CASES = sorted(FOLDER.glob("*.txt"))


def make_workspace(folder: Path) -> None:
    """The programs, and the files that are no text."""
    for program in FOLDER.glob("*.relay"):
        shutil.copy(program, folder)
    np.save(folder / "three.npy", np.ones((3, 4), "float32"))
    np.save(folder / "two.npy", np.ones((2, 4), "float32"))
    np.save(folder / "double.npy", np.ones((3, 4)))
    np.save(folder / "words.npy", np.array(["a", "b"]))
    np.savez(folder / "both.npz", boxes=np.ones((3, 4), "float32"), logits=np.ones((3, 4), "float32"))
    (folder / "notes.npy").write_text("not an array")
    (folder / "binary.relay").write_bytes(b"\x7fELF\0\0\1")
    (folder / "text.rvm").write_text("def @main() { 1 }")
    good = parse((folder / "good.relay").read_text(), source_name="good.relay")
    compile(good, target="sim").save(folder / "model.rvm")
    data = (folder / "model.rvm").read_bytes()
    (folder / "truncated.rvm").write_bytes(data[: len(data) - 100])
    (folder / "edited.rvm").write_bytes(data[:-100] + bytes([data[-100] ^ 1]) + data[-99:])
    (folder / "newer.rvm").write_bytes(data[:8] + (99).to_bytes(8, "little") + data[16:])


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad_input")
    make_workspace(folder)
    return folder


def outcome(case: str) -> str:
    """A case as it ends now, in the form of its file."""
    kept = [line for line in case.splitlines() if line.startswith(("$ ", ">>> "))]
    commands = "\n".join(kept)
    if kept[0].startswith("$ "):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(shlex.split(kept[0].removeprefix("$ relayvm ")))
        assert out.getvalue() == "", "a failure prints nothing on standard output"
        return f"{commands}\nexit {int(code)}\n\n{err.getvalue()}"
    names: dict[str, Any] = {"compile": compile, "parse": parse, "compare": compare, "np": np, "Path": Path}
    names |= {"relay": relayvm}
    names |= {"VirtualMachine": VirtualMachine, "Executable": Executable, "set_num_threads": set_num_threads}
    try:
        exec("\n".join(line.removeprefix(">>> ") for line in kept), names)
    except RelayError as error:
        return f"{commands}\nraises {type(error).__name__}\n\n{error}\n"
    raise AssertionError(f"no error was raised by\n{commands}")


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_bad_input(path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("COLUMNS", "100")
    got = outcome(path.read_text())
    golden.check(path, got)
    assert "Traceback" not in got and "internal error" not in got


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 25


def test_every_program_is_used() -> None:
    texts = "".join(p.read_text() for p in (*CASES, *Path(__file__).parent.rglob("test_*.py")))
    assert [p.name for p in FOLDER.glob("*.relay") if p.stem not in texts] == []


F = "float32"
#: A program; arguments that fail while it runs; arguments that work, and the shape of what they give.
RUNS = [
    ("broadcast", [np.ones((3, 4), F), np.ones((2, 4), F)], [np.ones((3, 4), F), np.ones((1, 4), F)], (3, 4)),
    ("index", [np.ones((3, 4), F), np.array([7], "int32")], [np.ones((3, 4), F), np.array([2], "int32")], (1, 4)),
    ("dyn_reshape", [np.ones((2, 4), F), np.array([3, 3], "int64")], [np.ones((2, 4), F), np.array([4, 2], "int64")], (4, 2)),
    ("topk", [np.ones(3, F), np.array(5, "int32")], [np.ones(3, F), np.array(2, "int32")], (2,)),
    ("recursion", [np.array(10_000_000, "int64")], [np.array(1000, "int64")], ()),
    ("memory", [np.array(1_000_000, "int64")], [np.array(3, "int64")], (3,)),
]


@pytest.mark.split(2)
@pytest.mark.spread("device")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "bad", "good", "shape"), RUNS, ids=[r[0] for r in RUNS])
def test_the_machine_lives_on(name: str, bad: list[Any], good: list[Any], shape: tuple[int, ...], device: str) -> None:
    machine = VirtualMachine(compile(FOLDER / f"{name}.relay", target=device), memory_limit_bytes=1 << 20)
    want = machine.run(*good).numpy()
    before = settled(machine)
    for _ in range(2):
        with pytest.raises(VMError):
            machine.run(*bad).numpy()
        assert settled(machine) == before, "a failure gives back what it took"
        got = machine.run(*good).numpy()
        assert got.shape == shape
        np.testing.assert_array_equal(got, want)
        del got


def settled(machine: VirtualMachine) -> dict[str, int]:
    """The machine's memory once the device is idle and the pool is empty."""
    gc.collect()  # an exception's traceback holds the frames that hold results
    finish(machine)
    machine.trim()
    return machine.memory
