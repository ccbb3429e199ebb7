"""Bodies that are received into the memory of their tensors: cut anywhere, left in the middle, refused, one after the other."""

from __future__ import annotations

import asyncio
import functools
import json
import random
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay

pytest.importorskip("httptools", reason="the package httptools is not installed: pip install 'relayvm[serve]'")

from relayvm.serving.buffers import Buffers
from relayvm.serving.protocol.limits import Limits
from relayvm.serving.receiver import ReceivingProtocol

from .conftest import Server
from .test_rest import binary_request

LIMIT = 1 << 22


@pytest.fixture(scope="module", params=[1, 2])
def server(models: Path, start_server: Callable[..., Server], request: pytest.FixtureRequest) -> Server:
    """A server whose runs are beside its connections, with one worker, or in other threads."""
    options = [
        "--workers",
        request.param,
        "--body-bytes",
        LIMIT,
        "--tensor-bytes",
        LIMIT,
        "--pending-bytes",
        8 * LIMIT,
        "--idle-ms",
        60_000,
    ]
    return start_server(f"rows={models / 'rows.rvm'}", f"spin={models / 'spin.rvm'}", *options)


def request_of(n: int, *more: str) -> tuple[bytes, np.ndarray]:
    """The bytes of a request of ``n`` rows, and the first input."""
    x = np.random.default_rng(n).normal(size=(n, 4)).astype("float32")
    data, tail = binary_request(x, np.arange(n, dtype="int32"))
    text = json.dumps(data).encode()
    headers = ["POST /v2/models/rows/infer HTTP/1.1", "Host: a", f"Inference-Header-Content-Length: {len(text)}", *more]
    if "Transfer-Encoding: chunked" not in more:
        headers.append(f"Content-Length: {len(text) + len(tail)}")
    return "\r\n".join([*headers, "", ""]).encode() + text + tail, x


def connected(server: Server) -> socket.socket:
    host, _, port = server.rest.partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def answer(client: socket.socket) -> tuple[int, bytes]:
    """The status and the body of the next answer."""
    stream = client.makefile("rb")
    return next_answer(stream)


def next_answer(stream: Any) -> tuple[int, bytes]:
    """The status, and the body, of which binary tensors only."""
    status, headers = int(stream.readline().split()[1]), {}
    for line in iter(stream.readline, b"\r\n"):
        name, _, value = line.lower().partition(b":")
        headers[name] = int(value) if value.strip().isdigit() else 0
    body = stream.read(headers[b"content-length"])
    return status, body[headers.get(b"inference-header-content-length", 0) :]


def check(found: tuple[int, bytes], x: np.ndarray) -> None:
    assert (found[0], found[1][: x.nbytes]) == (200, (2 * x).tobytes()), found[1][:200]


