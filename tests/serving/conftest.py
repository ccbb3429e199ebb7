"""The models of these tests, an application in this process, and a server process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import relayvm as relay
from relayvm.serving.protocol.limits import Limits

#: Rows that depend on themselves alone; every kind of dtype.
ROWS = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 4), float32], %k: Tensor[(?n), int32], %on: Tensor[(?n), bool])
  -> (Tensor[(?n, 4), float32], Tensor[(?n), int32], Tensor[(?n), bool]) {
  (multiply(%x, 2f), add(%k, 1), logical_not(%on))
}
"""
#: Rows that depend on all rows: no batch dim.
PORTIONS = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, ?m), float32]) -> Tensor[(?n, ?m), float32] { nn.softmax(%x, axis=0) }
"""
#: The rows above zero: their number depends on values.
KEPT = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n), float32]) { take(%x, squeeze(argwhere(greater(%x, 0f)), axis=[1]), axis=0) }
"""
#: An element of the input: an index out of bounds fails at run time.
PICK = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n), float32], %i: int32) { take(%x, %i, mode="fast") }
"""
#: A loop as long as its input says.
SPIN = """#[version = "0.0.5"]
def @again(%n: int32, %x: float32) -> float32 { if (equal(%n, 0)) { %x } else { @again(subtract(%n, 1), add(%x, 1f)) } }
def @main(%n: int32) -> float32 { @again(%n, 0f) }
"""
PROGRAMS = {"rows": ROWS, "shares": PORTIONS, "kept": KEPT, "pick": PICK, "spin": SPIN}

#: Limits that tests reach.
SMALL = Limits(body_bytes=4096, tensor_bytes=1024, workers=1, reload_ms=0)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of executables."""
    folder = tmp_path_factory.mktemp("models")
    for name, text in PROGRAMS.items():
        relay.compile(relay.parse(text)).save(folder / f"{name}.rvm")
    return folder


@pytest.fixture(scope="session")
def application(models: Path) -> Iterator[Any]:
    """An application of all models with small limits."""
    from relayvm.serving.rest import application

    paths = [f"{name}={models / name}.rvm" for name in PROGRAMS]
    repository = relay.serving.load([*paths, f"rows:3={models / 'rows.rvm'}"], limits=SMALL)
    yield application(repository, owns=False)
    repository.close()


class Server:
    """A server process and its ports."""

    def __init__(self, *arguments: str | Path) -> None:
        command = [sys.executable, "-m", "relayvm", "serve", *map(str, arguments), "--port", "0", "--grpc-port", "0", "--json"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(relay.__file__).parent
        )
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in range(4)]  # an object of two addresses; "" from an ended process
        reported = json.loads("".join(lines))
        self.rest, self.grpc = reported["rest"].removeprefix("http://"), reported["grpc"]

    def stop(self) -> str:
        """End the server; the text on its standard error.  It must end well."""
        self.process.terminate()
        _, text = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, text
        return text


@pytest.fixture(scope="module")
def start_server() -> Iterator[Callable[..., Server]]:
    """Start server processes; those that a test does not stop are stopped at the end."""
    started: list[Server] = []

    def start(*arguments: str | Path) -> Server:
        started.append(Server(*arguments))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.stop()
