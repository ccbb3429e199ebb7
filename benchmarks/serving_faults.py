"""Faults of clients, models and workers against a real server, while good requests go on; every kind is counted.

    pip install 'relayvm[serve]'
    python benchmarks/serving_faults.py [--bodies 10000] [--messages 2000] [--left 500]

Good clients send requests of 0 to 400 candidates all the time, over REST, and compare each answer with that of a machine in this
process; so are the answers to damaged bodies that are still valid.  A second server of two processes loses a process again and
again.  Exit code 1: a wrong answer, a lost request, an unexpected status, or a server that did not end well.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))
PROGRAM = ROOT / "examples" / "detection_tail.relay"
LIMIT = 1 << 22
REFUSED = {400, 413, 422}
DTYPES = {"FP32": np.float32, "INT32": np.int32}
GRPC = {"OK right", "INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED"}
PATH = "/v2/models/model/infer"


def arrays_of(n: int) -> dict[str, np.ndarray]:
    from detection_reference import candidates

    return dict(zip(("boxes", "logits"), candidates(n), strict=True))


def binary(arrays: dict[str, np.ndarray]) -> tuple[bytes, int]:
    """A body of binary tensors, and its bytes of JSON."""
    inputs = [
        {"name": k, "datatype": "FP32", "shape": a.shape, "parameters": {"binary_data_size": a.nbytes}} for k, a in arrays.items()
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    return head + b"".join(a.tobytes() for a in arrays.values()), len(head)


def plain(arrays: dict[str, np.ndarray]) -> bytes:
    """A body of JSON only."""
    inputs = [{"name": k, "datatype": "FP32", "shape": a.shape, "data": a.ravel().tolist()} for k, a in arrays.items()]
    return json.dumps({"inputs": inputs}).encode()


def tensors(kind: str, body: bytes, length: int | None) -> dict[str, np.ndarray]:
    """The ``inputs`` or ``outputs`` of a body by name."""
    data = json.loads(body if length is None else body[:length])
    rest, found = memoryview(body)[len(body) if length is None else length :], {}
    for entry in data[kind]:
        dtype: Any = DTYPES[entry["datatype"]]
        size = entry.get("parameters", {}).get("binary_data_size")
        if size is None:
            array = np.array(entry["data"], dtype)
        else:
            array, rest = np.frombuffer(rest[:size], dtype), rest[size:]
        found[entry["name"]] = array.reshape(entry["shape"])
    return found


def message_tensors(entries: Any, raw: Any) -> dict[str, np.ndarray]:
    """The tensors of a message by name; ``raw``: its raw contents."""
    found = {}
    for k, entry in enumerate(entries):
        dtype: Any = DTYPES[entry.datatype]
        typed = [*entry.contents.fp32_contents, *entry.contents.int_contents]
        found[entry.name] = (np.frombuffer(raw[k], dtype) if raw else np.array(typed, dtype)).reshape(entry.shape)
    return found


def is_right(machine: Any, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> bool:
    """Whether an answer has the results of a run in this process."""
    results = machine.run(inputs["boxes"], inputs["logits"])
    return same(outputs, {f"result.{i}": result.numpy() for i, result in enumerate(results)})


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    """Whether tensors have the same names, shapes and bits."""
    return a.keys() == b.keys() and all(a[k].shape == b[k].shape and a[k].tobytes() == b[k].tobytes() for k in a)


def local_machine() -> Any:
    """A machine of the program in this process."""
    import relayvm as relay

    return relay.VirtualMachine(relay.compile(PROGRAM))


def request(body: bytes, length: int | None, declared: int | None = None) -> bytes:
    """The bytes of a request."""
    lines = [f"POST {PATH} HTTP/1.1", "Host: a", f"Content-Length: {len(body) if declared is None else declared}"]
    lines += [] if length is None else [f"Inference-Header-Content-Length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Connection:
    """A connection to the server."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=60)
        self.stream = self.socket.makefile("rb")

    def ask(self, data: bytes) -> tuple[int, bytes]:
        """The status of the answer, and its body without JSON.  Raises ConnectionError without an answer."""
        status, body, length = self.ask_whole(data)
        return status, body[length or 0 :]

    def ask_whole(self, data: bytes) -> tuple[int, bytes, int | None]:
        """The status of the answer, its body, and the length of its JSON before binary tensors.

        Raises ConnectionError without an answer.
        """
        self.socket.sendall(data)
        first = self.stream.readline()
        if not first:
            raise ConnectionResetError
        headers: dict[bytes, bytes] = {}
        for line in iter(self.stream.readline, b"\r\n"):
            name, _, value = line.lower().partition(b":")
            headers[name] = value.strip()
        body = self.stream.read(int(headers[b"content-length"]))
        length = headers.get(b"inference-header-content-length")
        return int(first.split()[1]), body, None if length is None else int(length)

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


