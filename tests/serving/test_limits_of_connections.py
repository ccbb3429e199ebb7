"""Connections that send too long a head, too slowly, nothing, or that do not read: each ends, and others go on meanwhile."""

from __future__ import annotations

import json
import resource
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httptools", reason="the package httptools is not installed: pip install 'relayvm[serve]'")

from relayvm.serving.alarm import Alarm

from .conftest import Server
from .test_processes import connections, wait_until
from .test_receiver import answer, check, connected, next_answer, request_of, spin

HEADER_BYTES, HEADER_MS, IDLE_MS, TIMEOUT_MS = 40_000, 500, 1000, 1000
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n"
CHUNKED = b"POST %b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
INFER = b"/v2/models/rows/infer"


@pytest.fixture(scope="module")
def server(models: Path, start_server: Callable[..., Server]) -> Server:
    options: list[Any] = ["--header-bytes", HEADER_BYTES, "--header-ms", HEADER_MS, "--idle-ms", IDLE_MS, "--workers", 1]
    return start_server(f"rows={models / 'rows.rvm'}", f"spin={models / 'spin.rvm'}", *options, "--timeout-ms", TIMEOUT_MS)


def head_of(nbytes: int, *, in_one: bool = True) -> bytes:
    """A head of so many counted bytes, in one long header or in many short ones."""
    counted = len(b"/v2/health/live") + len(b"Hosta") + 4
    if in_one:
        return LIVE + b"x: " + b"a" * (nbytes - counted - 5) + b"\r\n\r\n"
    short, rest = divmod(nbytes - counted - 105, 10)
    return LIVE + b"name: ab\r\n" * short + b"y: " + b"a" * (100 + rest) + b"\r\n\r\n"


def rest_of(client: socket.socket) -> bytes:
    """All bytes until the server closes the connection."""
    try:
        return b"".join(iter(lambda: client.recv(1 << 16), b""))
    except ConnectionError:
        return b""


def code_of(found: bytes) -> tuple[bytes, str]:
    """The status line and the code of a refusal, which is the last of the connection."""
    head, _, body = found.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    return head.splitlines()[0], json.loads(body)["code"]


TOO_LONG = (b"HTTP/1.1 431 Request Header Fields Too Large", "serve/head")
TOO_LATE = (b"HTTP/1.1 408 Request Timeout", "serve/head-deadline")


def trickle(client: socket.socket, chunk: bytes, seconds: float = 30, pause: float = 0.02) -> float:
    """Send a piece again and again, until the connection ends; the seconds that it took."""
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        try:
            client.sendall(chunk)
            time.sleep(pause)
        except ConnectionError:
            return time.monotonic() - began
    raise AssertionError(f"the connection is open after {seconds} s")


# ---- bytes -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_one", [True, False])
@pytest.mark.parametrize("size", [1 << 20, 5000, 37])
def test_a_head_up_to_the_limit_is_read(server: Server, size: int, in_one: bool) -> None:
    """Cut anywhere; the next head is counted anew."""
    longest, longer = (head_of(n, in_one=in_one) for n in (HEADER_BYTES, HEADER_BYTES + 1))
    with connected(server) as client:
        stream = client.makefile("rb")
        for _ in range(2):
            for begin in range(0, len(longest), size):
                client.sendall(longest[begin : begin + size])
            assert next_answer(stream)[0] == 200
        for begin in range(0, len(longer), size):
            client.sendall(longer[begin : begin + size])
        assert code_of(rest_of(client)) == TOO_LONG


@pytest.mark.split(3)
@pytest.mark.parametrize(
    "first",
    [LIVE + b"x: ", LIVE + b"x:", LIVE, b"GET /", b"", CHUNKED % b"/v2" + b"0\r\nx: ", CHUNKED % b"/v2" + b"5;", CHUNKED % INFER],
    ids=["a value", "spaces", "names", "an address", "line ends", "a trailer", "an extension", "an extension of an inference"],
)
def test_a_head_without_an_end_takes_no_memory(server: Server, first: bytes) -> None:
    """Of any part: the server neither keeps nor reads it to the end."""
    chunk = {LIVE + b"x:": b" " * 10_000, LIVE: b"a: b\r\n" * 2000, b"": b"\r\n" * 5000}.get(first, b"a" * 10_000)
    if first == CHUNKED % INFER:
        first += b"5;"
    before = memory_of(server)
    with connected(server) as client:
        client.sendall(first)
        trickle(client, chunk, pause=0)
    assert memory_of(server) < before + 8


