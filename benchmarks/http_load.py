"""The lightest client of a closed loop: prepared requests from a file in memory, one process, no copies of its own.

Each connection sends a request and waits for its whole answer before the next one.  Requests are sent by ``sendfile``, and the
body of an answer is dropped by the kernel (``MSG_TRUNC``), so nearly all of the machine is left to the server.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

_MOST = 1 << 16
_LENGTH = b"\r\ncontent-length: "


@dataclass
class Load:
    """The answers of some seconds: seconds of each good one, and the counts of all by status."""

    seconds: float
    times: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    cpu_seconds: float = 0.0


class Requests:
    """Whole requests, heads and bodies, in a file in memory."""

    def __init__(self, requests: Sequence[bytes]) -> None:
        self.file = os.memfd_create("requests")
        self.spans: list[tuple[int, int]] = []
        at = 0
        for data in requests:
            with memoryview(data) as left:
                while left:
                    left = left[os.write(self.file, left) :]
            self.spans.append((at, at + len(data)))
            at += len(data)

    def close(self) -> None:
        os.close(self.file)


class _Connection:
    """A connection under way with request ``number``; ``left``: the bytes of its answer that are still to come, -1: unknown."""

    def __init__(self, address: tuple[str, int], number: int) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.number, self.at, self.end, self.began = number, 0, 0, 0.0
        self.head, self.left, self.status = b"", -1, 0


def load(address: tuple[str, int], requests: Requests, clients: int, seconds: float, first: int = 0) -> Load:
    """Load a server for some seconds; the requests under way at the end are finished, and counted."""
    found, before = Load(seconds), _cpu()
    poll, connections = select.epoll(), {}
    began = time.perf_counter()
    for k in range(clients):
        each = _Connection(address, first + k * 37)
        connections[each.socket.fileno()] = each
        poll.register(each.socket, select.EPOLLIN)
        _ask(each, requests, poll)
    end = began + seconds
    while connections:
        for number, events in poll.poll():
            each = connections[number]
            if events & select.EPOLLOUT:
                _send(each, requests, poll)
            if events & ~select.EPOLLOUT and _answered(each):
                now = time.perf_counter()
                found.statuses[each.status] += 1
                if each.status == 200:
                    found.times.append(now - each.began)
                if now < end:
                    each.number += 1
                    _ask(each, requests, poll)
                else:
                    poll.unregister(number)
                    each.socket.close()
                    del connections[number]
    poll.close()
    found.seconds, found.cpu_seconds = time.perf_counter() - began, _cpu() - before
    return found


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _ask(each: _Connection, requests: Requests, poll: select.epoll) -> None:
    each.at, each.end = requests.spans[each.number % len(requests.spans)]
    each.head, each.left, each.began = b"", -1, time.perf_counter()
    if not _sent(each, requests):
        poll.modify(each.socket, select.EPOLLIN | select.EPOLLOUT)


def _send(each: _Connection, requests: Requests, poll: select.epoll) -> None:
    if _sent(each, requests):
        poll.modify(each.socket, select.EPOLLIN)


def _sent(each: _Connection, requests: Requests) -> bool:
    """Send as much as the kernel takes; whether that is all."""
    try:
        while each.at < each.end:
            each.at += os.sendfile(each.socket.fileno(), requests.file, each.at, each.end - each.at)
    except BlockingIOError:
        return False
    return True


def _answered(each: _Connection) -> bool:
    """Read what has come; whether the answer is complete.  Raises ConnectionError for a connection that is closed before."""
    try:
        while True:
            if each.left < 0:
                data = each.socket.recv(_MOST)
                if not data:
                    raise ConnectionError(f"closed after {len(each.head)} bytes of an answer")
                each.head += data
                head, blank, body = each.head.partition(b"\r\n\r\n")
                if not blank:
                    continue
                _, _, after = head.lower().partition(_LENGTH)
                each.left, each.status = int(after.partition(b"\r\n")[0]) - len(body), int(head[9:12])
            if each.left == 0:
                return True
            got = _dropped(each)
            each.left -= got
    except BlockingIOError:
        return False


_BUFFER = bytearray(_MOST * 4)


def _dropped(each: _Connection) -> int:
    got = each.socket.recv_into(_BUFFER, min(each.left, len(_BUFFER)), socket.MSG_TRUNC)
    if not got:
        raise ConnectionError("closed within an answer")
    return got