def test_bodies_of_all_sizes_in_pieces(server: Server) -> None:
    """One connection; a body ends in the first piece, at its end, one byte later, and far behind."""
    random = np.random.default_rng(0)
    few, more = (len(request_of(n)[0]) for n in (500, 600))
    whole = 500 + (len(ReceivingProtocol._memory.view) - few) * 100 // (more - few)  # rows in the first piece
    with connected(server) as client:
        for n in (0, 1, whole // 2, *range(whole - 3, whole + 4), 6000, 60_000, 120_000):
            data, x = request_of(n)
            for cuts in ([], sorted(random.integers(0, len(data), 3)), [data.index(b"\r\n\r\n") + 4], [len(data) - 1]):
                for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                    client.sendall(data[begin:end])
                    if cuts:
                        time.sleep(0.005)
                check(answer(client), x)


def test_an_exchange_answers_as_the_application_does(server: Server) -> None:
    """A query makes a request take the application's way: damaged requests have the same answers both ways."""
    rng = random.Random(0)
    good, _ = request_of(3)
    head, _, body = good.partition(b"\r\n\r\n")
    statuses = set()
    with connected(server) as client:
        stream = client.makefile("rb")
        for _ in range(300):
            at = rng.randrange(len(body))
            part = rng.choice([b"", b"-1", b"1e999", b"[]", b"{}", b'"', b"NaN", b"\xff", bytes(rng.choices(body, k=3))])
            damaged = body[:at] + part + body[at + rng.randrange(3) :]
            length = b"Content-Length: %d" % len(damaged)
            found = []
            for query in (b"", b"?way=application"):
                changed = head.replace(b"/infer", b"/infer" + query).replace(b"Content-Length: %d" % len(body), length)
                client.sendall(changed + b"\r\n\r\n" + damaged)
                found.append(next_answer(stream))
            assert found[0] == found[1], damaged
            statuses.add(found[0][0])
    assert statuses == {200, 400}


def spin(n: int, **parameters: int) -> bytes:
    """The bytes of a request whose run takes some ``n`` times 0.2 us."""
    inputs = [{"name": "n", "datatype": "INT32", "shape": [], "data": [n]}]
    body = json.dumps({"inputs": inputs, "parameters": parameters}).encode()
    return b"POST /v2/models/spin/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def test_a_run_that_passes_its_deadline_is_refused_in_every_thread(server: Server) -> None:
    """Short runs before make the server run the long one beside its connections if it has one worker."""
    with connected(server) as client:
        for _ in range(40):
            client.sendall(spin(1))
            assert answer(client)[0] == 200
        client.sendall(spin(500_000, timeout=5000))
        status, body = answer(client)
        assert status == 504 and b"no answer within 5 ms (the parameter timeout, in microseconds)" in body
        client.sendall(spin(1))
        assert answer(client)[0] == 200


def test_a_long_run_delays_no_other_request(server: Server) -> None:
    """Runs that have been long are in other threads: a second client is answered meanwhile, and deadlines hold."""
    data, x = request_of(3)
    with connected(server) as client, connected(server) as other:
        began = time.monotonic()
        client.sendall(spin(1_000_000))
        assert answer(client)[0] == 200
        a_second = int(1_000_000 / (time.monotonic() - began))
        for _ in range(2):
            client.sendall(spin(a_second))
            time.sleep(0.05)
            other.sendall(spin(a_second, timeout=10_000))
            began = time.monotonic()
            assert answer(other)[0] == 504
            other.sendall(data)
            check(answer(other), x)
            client.settimeout(0)
            with pytest.raises(BlockingIOError):
                client.recv(1)
            client.settimeout(30)
            assert answer(client)[0] == 200 and time.monotonic() - began > 0.2


def test_other_forms_of_a_body(server: Server) -> None:
    """Chunks, ``Expect``, and two requests at once."""
    data, x = request_of(5000, "Transfer-Encoding: chunked")
    head, _, body = data.partition(b"\r\n\r\n")
    with connected(server) as client:
        client.sendall(head + b"\r\n\r\n%x\r\n" % 7 + body[:7] + b"\r\n%x\r\n" % (len(body) - 7) + body[7:] + b"\r\n0\r\n\r\n")
        check(answer(client), x)
        data, x = request_of(5000, "Expect: 100-continue")
        head, _, body = data.partition(b"\r\n\r\n")
        client.sendall(head + b"\r\n\r\n")
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        check(answer(client), x)
        many = [request_of(n) for n in (2, 4, 5000, 0, 7)]  # at once, and the end of each with the begin of the next
        stream = client.makefile("rb")
        for size in (1 << 30, 700, 50_000):
            data = b"".join(data for data, _ in many)
            for begin in range(0, len(data), size):
                client.sendall(data[begin : begin + size])
                time.sleep(0.002)
            for _, x in many:
                check(next_answer(stream), x)


def pending_refused(server: Server, data: bytes) -> bool:
    """Whether the server has too many bytes of requests to take another one."""
    with connected(server) as client:
        client.sendall(data)
        return answer(client)[0] == 429


def test_a_body_that_is_refused_or_left_gives_its_bytes_back(server: Server) -> None:
    """Each of these requests leaves the bytes of all requests together as they were: many of these are served in turn."""
    data, x = request_of(60_000)
    for _ in range(300):  # more than the limit of all requests together
        with connected(server) as client:
            client.sendall(data[:200_000])
    until = time.monotonic() + 20
    while pending_refused(server, data) and time.monotonic() < until:
        time.sleep(0.05)
    wrong = {400: data.replace(b"FP32", b"FP16"), 404: data.replace(b"models/rows", b"models/none")}
    with connected(server) as client:
        for _ in range(5):
            for status, request in wrong.items():
                client.sendall(request)
                assert answer(client)[0] == status
                client.sendall(data)
                check(answer(client), x)


@pytest.mark.extensive
def test_tls_on_both_ports(models: Path, tmp_path: Path, start_server: Callable[..., Server]) -> None:
    """Each client knows the certificate, which the server signs itself."""
    import grpc
    import tritonclient.grpc

    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    server = start_server(f"rows={models / 'rows.rvm'}", "--certificate", certificate, "--key", key)
    host, _, port = server.rest.removeprefix("https://").partition(":")
    data, x = request_of(60_000)
    context = ssl.create_default_context(cafile=certificate)
    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain, server_hostname=host) as client:
        for _ in range(3):
            client.sendall(data)
            check(answer(client), x)
    with pytest.raises(ssl.SSLCertVerificationError), socket.create_connection((host, int(port))) as plain:
        ssl.create_default_context().wrap_socket(plain, server_hostname=host)
    trusted = grpc.ssl_channel_credentials(certificate.read_bytes())
    rpc = tritonclient.grpc.InferenceServerClient(server.grpc, ssl=True, creds=trusted)
    inputs = []
    for name, datatype, array in (
        ("x", "FP32", x),
        ("k", "INT32", np.arange(len(x), dtype="int32")),
        ("on", "BOOL", x[:, 0] > 0),
    ):
        inputs.append(tritonclient.grpc.InferInput(name, list(array.shape), datatype))
        inputs[-1].set_data_from_numpy(array)
    assert np.array_equal(rpc.infer("rows", inputs).as_numpy("result.0"), 2 * x)
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.FutureTimeoutError):
        grpc.channel_ready_future(channel).result(timeout=2)


