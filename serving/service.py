"""The service behind both transports: metadata, and one inference from the decoded request to the encoded answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from ..vm.diagnostics import codes
from .pool import Job
from .protocol.refusals import RequestError, UnreadError, refusal, status_of
from .protocol.requests import InferRequest
from .protocol.served_model import ServedModel
from .repository import Repository

SERVER_NAME = "relayvm"
#: The protocol's names of the implemented extensions.
EXTENSIONS = ["binary_tensor_data"]


def server_metadata() -> dict[str, Any]:
    """The protocol's description of the server."""
    from importlib.metadata import version

    return {"name": SERVER_NAME, "version": version("relayvm"), "extensions": EXTENSIONS}


async def answered(
    repository: Repository,
    model: ServedModel,
    request: InferRequest,
    encode: Callable[[Sequence[np.ndarray]], Any],
    began: float,
    gone: Awaitable[Any] | None = None,
) -> Any:
    """The encoded answer of a request whose first byte came at ``began`` (``time.monotonic``).

    ``gone`` is done once the client has gone; the result is then None.  Raises RequestError for a queue that is full and a time
    that is over, and the errors of the run.
    """
    milliseconds = patience(repository, request)
    job = Job(request.arguments, encode)
    pool = repository.submit(model, job)
    answer = asyncio.wrap_future(job.answer)
    try:
        left = max(0.0, began + milliseconds / 1000 - time.monotonic())
        waits = [answer] if gone is None else [answer, asyncio.ensure_future(gone)]
        await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if gone is not None and waits[1].done():
            return None
        raise late(milliseconds)
    finally:
        if not answer.done():
            pool.withdraw(job)
            answer.cancel()


def patience(repository: Repository, request: InferRequest) -> float:
    """The milliseconds from the first byte of a request to its answer."""
    most = repository.limits.timeout_ms
    return min(most, request.timeout_ms or most)


def unread(milliseconds: float) -> RequestError:
    """The refusal of a request whose body has not come in time."""
    return UnreadError(f"the body was not read within {milliseconds:g} ms")


def late(milliseconds: float) -> RequestError:
    """The refusal of a request whose answer has not come in time."""
    message = f"no answer within {milliseconds:g} ms"
    return RequestError(message, help="the parameter timeout, in microseconds", code=codes.Serve.DEADLINE)


class Observed:
    """The time and the status of one inference, for the statistics."""

    def __init__(self, repository: Repository, transport: str) -> None:
        self._metrics, self._transport, self._began = repository.metrics, transport, time.perf_counter()
        self.model: ServedModel | None = None

    def end(self, error: BaseException | None) -> None:
        """Count the request; ``error``: that of a refused request."""
        labels = ("", "") if self.model is None else (self.model.name, self.model.version)
        status = "OK" if error is None else "CANCELLED" if isinstance(error, asyncio.CancelledError) else _status(error)
        self._metrics.answered(*labels, self._transport, status, time.perf_counter() - self._began)


def _status(error: BaseException) -> str:
    return status_of(refusal(error)).grpc
