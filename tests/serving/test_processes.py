"""Several server processes behind one address: faults of processes, statistics of all, and their end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

import relayvm as relay
from relayvm.compiler.commands.terminal.exit_codes import code_of
from relayvm.serving import reports
from relayvm.serving.protocol.limits import Limits
from relayvm.vm.diagnostics import codes
from relayvm.vm.diagnostics.source import Diagnostic, FileError, InputError, RelayError, SequentialSpan, SourceText, Span

from .conftest import ROWS, Server
from .test_server import Load, replace_model

COUNT = 3


def processes(parent: int) -> set[int]:
    """The children of a process."""
    return {int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()}


def wait_until(holds: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def counted(server: Server, name: str, label: str) -> int:
    """A count of the server, over all its processes."""
    with urllib.request.urlopen(f"http://{server.rest}/metrics") as answer:
        text = answer.read().decode()
    return sum(int(float(n)) for n in re.findall(rf"^relayvm_{name}_total{{.*{label}.*}} (\S+)$", text, re.M))


@pytest.mark.extensive
def test_faults_of_processes_under_load(models: Path, tmp_path: Path, start_server: Callable[..., Server]) -> None:
    """A killed process takes its own connections only; it is replaced; counts remain; a new file reaches all processes.

    All processes end with the server, also under load.
    """
    path = tmp_path / "rows.rvm"
    shutil.copy(models / "rows.rvm", path)
    server = start_server(path, "--reload-ms", "20", "--processes", COUNT)
    before = processes(server.process.pid)
    assert len(before) == COUNT
    load = Load(server.rest, 4 * COUNT)
    wait_until(lambda: load.found["factor 2"] > 300)
    os.kill(min(before), signal.SIGKILL)
    wait_until(lambda: len(after := processes(server.process.pid)) == COUNT and after != before)
    seen = load.found["factor 2"]
    wait_until(lambda: load.found["factor 2"] > seen + 300)
    replace_model(ROWS.replace("2f", "3f"), path)
    wait_until(lambda: load.found["factor 3"] > 300 and counted(server, "reloads", "loaded") == COUNT)
    found = load.end()
    lost = found["closed"] + found["not sent"]  # the killed process may end before or after a request is sent
    assert {"factor 2", "factor 3"} <= set(found) <= {"factor 2", "factor 3", "closed", "not sent"} and 0 < lost < 4 * COUNT, (
        found
    )
    right = found["factor 2"] + found["factor 3"]
    assert right <= counted(server, "requests", 'status="OK"') <= right + found["closed"]
    fresh = Load(server.rest, 4 * COUNT)  # connections to all processes
    pids = processes(server.process.pid)
    wait_until(lambda: fresh.found["factor 3"] > 300)
    text = server.stop()  # under load
    found = fresh.end()
    assert set(found) <= {"factor 3", "closed", "not sent", "status 503"}, found
    assert found["closed"] + found["not sent"] == 4 * COUNT, found
    assert text.count("ended with code -9 and is replaced") == 1
    assert not any(Path(f"/proc/{pid}").exists() for pid in before | pids)


def test_both_transports_reach_the_processes_and_the_port_is_theirs_alone(
    models: Path, start_server: Callable[..., Server]
) -> None:
    import grpc

    from relayvm.serving.protocol.messages import SERVICE, message

    server = start_server(models / "rows.rvm", "--processes", 2)
    for _ in range(6):
        with grpc.insecure_channel(server.grpc, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub = channel.unary_unary(f"/{SERVICE}/ServerLive", lambda m: m, message("ServerLiveResponse").FromString)
            assert stub(b"", timeout=30).live
    taken = server.grpc.partition(":")[2]
    assert f"cannot bind 127.0.0.1:{taken}: Address already in use" in failed(
        str(models / "rows.rvm"), "--grpc-port", taken, "--processes", "2"
    )
    pids = processes(server.process.pid)
    server.process.kill()  # processes end with a parent that is killed
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def failed(*arguments: str) -> str:
    """The exit code and the text of a server that cannot start."""
    command = [sys.executable, "-m", "relayvm", "serve", "--port", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=Path(relay.__file__).parent)
    assert done.returncode > 0 and not done.stdout, done
    return f"{done.returncode} {done.stderr}"


@pytest.mark.parametrize("options", [["--batch", "m"], []])
def test_a_model_that_cannot_be_served_ends_the_server_with_the_same_text(
    models: Path, tmp_path: Path, options: list[str]
) -> None:
    path = models / "rows.rvm" if options else tmp_path / "none.rvm"
    alone, several = (failed(str(path), *options, "--grpc-port", "0", "--processes", n) for n in ("1", "2"))
    assert alone == several and "error" in alone


def connections(pid: int, port: int) -> int:
    """The number of a process's connections on a port, those included that only the client has closed."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    numbers = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] in ("01", "08")}
    return sum(os.readlink(end) in numbers for end in Path(f"/proc/{pid}/fd").iterdir() if end.is_symlink())


