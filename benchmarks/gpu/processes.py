"""Processes with an end: their own group, which goes when their time is over."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

#: Seconds between asking a group to stop and making it.
_GRACE_S = 3.0


class Ended(NamedTuple):
    """``code`` is None where the time was over; ``output`` is what it wrote, both streams."""

    code: int | None
    output: str


def run(
    command: Sequence[str], seconds: float, log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Ended:
    """Run a command for so many seconds at most; what it writes goes to ``log``."""
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env, cwd=cwd, start_new_session=True
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _stop(process)
    return Ended(code, log.read_text(encoding="utf-8", errors="replace"))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the whole group: the process may have started others, which outlive it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
