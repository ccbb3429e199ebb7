"""Disks: a command whose output file, cache or standard output cannot be written, or that is killed while it writes.

After any fault the old file is unchanged, or the new file is whole.  A command that could not write reports its own error and
ends with the exit code of files.  No other file is left, except by a process that was killed.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from relayvm.compiler.commands.cli import main
from relayvm.compiler.commands.terminal.exit_codes import ExitCode
from relayvm.vm.api.executable import Executable

from .part import Part

_PROGRAM = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 4), float32]) {
  (take(%x, squeeze(argwhere(greater(sum(%x, axis=[1]), 0f)), axis=[1]), axis=0), sum(%x))
}
def @double(%x: Tensor[(?n, 4), float32]) { %x + %x }
"""
_OLD = b"what was there before"
_INPUTS = ("--dim", "n=500")
_SIDES = ("--a", "fuse=on", "--b", "fuse=off", "--repeat", "1")

#: Commands with a file to write, the suffix of the file, and what reads it: any exception says that it is not whole.
_WRITERS: list[tuple[tuple[str, ...], str, Callable[[Path], object]]] = [
    (("run", "p.relay", *_INPUTS, "-o"), ".npz", lambda p: list(np.load(p).values())),
    (("run", "p.relay", *_INPUTS, "--entry", "double", "-o"), ".npy", np.load),
    (("compile", "p.relay", "-o"), ".rvm", Executable.load),
    (("profile", "p.relay", *_INPUTS, "--repeat", "1", "--json-out"), ".json", lambda p: json.loads(p.read_text())),
    (("profile", "p.relay", *_INPUTS, "--repeat", "1", "--trace"), ".json", lambda p: json.loads(p.read_text())),
    (("profile", "p.relay", *_INPUTS, "--repeat", "1", "--html"), ".html", lambda p: p.read_text().rindex("</html>\n")),
    (("profile", "p.relay", *_INPUTS, "--repeat", "1", "--csv"), ".csv", lambda p: p.read_text().index("\n", -1)),
    (("compare", "p.relay", *_INPUTS, *_SIDES, "--html"), ".html", lambda p: p.read_text().rindex("</html>\n")),
]
#: Commands that write to standard output only.
_SAYERS = [("isa",), ("ops", "--json"), ("--help",), ("run", "p.relay", *_INPUTS, "--json"), ("run", "nothing.relay"), ("env",)]
_FILE_FAULTS = ("limit", "limit", "killed", "killed", "full", "folder", "missing", "under a file", "long name", "none")
_STREAM_FAULTS = ("output full", "output closed", "reader left", "errors full", "all full", "cache is a file", "cache limit")


class Case(NamedTuple):
    """``command``: number of a writer or a sayer; ``amount``: bytes of a limit, or microseconds until the kill."""

    fault: str
    command: int
    amount: int


class Disk(Part[Case]):
    """Faults of writing."""

    name, unit, slice_trials, hang_seconds = "disk", "faults of writing", 16, 120.0

    def draw(self, seed: int) -> Case:
        """Two thirds with a file to write."""
        r = random.Random(seed)
        if r.random() < 0.67:
            fault = r.choice(_FILE_FAULTS)
            return Case(
                fault, r.randrange(len(_WRITERS)), int(10 ** (r.uniform(4, 6) if fault == "killed" else r.uniform(0, 5.5)))
            )
        return Case(r.choice(_STREAM_FAULTS), r.randrange(len(_SAYERS)), int(10 ** r.uniform(0, 4)))

    def check(self, case: Case) -> str | None:
        """Runs the command in a child with the fault, and looks at what it left."""
        self.seen[case.fault] += 1
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            (here / "p.relay").write_text(_PROGRAM)
            if case.fault in _STREAM_FAULTS:
                return self._stream(case, here)
            return self._file(case, here)

    def _file(self, case: Case, here: Path) -> str | None:
        args, suffix, read = _WRITERS[case.command]
        place, file = here / "out", here / "out" / f"old{suffix}"
        place.mkdir()
        file.write_bytes(_OLD)
        target = _target(case.fault, place, file, suffix)
        ended = _run((*args, str(target)), here, case)
        left = [p.name for p in place.iterdir() if p.suffix == ".part"]
        if left and case.fault != "killed":
            return f"left {left}"
        if file.read_bytes() != _OLD:
            try:
                read(file)
            except Exception as error:  # any: the file is not whole
                return f"a part of a file: {type(error).__name__}: {error}"
        elif ended.code == 0 and target == file:
            return "ended with 0, but the file is the old one"
        if case.fault == "killed" and ended.code < 0:
            self.seen["killed in time"] += 1
            return None
        may = {ExitCode.OK, ExitCode.FILE} if case.fault in ("limit", "killed", "none") else {ExitCode.FILE}
        if case.fault == "none":
            may = {ExitCode.OK}
        if ended.code not in may:
            return f"ended with {ended.code}: {ended.err[-300:]}"
        if ended.code and not ended.err.splitlines()[-1].startswith(f"error: cannot write {target}: "):
            return f"said {ended.err[-300:]!r}"
        return None

    def _stream(self, case: Case, here: Path) -> str | None:
        args = _SAYERS[case.command]
        ended = _run(args, here, case)
        good = ExitCode.FILE if args == ("run", "nothing.relay") else ExitCode.OK
        full = case.fault in ("output full", "all full")
        if ended.code != (ExitCode.FILE if full else good):
            return f"ended with {ended.code}: {ended.err[-300:]}"
        if "Traceback" in ended.err or "internal error" in ended.err or "Exception ignored" in ended.err:
            return f"said {ended.err[-300:]!r}"
        return None

    def write(self, case: Case) -> str:
        """Check it again."""
        return f"from tests.campaign.disk import PART, Case\n\nassert PART.check({case!r}) is None"


