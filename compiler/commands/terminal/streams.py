"""Standard output and standard error of a command: closed, full, broken pipe, or another encoding."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from ....vm.diagnostics.source import FileError


def prepare_streams() -> None:
    """Replace closed streams (``>&-``) by the null device; escape characters that a stream's encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (open as long as the process)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def answer(data: Any, text: str, as_json: bool) -> None:
    """Write a command's answer: ``data`` as JSON, or ``text``."""
    with standard_output():
        sys.stdout.write((json.dumps(data, indent=2) if as_json else text) + "\n")


@contextlib.contextmanager
def standard_output() -> Iterator[None]:
    """Flush standard output at the end of the block.

    A broken pipe is no error: the command continues, and its exit code does not change.  Raises FileError if standard
    output fails for another reason.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        discard_output()
        raise FileError(f"cannot write to standard output: {error.strerror or error}") from error


def complain(text: str) -> None:
    """Write a line to standard error.  Errors are ignored: the exit code remains."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def discard_output() -> None:
    """Redirect standard output to the null device, also for the flush at exit."""
    _discard(sys.stdout)


def _discard(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, io.UnsupportedOperation):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