def test_processes_have_equal_numbers_of_connections(models: Path, start_server: Callable[..., Server]) -> None:
    """Also after some have ended; a process that is stopped leaves its share to the others, and so does one that is late."""
    server = start_server(models / "rows.rvm", "--processes", COUNT)
    host, _, port = server.rest.partition(":")
    pids = processes(server.process.pid)

    def opened(n: int) -> list[socket.socket]:
        found = []
        for _ in range(n):
            found.append(socket.create_connection((host, int(port)), timeout=30))
            found[-1].sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n")
            assert found[-1].recv(100).startswith(b"HTTP/1.1 200")
        return found

    def numbers() -> list[int]:
        return sorted(connections(pid, int(port)) for pid in pids)

    def are_equal(each: int) -> bool:
        found = numbers()
        return sum(found) == each * COUNT and found[-1] - found[0] <= 2

    first = opened(4 * COUNT)
    assert are_equal(4), numbers()
    for each in first[::2]:
        each.close()
    wait_until(lambda: sum(numbers()) == 2 * COUNT)
    second = opened(2 * COUNT)
    assert are_equal(4), numbers()
    stopped = min(pids)
    before = connections(stopped, int(port))
    os.kill(stopped, signal.SIGSTOP)
    third = opened(COUNT)
    os.kill(stopped, signal.SIGCONT)
    assert connections(stopped, int(port)) == before and sum(numbers()) == 5 * COUNT
    for each in (*first, *second, *third):
        each.close()


def test_errors_of_a_process_keep_their_texts_places_and_exit_codes() -> None:
    class Unknown(RelayError):
        kind = codes.Serve.REQUEST

    found: list[RelayError] = [Unknown("one", help="two")]
    for text in ("def @main(%x: float32) { exp(%x }", "def @main(%x: Tensor[(?n), float32]) { %x }\ndef @main() { 1 }"):
        with pytest.raises(RelayError) as caught:
            relay.parse(text)
        found.append(caught.value)
    found.append(FileError("no file", code=codes.Process.FAILED))
    source = SourceText("a", "one\ntwo")
    positions = SequentialSpan(source, 0, 3, (Span(source, 0, 3), Span(source, 4, 7)))
    found.append(InputError([Diagnostic("several", positions, (("a note", Span(source, 4, 7)), ("no place", None)))]))
    for error in found:
        again = reports.read(reports.written(error))
        assert str(again) == str(error) and code_of(again) == code_of(error)
        assert [d.as_data() for d in again.diagnostics] == [d.as_data() for d in error.diagnostics]
    assert type(again) is InputError


def test_limits_are_divided_and_a_body_still_fits() -> None:
    limits = Limits(queue=5, pending_bytes=100, body_bytes=60)
    assert limits.divided(2) == Limits(queue=3, pending_bytes=60, body_bytes=60)
    assert limits.divided(1) == limits
