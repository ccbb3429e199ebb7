"""uvicorn's HTTP protocol within limits: of the bytes of a head, and of the times in which a connection does nothing.

uvicorn's parser collects a head for ever, and uvicorn watches a connection between two requests only.  So a client could hold
memory, or one of the process's file descriptors, without ever asking, or without ever reading its answer.
"""

from __future__ import annotations

import array
import asyncio
import sys
from collections.abc import Callable, Collection
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..vm.diagnostics import codes
from .alarm import Alarm
from .answers import answer_bytes
from .protocol import json_form
from .protocol.limits import Limits
from .protocol.refusals import RequestError

if sys.platform == "linux":
    import fcntl
    import termios

#: Bytes of a header besides its name and its value: the colon, a space and the end of the line.
_BETWEEN = 4
#: Seconds in which a refused client may end its request and read its answer.
_LINGER = 1.0


def unread_bytes(transport: asyncio.Transport) -> int:
    """The bytes of a connection that wait to be sent, and, on Linux, those in the kernel that the client has not received.

    The kernel takes megabytes at a time: without its bytes a slow client would seem to read nothing.  0: all is in the kernel.
    """
    waiting, end = transport.get_write_buffer_size(), transport.get_extra_info("socket").fileno()
    if not waiting or end < 0 or sys.platform != "linux":
        return waiting
    inside = array.array("i", [0])
    fcntl.ioctl(end, termios.TIOCOUTQ, inside)
    return waiting + inside[0]


class _Flow(FlowControl):
    """The flow of a connection, which is not read while requests wait in the pipeline: uvicorn would take any number of them.

    Bodies are read none the less: the body that an application reads is that of the last request, which does not wait.
    """

    def __init__(self, transport: asyncio.Transport, pipeline: Collection[object]) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        if not self._pipeline:
            super().resume_reading()


class WatchedProtocol(HttpToolsProtocol):
    """A connection whose heads, rests and unread answers are bounded by ``limits``.

    ``ended``: called at the end of the connection.
    """

    cycle: Any
    limits: Limits = Limits()
    ended: Callable[[], None] | None = None
    _is_in_message = _is_in_head = False  # between the first byte and the last byte of a request, or of its head
    _is_timed = True  # whether the alarm is that of the head
    _is_deaf = False  # whether further bytes are dropped
    _head = 0  # bytes of this head, or of the trailers behind a body
    _unseen = 0  # bytes since the parser has found anything in them
    _unread = 0  # bytes of answers that the client had not read when the alarm was set
    _wrong: RequestError | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self._alarm, self._reading_alarm = Alarm(self.loop), Alarm(self.loop)
        self._alarm.set(self.limits.header_ms / 1000, self._end_head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._alarm.cancel()
        self._reading_alarm.cancel()
        super().connection_lost(exc)
        if self.ended is not None:
            self.ended()

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        self._unseen += len(data)
        super().data_received(data)
        if self._is_deaf:
            return
        if self._unseen + (self._head if self._is_in_head else 0) > self.limits.header_bytes:
            self._refuse(self._too_long())
        elif self._is_in_head and not self._is_timed:
            self._is_timed = True
            self._alarm.set(self.limits.header_ms / 1000, self._end_head)

    # ---- the parser --------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._is_in_message = self._is_in_head = True
        self._head = self._unseen = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value) + _BETWEEN)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.end_head()

    def on_body(self, body: bytes) -> None:
        self._unseen = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.end_message()

    def end_head(self) -> None:
        """The last byte of a head has come."""
        self._is_in_head = self._is_timed = False
        self._head = self._unseen = 0
        self._alarm.clear()

    def end_message(self) -> None:
        """The last byte of a request has come."""
        self._is_in_message, self._unseen = False, 0
        if self.cycle.response_complete:  # the rest of a request that was answered before
            self._rest()

    def _count(self, nbytes: int) -> None:
        """Count bytes of the head.  Ends the parser beyond the limit."""
        self._unseen = 0
        self._head += nbytes
        if self._head > self.limits.header_bytes:
            self._wrong = self._too_long()
            raise self._wrong

    def _too_long(self) -> RequestError:
        message = f"the address and the headers are longer than {self.limits.header_bytes} bytes"
        return RequestError(message, help="the option --header-bytes of the server", code=codes.Serve.HEAD)

    # ---- times -------------------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        if self.pipeline:
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._await_reader()
            return
        self.flow.resume_reading()
        if not self._is_in_head:
            self._rest()

    def _rest(self) -> None:
        """Await the next request, or the rest of an answered one."""
        self._alarm.set(self.limits.idle_ms / 1000, self._close)

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
        self._await_reader()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def _await_reader(self) -> None:
        """See to it that the client reads its answers."""
        self._unread = unread_bytes(self.transport)
        if self._unread:
            self._reading_alarm.set(self.limits.idle_ms / 1000, self._look_at_reader)

    def _look_at_reader(self) -> None:
        """Cut a connection off whose client has read nothing for as long as a connection may rest."""
        if unread_bytes(self.transport) >= self._unread:
            self.transport.abort()
        else:
            self._await_reader()

    def _end_head(self) -> None:
        if not self._is_in_message:  # nothing has come
            self._close()
            return
        message = f"the headers were not complete within {self.limits.header_ms} ms"
        self._refuse(RequestError(message, help="the option --header-ms of the server", code=codes.Serve.HEAD_DEADLINE))

    def _unset_keepalive_if_required(self) -> None:
        """Nothing: the alarm does the work of uvicorn's timer."""

    # ---- refusals ----------------------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that the parser does not take."""
        self._refuse(self._wrong or RequestError("the request is no HTTP"))

    def _refuse(self, error: RequestError) -> None:
        """Refuse the request under way, and end the connection.

        If a request before it has no answer yet, its answer is the last.
        """
        self._is_deaf, cycle = True, self.cycle
        if self._is_in_message and not self._is_in_head:
            if cycle.response_started or cycle.response_complete:
                self._close()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        elif cycle is not None and not cycle.response_complete:
            cycle.keep_alive = False
            return
        status, headers, body = json_form.encode_refusal(error)
        self.transport.write(answer_bytes(status, headers, body, self.server_state.default_headers, keep_alive=False))
        if self.transport.can_write_eof():  # a client that still sends would lose the answer with the connection
            self.transport.write_eof()
            self._alarm.set(_LINGER, self._close)
        else:
            self._close()
