"""Signals that come at once: within the line of the addresses, in the parent and in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import relayvm as relay

#: A server that gets the signal from its own announcement, before anything else can happen.
PROGRAM = """
import os, signal, sys
import relayvm as relay
from relayvm.serving import serve_repository
from relayvm.serving.binding import Binding
from relayvm.serving.protocol.limits import Limits
path, number, processes = sys.argv[1:]
serve_repository(
    lambda limits: relay.serving.load([path], limits=limits), Limits(workers=1), int(processes), Binding(port=0, grpc_port=0),
    lambda addresses: os.kill(os.getpid(), getattr(signal, number)),
)
print("ended")
"""


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_at_the_line_of_the_addresses_ends_the_server(models: Path, number: str, processes: int) -> None:
    command = [sys.executable, "-c", PROGRAM, str(models / "rows.rvm"), number, str(processes)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=Path(relay.__file__).parent)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
