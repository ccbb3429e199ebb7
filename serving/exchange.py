"""Inference over HTTP without a task: a request whose body has a known length is answered as soon as its last byte has come.

A framework's request (routes, a task, messages of the body, a wait for the answer or for the client's leaving) takes longer than
a short run.  The protocol of a connection calls an exchange instead, which writes its answer at once, as one piece of bytes.
Requests of other forms take the way of the ASGI application, with the same limits, refusals and answers.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .answers import answer_bytes
from .bodies import BodyMemory
from .pool import Job, Pool
from .protocol import json_form
from .protocol.endpoints import ENDPOINTS
from .protocol.requests import InferRequest
from .protocol.served_model import ServedModel
from .repository import Repository
from .service import Observed, late, patience, unread

_NAME = rb"([A-Za-z0-9_.-]+)"
_JSON_LENGTH = json_form.JSON_LENGTH.lower().encode()
#: The addresses of inference, without a version and with a version.
_PATHS = tuple(
    re.compile(re.sub(rb"{\w+}", lambda _: _NAME, path.encode())) for e in ENDPOINTS if e.handler == "infer" for path in e.paths
)


class Connection(Protocol):
    """The protocol of a connection: the part of uvicorn's that an exchange uses."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    server_state: Any

    def on_response_complete(self) -> None: ...


def exchange_for(
    repository: Repository, protocol: Connection, url: bytes, headers: Sequence[tuple[bytes, bytes]], length: int
) -> Exchange | None:
    """The exchange of a POST request with a body of ``length`` bytes; None for a request that takes the application's way."""
    found = next(filter(None, (path.fullmatch(url) for path in _PATHS)), None)
    by_name = dict(headers)
    if found is None or len(by_name) < len(headers) or b"content-encoding" in by_name:
        return None
    return Exchange(repository, protocol, [name.decode() for name in found.groups()], length, by_name.get(_JSON_LENGTH))


class _Unheard:
    """The event of an application that waits for messages: an exchange has none."""

    def set(self) -> None:
        pass