class Good:
    """Clients with good requests.  ``found``: answers by kind; a request that was sent whole and has no answer is lost.

    ``connects_again``: whether a client whose connection was closed makes another one.
    """

    def __init__(self, address: tuple[str, int], clients: int, connects_again: bool = False) -> None:
        machine, self._connects_again = local_machine(), connects_again
        self.cases = []
        for n in (0, 1, 7, 100, 400):
            arrays = arrays_of(n)
            data, length = binary(arrays)
            wanted = b"".join(t.numpy().tobytes() for t in machine.run(*arrays.values()))
            self.cases.append((request(data, length), wanted))
        self.found, self._stop, self._address = Counter[str](), threading.Event(), address
        self.threads = [threading.Thread(target=self._ask, args=(k,)) for k in range(clients)]
        for thread in self.threads:
            thread.start()

    def _ask(self, k: int) -> None:
        connection = Connection(self._address)
        while not self._stop.is_set():
            data, wanted = self.cases[k % len(self.cases)]
            k += 1
            try:
                status, body = connection.ask(data)
            except ConnectionError:  # the server closed an idle connection: it has not read the request; or it was killed
                self.found["closed"] += 1
                if not self._connects_again:
                    return
                connection.close()
                connection = Connection(self._address)
                continue
            self.found["right" if status == 200 and body == wanted else "wrong" if status == 200 else f"status {status}"] += 1
        connection.close()

    def end(self) -> Counter[str]:
        """Stop the clients; the counts."""
        self._stop.set()
        for thread in self.threads:
            thread.join(60)
        return self.found


def damaged(body: bytes, rng: random.Random) -> bytes:
    """A body with some bytes removed, repeated, replaced or cut off."""
    words = [b"-1", b"1e999", b"null", b"[]", b"{}", b'"', b"18446744073709551616", b"NaN", b"\xff", b"0.5"]
    for _ in range(rng.randint(1, 3)):
        at, size = rng.randint(0, len(body)), rng.randint(0, 8)
        part = rng.choice([b"", body[at : at + 2 * size], rng.randbytes(size), rng.choice(words)])
        body = body[:at] + part + body[at + size :]
    return body


# ---- the faults ----------------------------------------------------------------------------------------------------------


def malformed_bodies(address: tuple[str, int], count: int) -> Counter[str]:
    """Damaged JSON and binary bodies: each has an answer, and a valid body has the results of a run in this process."""
    rng, found, connection, machine = random.Random(1), Counter[str](), Connection(address), local_machine()
    data, length = binary(arrays_of(3))
    for k in range(count):
        body = damaged(data if k % 2 else plain(arrays_of(1)), rng)
        json_length = length + rng.randint(-1, 1) if k % 2 else None
        status, answer, answer_length = connection.ask_whole(request(body, json_length))
        kind = str(status)
        if status == 200:
            inputs, outputs = tensors("inputs", body, json_length), tensors("outputs", answer, answer_length)
            kind += " right" if is_right(machine, inputs, outputs) else " wrong"
        found[kind] += 1
    connection.close()
    return found


def malformed_messages(address: str, count: int) -> Counter[str]:
    """Damaged messages of gRPC; valid ones have the results of a run in this process."""
    import grpc

    from relayvm.serving.protocol.messages import SERVICE, message

    arrays, rng, found, machine = arrays_of(3), random.Random(2), Counter[str](), local_machine()
    inputs = [{"name": k, "datatype": "FP32", "shape": a.shape} for k, a in arrays.items()]
    raw = [a.tobytes() for a in arrays.values()]
    good = message("ModelInferRequest")(model_name="model", inputs=inputs, raw_input_contents=raw).SerializeToString()
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(f"/{SERVICE}/ModelInfer", lambda data: data, lambda data: data)
        for k in range(count):
            head = 90 if k % 2 else len(good)  # the tensors' descriptions, or anywhere
            data = damaged(good[:head], rng) + good[head:]
            try:
                answer = message("ModelInferResponse").FromString(call(data, timeout=30))
                given = message("ModelInferRequest").FromString(data)
                inputs = message_tensors(given.inputs, given.raw_input_contents)
                outputs = message_tensors(answer.outputs, answer.raw_output_contents)
                found["OK right" if is_right(machine, inputs, outputs) else "OK wrong"] += 1
            except grpc.RpcError as error:
                found[error.code().name] += 1
        call(good, timeout=30)
    return found


