"""Standard output and standard error of a command: closed, full, a pipe whose reader left, or in another encoding."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from ...vm.source import FileError


def prepare_streams() -> None:
    """A stream that the caller closed (``>&-``) takes anything and shows nothing; characters that one lacks are escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (open as long as the process)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def answer(data: Any, text: str, as_json: bool) -> None:
    """Write the answer of a command: ``data`` as JSON, or ``text``."""
    with standard_output():
        sys.stdout.write((json.dumps(data, indent=2) if as_json else text) + "\n")


@contextlib.contextmanager
def standard_output() -> Iterator[None]:
    """Flush at the end what the block writes to standard output.

    A reader who left had enough, which is no error: the command goes on, so that it ends with the code that it would end
    with.  Raises FileError where standard output takes no more for another reason.
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
    """Write a line to standard error.  Where that takes no more, the exit code is all that there is to say."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def discard_output() -> None:
    """From now on, also at exit, what is written to standard output goes nowhere."""
    _discard(sys.stdout)


def _discard(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, io.UnsupportedOperation):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
