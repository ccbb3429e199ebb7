"""The output of a command."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relayvm.compiler.commands.cli import main


def answer(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    """The standard output of a command; its standard error must be empty."""
    capsys.readouterr()
    ended = main(args)
    out, err = capsys.readouterr()
    assert (ended, err) == (code, ""), f"{' '.join(args)} ended with {ended}: {err}"
    return out


def data(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    return json.loads(answer(capsys, *args, "--json"))