def _target(fault: str, place: Path, file: Path, suffix: str) -> Path:
    match fault:
        case "full":
            (place / f"full{suffix}").symlink_to("/dev/full")
            return place / f"full{suffix}"
        case "folder":
            (place / f"folder{suffix}").mkdir()
            return place / f"folder{suffix}"
        case "missing":
            return place / "no" / f"x{suffix}"
        case "under a file":
            return file / f"x{suffix}"
        case "long name":
            return place / ("x" * 300 + suffix)
    return file


# ---- a command in a child ------------------------------------------------------------------------------------------------


class Ended(NamedTuple):
    """The exit code, or minus the signal; standard error."""

    code: int
    err: str


def _run(args: tuple[str, ...], here: Path, case: Case) -> Ended:
    _warm_up()
    output, saying = os.pipe()
    pid = os.fork()
    if not pid:
        code = 99
        try:
            code = _child(args, here, case, saying)
        finally:
            os._exit(code)
    os.close(saying)
    if case.fault == "killed":
        time.sleep(case.amount / 1e6)
        os.kill(pid, signal.SIGKILL)
    with open(output, encoding="utf-8", errors="replace") as pipe:
        err = pipe.read()
    _, status = os.waitpid(pid, 0)
    return Ended(os.waitstatus_to_exitcode(status), err)


@functools.cache
def _warm_up() -> None:
    """Import and compile once, for all children."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        program = Path(folder) / "p.relay"
        program.write_text(_PROGRAM)
        for args in (("profile", *_INPUTS, "--repeat", "1", "--html", f"{folder}/p.html"), ("compare", *_INPUTS, *_SIDES)):
            assert main((args[0], str(program), *args[1:])) == ExitCode.OK


def _child(args: tuple[str, ...], here: Path, case: Case, saying: int) -> int:
    """Do the work of a separate process, with its streams and its end."""
    os.chdir(here)
    os.dup2(_opened("/dev/full") if case.fault in ("errors full", "all full") else saying, 2)
    os.close(saying)
    _redirect(case.fault)
    sys.stdout = None if case.fault == "output closed" else open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if case.fault == "cache is a file":
        os.environ["RELAYVM_CACHE_DIR"] = str(here / "p.relay")
    if case.fault == "cache limit":
        os.environ["RELAYVM_CACHE_DIR"] = str(here / "cache")
    if case.fault in ("limit", "cache limit"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (case.amount, case.amount))
    code = int(main(args))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code


def _redirect(fault: str) -> None:
    if fault in ("output full", "all full"):
        os.dup2(_opened("/dev/full"), 1)
    elif fault == "output closed":
        os.close(1)
    elif fault == "reader left":
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 1)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    else:
        os.dup2(_opened("/dev/zero"), 1)  # not the null device: a program of root may have put a file there, which has a limit


def _opened(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)


PART = Disk()