def memory_of(server: Server) -> int:
    """The most megabytes of memory that a server has had."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def test_a_trailer_beyond_the_limit_is_refused(server: Server) -> None:
    with connected(server) as client:
        client.sendall(CHUNKED % INFER + b"0\r\n" + b"name: ab\r\n" * (HEADER_BYTES // 10 + 2))
        assert code_of(rest_of(client)) == TOO_LONG


def test_bytes_that_are_no_request_are_refused_in_the_form_of_the_protocol(server: Server) -> None:
    for data in (b"\0\1\2\3\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"):
        with connected(server) as client:
            client.sendall(data)
            assert code_of(rest_of(client)) == (b"HTTP/1.1 400 Bad Request", "serve/request")


def test_a_refused_head_comes_after_the_answers_of_requests_before(server: Server) -> None:
    """The second head is refused while the first request runs: its answer is the last, and it is whole."""
    for bad in (b"GET / HTTP/1.1\r\nx: " + b"a" * 2 * HEADER_BYTES, b"\0\0\0\r\n\r\n"):
        with connected(server) as client:
            client.sendall(spin(200_000))
            client.sendall(bad)
            assert answer(client)[0] == 200
            assert rest_of(client) == b""


# ---- times -------------------------------------------------------------------------------------------------------------------


@pytest.mark.extensive
def test_a_head_that_does_not_end_is_refused(server: Server) -> None:
    """The first head, a later one, and one in the pipeline, held open and trickled."""
    data, x = request_of(3)
    for before in (b"", data, data + b"\r\n"):
        with connected(server) as client:
            if before:
                client.sendall(before)
                check(answer(client), x)
            client.sendall(LIVE)
            began = time.monotonic()
            assert code_of(rest_of(client)) == TOO_LATE
            assert HEADER_MS / 1000 - 0.1 < time.monotonic() - began < HEADER_MS / 1000 + 3
        with connected(server) as client:
            client.sendall(before + LIVE)
            assert trickle(client, b"a: b\r\n") < HEADER_MS / 1000 + 4
    with connected(server) as client:
        client.sendall(spin(200_000) + LIVE)  # its time is over before the run is, or later
        assert answer(client)[0] == 200
        rest = rest_of(client)
        assert not rest or code_of(rest) == TOO_LATE


@pytest.mark.extensive
def test_a_connection_without_a_request_is_closed(server: Server) -> None:
    """Before the first request and after an answer, also if line ends come."""
    data, x = request_of(3)
    for before, seconds in ((b"", HEADER_MS / 1000), (data, IDLE_MS / 1000)):
        for chunk in (b"", b"\r\n"):
            with connected(server) as client:
                client.sendall(before)
                if before:
                    check(answer(client), x)
                began = time.monotonic()
                if chunk:
                    trickle(client, chunk)
                else:
                    assert rest_of(client) == b""
                assert seconds - 0.1 < time.monotonic() - began < seconds + 3


@pytest.mark.extensive
def test_a_trickled_body_ends_its_connection(server: Server) -> None:
    """With the refusal for an inference; a while after an answer that does not read the body."""
    known = b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
    for head, chunk in ((CHUNKED, b"1\r\n{\r\n"), (known, b"{")):
        with connected(server) as client:
            client.sendall(head % INFER)
            assert TIMEOUT_MS / 1000 - 0.2 < trickle(client, chunk) < TIMEOUT_MS / 1000 + 3
        with connected(server) as client:
            client.sendall(head % INFER)
            status, body = code_of(rest_of(client))
            assert (status, body) == (b"HTTP/1.1 504 Gateway Timeout", "serve/deadline")
        for path in (b"/v2/models/none/infer", b"/v2/none"):
            with connected(server) as client:
                client.sendall(head % path)
                stream = client.makefile("rb")
                assert next_answer(stream)[0] == 404
                assert trickle(client, chunk) < IDLE_MS / 1000 + 3


@pytest.mark.extensive
def test_an_answer_that_is_not_read_ends_its_connection(server: Server) -> None:
    """A client that reads slowly gets the whole answer."""
    data, x = request_of(400_000)
    host, _, port = server.rest.partition(":")
    with socket.socket() as client, socket.socket() as slow:
        for each in (client, slow):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
            each.settimeout(30)
            each.connect((host, int(port)))
            each.sendall(data)
        stream = slow.makefile("rb", buffering=1 << 16)
        began, found = time.monotonic(), [stream.read(1 << 18)]
        while time.monotonic() < began + 2.5 * IDLE_MS / 1000:
            time.sleep(IDLE_MS / 10_000)
            found.append(stream.read(1 << 18))
        # the client that reads nothing has lost its connection; the other one may have all that is left on the way to it
        wait_until(lambda: connections(server.process.pid, int(port)) <= 1)
        found.append(stream.read())
        assert (2 * x).tobytes() in b"".join(found)
        assert len(rest_of(client)) < sum(map(len, found))


def test_requests_without_end_that_read_no_answer_take_no_memory(server: Server) -> None:
    """In a pipeline: few of them wait at a time, and the connection ends."""
    before = memory_of(server)
    with connected(server) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        trickle(client, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 1000, pause=0)
    assert memory_of(server) < before + 16


@pytest.mark.extensive
def test_heads_held_open_lock_nobody_out(server: Server) -> None:
    """More of them than the process has file descriptors: others are answered after the time of a head."""
    pid = server.process.pid
    before, used = resource.prlimit(pid, resource.RLIMIT_NOFILE), len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 10, before[1]))
    held = []
    try:
        for _ in range(30):
            held.append(connected(server))
            held[-1].sendall(LIVE)
        data, x = request_of(3)
        with connected(server) as client:
            client.sendall(data)
            check(answer(client), x)
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        for each in held:
            each.close()


def test_a_silent_connection_to_grpc_is_closed(server: Server) -> None:
    host, _, port = server.grpc.partition(":")
    for first in (b"", b"PRI * HT"):
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(first)
            began = time.monotonic()
            rest_of(client)
            assert time.monotonic() - began < HEADER_MS / 1000 + 5


# ---- the alarm ---------------------------------------------------------------------------------------------------------------


class Clock:
    """A loop whose time a test sets."""

    def __init__(self) -> None:
        self.now, self.timers = 0.0, list[Any]()

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, ring: Callable[[], None]) -> Any:
        timer = Timer(self.now + seconds, ring, self.timers)
        self.timers.append(timer)
        return timer

    def go_on(self, until: float) -> None:
        while due := sorted(t.at for t in self.timers if t.at <= until):
            self.now = due[0]
            timer = next(t for t in self.timers if t.at == due[0])
            self.timers.remove(timer)
            timer.ring()
        self.now = until


class Timer:
    def __init__(self, at: float, ring: Callable[[], None], timers: list[Any]) -> None:
        self.at, self.ring, self._timers = at, ring, timers

    def cancel(self) -> None:
        self._timers.remove(self)


@pytest.fixture
def clock() -> Iterator[Clock]:
    made = Clock()
    yield made
    assert len(made.timers) <= 1


def test_an_alarm_rings_at_its_last_time(clock: Clock) -> None:
    alarm: Any = Alarm(clock)  # type: ignore[arg-type]
    found = list[tuple[str, float]]()

    def ring(name: str) -> Callable[[], None]:
        return lambda: found.append((name, clock.now))

    alarm.set(5, ring("a"))
    clock.go_on(3)
    alarm.set(5, ring("b"))  # later: the timer of before rings first
    clock.go_on(7)
    assert not found and len(clock.timers) == 1
    alarm.set(0.5, ring("c"))  # earlier
    clock.go_on(9)
    assert found == [("c", 7.5)]
    alarm.set(2, ring("d"))
    alarm.clear()
    clock.go_on(20)
    assert len(found) == 1 and not clock.timers
    alarm.set(1, ring("e"))
    clock.go_on(21)
    assert found[1:] == [("e", 21)]
    alarm.set(1, ring("f"))
    alarm.cancel()
    assert not clock.timers
