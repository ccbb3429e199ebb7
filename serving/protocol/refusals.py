"""Refused requests: a diagnostic for each, and the status of both transports by the diagnostic's code."""

from __future__ import annotations

import logging
from typing import NamedTuple

from ...ops.native.status import OUT_OF_MEMORY
from ...vm.diagnostics import codes
from ...vm.diagnostics.printable import shortened
from ...vm.diagnostics.source import RelayError

log = logging.getLogger("relayvm.serving")


class RequestError(RelayError):
    """A request that the server refuses."""

    kind = codes.Serve.REQUEST


class UnreadError(RequestError):
    """A request whose body has not come in time: the rest of it is not read."""

    kind = codes.Serve.DEADLINE


class Status(NamedTuple):
    """The status of an answer: HTTP's number, and the name of gRPC's code."""

    http: int
    grpc: str


#: Statuses of codes.
_OF_CODES = {
    codes.Serve.REQUEST: Status(400, "INVALID_ARGUMENT"),
    codes.Serve.ENDPOINT: Status(404, "UNIMPLEMENTED"),
    codes.Serve.METHOD: Status(405, "UNIMPLEMENTED"),
    codes.Serve.ENCODING: Status(415, "INVALID_ARGUMENT"),
    codes.Serve.MODEL: Status(404, "NOT_FOUND"),
    codes.Serve.HEAD: Status(431, "RESOURCE_EXHAUSTED"),
    codes.Serve.HEAD_DEADLINE: Status(408, "DEADLINE_EXCEEDED"),
    codes.Serve.LIMIT: Status(413, "RESOURCE_EXHAUSTED"),
    codes.Serve.BUSY: Status(429, "RESOURCE_EXHAUSTED"),
    codes.Serve.DEADLINE: Status(504, "DEADLINE_EXCEEDED"),
    codes.Serve.STOPPING: Status(503, "UNAVAILABLE"),
    codes.Serve.RESULT: Status(422, "FAILED_PRECONDITION"),
    codes.of_status(OUT_OF_MEMORY): Status(413, "RESOURCE_EXHAUSTED"),
    codes.Process.INTERNAL: Status(500, "INTERNAL"),
}
#: Statuses of families of codes.
_OF_FAMILIES = {codes.Input: Status(400, "INVALID_ARGUMENT"), codes.Run: Status(422, "FAILED_PRECONDITION")}


def status_of(error: RelayError) -> Status:
    """The status of an error."""
    code = error.diagnostics[0].code
    found = _OF_CODES.get(code) if code is not None else None
    return found or _OF_FAMILIES.get(type(code), Status(500, "INTERNAL"))


def text_of(error: RelayError) -> str:
    """The message and the help of an error, in one line.  Source lines of the model stay on the server."""
    first = error.diagnostics[0]
    return shortened(first.message) + (f" ({shortened(first.help)})" if first.help else "")


def refusal(error: BaseException) -> RelayError:
    """The error to answer with.  An unexpected exception is logged, and its text stays on the server."""
    if isinstance(error, RelayError):
        return error
    log.error("a request failed", exc_info=error)
    return RequestError("an internal error; the server's log has the reason", code=codes.Process.INTERNAL)
