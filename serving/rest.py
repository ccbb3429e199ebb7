"""The REST transport: an ASGI application of the protocol's endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..vm.diagnostics import codes
from .bodies import BodyMemory
from .protocol import json_form
from .protocol.endpoints import ENDPOINTS
from .protocol.refusals import RequestError
from .protocol.requests import InferRequest
from .protocol.served_model import ServedModel
from .repository import Repository
from .service import Observed, answered, server_metadata, unread

#: The status of an answer that no client reads.
_CLIENT_GONE = 499
_JSON_LENGTH = json_form.JSON_LENGTH.lower()


def application(repository: Repository, owns: bool) -> Starlette:
    """The application.  ``owns``: whether the end of its lifespan closes the models."""
    handlers = _Handlers(repository)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        watch = asyncio.ensure_future(watched(repository))
        try:
            yield
        finally:
            watch.cancel()
            if owns:
                await asyncio.to_thread(repository.close)

    routes = [
        Route(path, _guarded(getattr(handlers, e.handler)), methods=[e.method]) for e in ENDPOINTS for path in e.paths
    ]  # fmt: skip
    errors = {404: _no_endpoint, 405: _no_method}
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=errors)


async def watched(repository: Repository) -> None:
    """Load models whose files change, for ever."""
    while repository.limits.reload_ms:
        await asyncio.sleep(repository.limits.reload_ms / 1000)
        await asyncio.to_thread(repository.reload_changed)


# ---- errors ------------------------------------------------------------------------------------------------------------------


def refused(error: BaseException) -> Response:
    """The protocol's error answer."""
    status, headers, data = json_form.encode_refusal(error)
    return Response(data, status, headers)


async def _no_endpoint(request: Request, _: Exception) -> Response:
    return refused(RequestError(f"there is no endpoint {request.url.path[:200]}", code=codes.Serve.ENDPOINT))


async def _no_method(request: Request, _: Exception) -> Response:
    return refused(RequestError(f"the endpoint does not take {request.method[:20]}", code=codes.Serve.METHOD))


def _guarded(handler: Any) -> Any:
    @functools.wraps(handler)
    async def guarded(request: Request) -> Response:
        try:
            answer: Response = await handler(request)
            return answer
        except Exception as error:  # every failure is an answer of the protocol
            return refused(error)

    return guarded


# ---- bodies ------------------------------------------------------------------------------------------------------------------


class _Body(BodyMemory):
    """The body of a request, read within the limits into one aligned buffer."""

    async def read(self, request: Request) -> tuple[memoryview, int]:
        """The body and the number of its bytes of JSON.  Raises RequestError, before the bytes are read where it can."""
        headers = request.headers
        if headers.get("content-encoding", "identity") != "identity":
            message = f"the content encoding {headers['content-encoding'][:40]!r} is not supported"
            raise RequestError(message, help="send the body as it is", code=codes.Serve.ENCODING)
        declared = headers.get("content-length")
        if declared is not None:
            self.count(int(declared))
        parts, total = [], 0
        async for chunk in request.stream():
            total += len(chunk)
            if total > self.counted:
                self.count(total - self.counted)
            parts.append(chunk)
        length = json_form.json_length(headers.get(_JSON_LENGTH), total)
        body = self.memory_for(total, length)
        begin = 0
        for part in parts:
            body[begin : begin + len(part)] = part
            begin += len(part)
        return body, length


# ---- endpoints ---------------------------------------------------------------------------------------------------------------


class _Handlers:
    """The handlers of the endpoints, by the names in ``ENDPOINTS``."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    async def live(self, _: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, _: Request) -> Response:
        is_ready = not self._repository.stopping
        return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    async def model_ready(self, request: Request) -> Response:
        model = self._model(request)
        return JSONResponse({"name": model.name, "ready": True})

    async def server(self, _: Request) -> Response:
        return JSONResponse(server_metadata())

    async def model(self, request: Request) -> Response:
        model = self._model(request)
        return JSONResponse(model.metadata(self._repository.versions(model.name)))

    async def statistics(self, _: Request) -> Response:
        return Response(self._repository.metrics.text(), media_type="text/plain; version=0.0.4")

    async def infer(self, request: Request) -> Response:
        observed, body = Observed(self._repository, "rest"), _Body(self._repository)
        try:
            observed.model = self._model(request)
            found = await self._infer(request, observed.model, body)
        except ClientDisconnect:
            observed.end(asyncio.CancelledError())
            return Response(status_code=_CLIENT_GONE)
        except BaseException as error:
            observed.end(error)
            raise
        finally:
            body.release()
        observed.end(None if found is not None else asyncio.CancelledError())
        return Response(status_code=_CLIENT_GONE) if found is None else found

    async def _infer(self, request: Request, model: ServedModel, body: _Body) -> Response | None:
        began, limits = time.monotonic(), self._repository.limits
        try:
            async with asyncio.timeout(limits.timeout_ms / 1000):
                data, length = await body.read(request)
        except TimeoutError:
            raise unread(limits.timeout_ms) from None
        work = functools.partial(json_form.decode, model, data, length, limits)
        decoded: InferRequest = work() if length < json_form.LONG else await asyncio.to_thread(work)

        def encode(results: Sequence[np.ndarray]) -> tuple[bytes, int | None]:
            return json_form.encode(model, decoded.id, decoded.wanted, results)

        gone = asyncio.ensure_future(request.receive())  # after the body, the next message is the client's leaving
        try:
            found = await answered(self._repository, model, decoded, encode, began, gone)
        finally:
            gone.cancel()
        if found is None:
            return None
        content, length_of_json = found
        return Response(content, headers=json_form.answer_headers(length_of_json))

    def _model(self, request: Request) -> ServedModel:
        return self._repository.pool(request.path_params["name"], request.path_params.get("version", "")).model