def gone_clients(address: tuple[str, int], count: int) -> Counter[str]:
    """Clients that leave within the head, within the body, and before the answer."""
    rng, found = random.Random(3), Counter[str]()
    data, length = binary(arrays_of(2000))
    whole = request(data, length)
    for k in range(count):
        end = (rng.randint(1, 100), rng.randint(200, len(whole) - 1), len(whole))[k % 3]
        with socket.create_connection(address) as client:
            client.sendall(whole[:end])
        found[("within the head", "within the body", "before the answer")[k % 3]] += 1
    return found


def long_bodies(address: tuple[str, int], count: int) -> Counter[str]:
    """Bodies beyond the limit, declared and in chunks: refused without their bytes."""
    found = Counter[str]()
    for k in range(count):
        connection = Connection(address)
        if k % 2:
            data = request(b"", None, declared=10**11)
        else:
            data = f"POST {PATH} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{LIMIT + 1:x}\r\n".encode() + bytes(
                LIMIT + 1
            )
        try:
            found[str(connection.ask(data)[0])] += 1
        except ConnectionError:
            found["closed while the client sends"] += 1
        connection.close()
    return found


def attacked(address: tuple[str, int], count: int) -> Counter[str]:
    """Heads without an end, silent clients, trickled bodies and unread answers: the server ends each of these connections."""
    head = f"POST {PATH} HTTP/1.1\r\nHost: a\r\n".encode()
    chunks = head + b"Transfer-Encoding: chunked\r\n\r\n"
    kinds = {
        "header without an end": (head + b"x: ", b"a" * (1 << 16)), "many headers": (head, b"a: b\r\n" * 8192),
        "address without an end": (b"GET /", b"a" * (1 << 16)), "extension without an end": (chunks + b"1;", b"a" * (1 << 16)),
        "head held open": (head, b""), "trickled head": (head, b"a: b\r\n"), "silence": (b"", b""), "line ends": (b"", b"\r\n"),
        "trickled body": (chunks, b"1\r\n{\r\n"), "trickled rest": (chunks.replace(b"models/", b"no/"), b"1\r\n{\r\n"),
        "unread answers": (b"", b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 1000),
    }  # fmt: skip
    found = Counter[str]()

    def attack(kind: str, first: bytes, more: bytes) -> None:
        with socket.create_connection(address, timeout=60) as client:
            until = time.monotonic() + 30
            try:
                client.sendall(first)
                while time.monotonic() < until:
                    if not more and not client.recv(1 << 16):
                        break
                    client.sendall(more)
                    time.sleep(0.1 if len(more) < 100 else 0)
            except ConnectionError:
                pass
            found[kind if time.monotonic() < until else f"{kind} is open"] += 1

    threads = [threading.Thread(target=attack, args=(kind, *kinds[kind])) for kind in kinds for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def replaced_models(file: Path, count: int) -> Counter[str]:
    """The file replaced by the same program again and again, and by files that are no program."""
    found, text = Counter[str](), PROGRAM.read_bytes()
    for k in range(count):
        fresh = file.with_suffix(".new")
        fresh.write_bytes(text + b"\n" * (k + 1) if k % 2 == 0 else b"no program")
        os.replace(fresh, file)
        found["program" if k % 2 == 0 else "no program"] += 1
        time.sleep(0.5)
    return found


#: Kills a worker thread of the server each time that the server gets the signal: in a server that this script starts only.
KILLER = """
import ctypes, signal, sys, threading
def kill(*_):
    for thread in threading.enumerate():
        if thread.name == "serve model":
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
            return
signal.signal(signal.SIGUSR1, kill)
from relayvm.__main__ import main
sys.exit(main())
"""


def killed_workers(pid: int, count: int) -> Counter[str]:
    """Worker threads ended from outside."""
    for _ in range(count):
        os.kill(pid, signal.SIGUSR1)
        time.sleep(0.1)
    return Counter({"workers ended": count})


def connections_of(pid: int, port: int) -> int:
    """The number of a process's connections on a port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    numbers = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01"}
    return sum(os.readlink(end) in numbers for end in Path(f"/proc/{pid}/fd").iterdir() if end.is_symlink())


def children(pid: int) -> list[int]:
    """The processes of a server."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def killed_processes(file: Path, count: int) -> tuple[Counter[str], bool]:
    """Processes of a server killed under load: counts, and whether nothing else was lost.

    Only the connections of a killed process are closed.  Each waits for the answer to one request.
    """
    process, output = started(["-m", "relayvm"], file, "--processes", "2")
    host, _, port = output["rest"].removeprefix("http://").partition(":")
    good, theirs = Good((host, int(port)), 8, connects_again=True), 0
    for _ in range(count):
        before, seen = children(process.pid), good.found["right"]
        while good.found["right"] < seen + 200:
            time.sleep(0.01)
        theirs += connections_of(before[0], int(port))
        os.kill(before[0], signal.SIGKILL)
        while len(after := children(process.pid)) < 2 or before[0] in after:
            time.sleep(0.01)
    found = good.end()
    process.terminate()
    code = process.wait(90)
    counts = Counter({"processes killed": count, "their connections": theirs, "exit code": code, **found})
    return counts, code == 0 and set(found) <= {"right", "closed"} and found["closed"] <= theirs


def started(launch: list[str], file: Path, *options: str, errors: Any = None) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """A server, and its addresses."""
    command = [sys.executable, *launch, "serve", f"model={file}", "--port", "0", "--grpc-port", "0", "--json"]
    command += ["--body-bytes", str(LIMIT), "--tensor-bytes", str(LIMIT), "--reload-ms", "100", "--timeout-ms", "15000"]
    command += options
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    return process, json.loads("".join(process.stdout.readline() for _ in range(4)))


def memory(pid: int) -> int:
    """Megabytes of memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


@click.command(help=__doc__)
@click.option("--bodies", default=10_000)
@click.option("--messages", default=2000)
@click.option("--left", default=600)
@click.option("--attackers", default=5, help="Clients of each kind of attack.")
@click.option("--processes", default=20, help="Processes to kill.")
def main(bodies: int, messages: int, left: int, attackers: int, processes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder) / "model.relay", Path(folder) / "log"
        file.write_bytes(PROGRAM.read_bytes())
        with log.open("w") as errors:
            process, output = started(["-c", KILLER], file, errors=errors)
        host, _, port = output["rest"].removeprefix("http://").partition(":")
        address = (host, int(port))
        good, failed = Good(address, 4), False
        print("| fault | counts | good answers meanwhile | MB |\n|---|---|--:|--:|")
        for title, fault, fine in (
            ("malformed bodies", lambda: malformed_bodies(address, bodies), {"200 right", *map(str, REFUSED)}),
            ("malformed messages of gRPC", lambda: malformed_messages(output["grpc"], messages), GRPC),
            ("clients that leave", lambda: gone_clients(address, left), None),
            ("bodies beyond the limit", lambda: long_bodies(address, 100), {"413", "closed while the client sends"}),
            ("attacks of clients", lambda: attacked(address, attackers), None),
            ("killed workers", lambda: killed_workers(process.pid, 50), None),
            ("replaced files", lambda: replaced_models(file, 10), None),
        ):
            before = good.found["right"]
            found = fault()
            failed |= (fine is not None and not set(found) <= fine) or any(kind.endswith("is open") for kind in found)
            counts = ", ".join(f"{kind}: {n}" for kind, n in sorted(found.items()))
            print(f"| {title} | {counts} | {good.found['right'] - before} | {memory(process.pid)} |", flush=True)
        process.send_signal(signal.SIGTERM)  # under load
        code = process.wait(90)
        found = good.end()
        text = log.read_text()
        print(f"| SIGTERM under load | exit code: {code} | {found['right']} in all | |\n\nGood clients: {dict(found)}.")
        print(
            f"The log has {text.count('a worker of the model')} ended workers, {text.count('cannot be loaded')} refused files and"
        )
        print(f"{text.count('a request failed')} unexpected errors.")
        failed |= code != 0 or set(found) != {"right", "closed"} or text.count("a request failed") > 0
        file.write_bytes(PROGRAM.read_bytes())
        counts, is_fine = killed_processes(file, processes)
        print(f"\nA server of two processes: {', '.join(f'{kind}: {n}' for kind, n in counts.items())}.")
        failed |= not is_fine
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