class Exchange:
    """One inference, from the head of its request to its answer, in the thread of the loop.

    The attributes without ``_`` up to ``message_event`` are a cycle of uvicorn's, which its protocol reads.
    """

    response_started = False  # an answer is one write: it is complete once it has begun

    def __init__(
        self, repository: Repository, protocol: Connection, names: list[str], length: int, json_length: bytes | None
    ) -> None:
        self.response_complete, self.disconnected, self.more_body, self.keep_alive = False, False, True, True
        self.message_event = _Unheard()
        self.received, self.view = 0, memoryview(b"")
        self._repository, self._protocol, self._names, self._length = repository, protocol, names, length
        self._json_header, self._json_length = json_length, 0
        self._memory, self._observed, self._began = BodyMemory(repository), Observed(repository, "rest"), time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._request: InferRequest | None = None
        self._waiting: tuple[Pool, Job] | None = None

    # ---- the body ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Take the memory for the body, or refuse the request by its head."""
        try:
            self._observed.model = self._repository.pool(*self._names).model
            self._memory.count(self._length)
            text = None if self._json_header is None else self._json_header.decode("latin-1")
            self._json_length = json_form.json_length(text, self._length)
            self.view = self._memory.memory_for(self._length, self._json_length)
        except Exception as error:  # every failure is an answer of the protocol
            self._refuse(error)

    @property
    def is_receiving(self) -> bool:
        """Whether bytes of the body are still to come, into ``view``."""
        return self.received < self._length and not self.response_complete

    @property
    def left(self) -> int:
        """The number of bytes of the body that are still to come."""
        return self._length - self.received

    def take(self, chunk: bytes) -> None:
        """Bytes of the body that came with the head."""
        if not self.response_complete:
            end = self.received + len(chunk)
            self.view[self.received : end] = chunk
            self.received = end

    def went_on(self) -> None:
        """Bytes have come: answer if these were the last."""
        if not self.response_complete and self.received == self._length:
            self._answer()

    @property
    def seconds_to_read(self) -> float:
        """The seconds that are left for the rest of the body."""
        return self._began + self._repository.limits.timeout_ms / 1000 - time.monotonic()

    def end_unread(self) -> None:
        """The rest of the body has not come in time."""
        self._refuse(unread(self._repository.limits.timeout_ms))

    def leave(self) -> None:
        """The client has gone: a waiting request leaves the queue."""
        if not self.response_complete:
            self.response_complete = True
            if self._waiting is not None:
                pool, job = self._waiting
                pool.withdraw(job)
            self._release(asyncio.CancelledError())

    # ---- the answer --------------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        self.more_body = False
        try:
            model = self._observed.model
            assert model is not None
            if self._json_length >= json_form.LONG:
                self._protocol.loop.run_in_executor(None, self._decode, model).add_done_callback(self._decoded)
            else:
                self._run(model, self._decode(model))
        except Exception as error:
            self._refuse(error)

    def _decode(self, model: ServedModel) -> InferRequest:
        return json_form.decode(model, self.view, self._json_length, self._repository.limits)

    def _decoded(self, future: asyncio.Future[InferRequest]) -> None:
        if self.response_complete:
            return
        try:
            assert self._observed.model is not None
            self._run(self._observed.model, future.result())
        except Exception as error:
            self._refuse(error)

    def _run(self, model: ServedModel, request: InferRequest) -> None:
        def encode(results: Sequence[np.ndarray]) -> tuple[bytes, int | None]:
            return json_form.encode(model, request.id, request.wanted, results)

        milliseconds = patience(self._repository, request)
        until = self._began + milliseconds / 1000
        if time.monotonic() < until and (results := self._repository.run_here(model, request.arguments)) is not None:
            body = encode(results)
            if time.monotonic() >= until:  # a worker's answer would be late, too
                raise late(milliseconds)
            self._write(*body)
            return
        loop, job = self._protocol.loop, Job(request.arguments, encode)
        self._waiting = self._repository.submit(model, job), job
        self._timer = loop.call_later(max(0.0, until - time.monotonic()), self._end_late, milliseconds)
        job.answer.add_done_callback(lambda _: _call(loop, self._done))

    def _done(self) -> None:
        """The worker has the answer."""
        if self.response_complete or self._waiting is None:
            return
        try:
            self._write(*self._waiting[1].answer.result())
        except Exception as error:
            self._refuse(error)

    def _end_late(self, milliseconds: float) -> None:
        assert self._waiting is not None
        pool, job = self._waiting
        pool.withdraw(job)
        self._refuse(late(milliseconds))

    def _write(self, body: bytes, json_length: int | None) -> None:
        self._finish(None, 200, json_form.answer_headers(json_length), body)

    def _refuse(self, error: BaseException) -> None:
        status, headers, body = json_form.encode_refusal(error)
        if headers.get("connection") == "close":
            self.keep_alive = False
        self._finish(error, status, headers, body)

    def _finish(self, error: BaseException | None, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self._release(error)  # counted first: a client that has its answer finds it in the statistics
        self._send(status, headers, body)
        self._protocol.on_response_complete()

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        protocol = self._protocol
        if not protocol.transport.is_closing():
            defaults = protocol.server_state.default_headers
            protocol.transport.write(answer_bytes(status, headers, body, defaults, self.keep_alive))
            if not self.keep_alive:
                protocol.transport.close()

    def _release(self, error: BaseException | None) -> None:
        self.response_complete = True
        self._stop_timer()
        self._memory.release()
        self._observed.end(error)
        self.view, self._waiting = memoryview(b""), None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _call(loop: asyncio.AbstractEventLoop, function: Any) -> None:
    """Call a function in the loop's thread; a loop that has ended has no connection to answer."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(function)