def test_threads_share_no_memory_of_reception() -> None:
    def address(protocol: ReceivingProtocol) -> int:
        return np.frombuffer(protocol.get_buffer(-1), np.uint8).ctypes.data

    protocols = [ReceivingProtocol.__new__(ReceivingProtocol) for _ in range(2)]
    assert address(protocols[0]) == address(protocols[1])
    with ThreadPoolExecutor(1) as other:
        assert other.submit(address, protocols[1]).result() != address(protocols[0])


def test_rooms_return_when_the_last_view_has_gone() -> None:
    buffers = Buffers(most_kept=1 << 18)
    first = buffers.take(100_000)
    view: Any = first[5:50].view()
    address = first.ctypes.data
    del first
    assert buffers.kept_bytes == 0
    del view
    assert buffers.kept_bytes == 1 << 17
    again, other = buffers.take(131_072), buffers.take(131_072)
    assert again.ctypes.data == address != other.ctypes.data and buffers.kept_bytes == 0
    more = [buffers.take(100_000) for _ in range(3)]
    del again, other, more
    assert buffers.kept_bytes == 1 << 18
    assert len(buffers.take(10)) == 10


class Forwarding(asyncio.Protocol):
    """A protocol that passes bytes to another one, as uvloop does to a protocol of both kinds."""

    def __init__(self, other: ReceivingProtocol) -> None:
        self.connection_made, self.data_received = other.connection_made, other.data_received  # type: ignore[method-assign]
        self.connection_lost = other.connection_lost  # type: ignore[method-assign]


@pytest.mark.extensive
def test_a_loop_that_passes_bytes(models: Path) -> None:
    import uvicorn

    from relayvm.serving.exchange import exchange_for
    from relayvm.serving.rest import application

    repository = relay.serving.load([models / "rows.rvm"], limits=Limits(workers=1, reload_ms=0))
    many = [request_of(n) for n in (0, 3, 60_000, 2, 5000)]

    async def scenario() -> None:
        config = uvicorn.Config(application(repository, owns=False), log_level="warning")
        config.load()
        state = uvicorn.Server(config).server_state

        def protocol() -> Forwarding:
            made = ReceivingProtocol(config, state, {})
            made.begin = functools.partial(exchange_for, repository)
            return Forwarding(made)

        server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
        await asyncio.to_thread(ask_all, server.sockets[0].getsockname())
        server.close()

    def ask_all(address: tuple[str, int]) -> None:
        with socket.create_connection(address, timeout=30) as client:
            stream = client.makefile("rb")
            for data, x in many:
                client.sendall(data)
                check(next_answer(stream), x)
            client.sendall(b"".join(data for data, _ in many))
            for _, x in many:
                check(next_answer(stream), x)

    asyncio.run(scenario())
    repository.close()
