"""Bodies that the kernel writes into the memory of their tensors: uvicorn's HTTP protocol, without its copies of long bodies.

uvicorn collects a body as bytes objects and gives these to the application, which joins them: four copies.  Here the head of
a request goes through uvicorn's parser, and the transport receives the body of an inference into the memory of its exchange.
A request of another form (chunks, ``Expect``, a second request in the pipeline, another endpoint) takes uvicorn's way.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import httptools

from .exchange import Exchange
from .watched import WatchedProtocol

#: Finds the exchange of a POST request, from the protocol, the address, the headers and the length of the body.
Begin = Callable[["ReceivingProtocol", bytes, Sequence[tuple[bytes, bytes]], int], Exchange | None]

#: Bytes that are received at a time outside of long bodies.
_CHUNK = 1 << 14
#: The kernel wakes the loop once so many bytes of a body have come, or the rest of it; not for a rest that is short.
_MANY, _FEW = 1 << 21, 1 << 16
_LARGEST = 1 << 62


class _Memory(threading.local):
    """Memory for the bytes outside of long bodies.

    One transport of a thread receives at a time, and its bytes are taken before the next receives: all connections of a thread
    share the memory.  Threads do not, for a transport receives without the interpreter's lock.
    """

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_CHUNK))


class ReceivingProtocol(WatchedProtocol, asyncio.BufferedProtocol):
    """uvicorn's protocol, which receives into its own memory, or into that of the exchange that answers the request.

    ``begin``: finds the requests that are answered by an exchange, without the application.
    """

    cycle: Any  # an exchange, or a cycle of uvicorn's
    begin: Begin | None = None
    _exchange: Exchange | None = None  # of the newest request that has one
    _memory = _Memory()
    _least = 1  # bytes for which the kernel wakes the loop

    # ---- the transport -----------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        exchange = self._exchange
        if exchange is not None and exchange.is_receiving:
            return exchange.view[exchange.received :]
        return self._memory.view

    def buffer_updated(self, nbytes: int) -> None:
        exchange = self._exchange
        if exchange is not None and exchange.is_receiving:
            exchange.received += nbytes
            if not exchange.is_receiving:
                self.parser = httptools.HttpRequestParser(self)  # the other one waits for the body
                self.end_message()
            self._wake_at(exchange)
            if not exchange.is_receiving:
                exchange.went_on()
            return
        self.data_received(self._memory.view[:nbytes])  # the parser takes any bytes, and copies parts
        if self._exchange is not None:
            self._wake_at(self._exchange)

    def data_received(self, data: bytes | memoryview) -> None:
        """Take bytes that are in no exchange's memory: all bytes in a loop that passes no protocol of both kinds a buffer."""
        before = self._exchange
        is_rest = before is not None and before.is_receiving
        super().data_received(cast(bytes, data))
        exchange = self._exchange
        if exchange is not None and (is_rest or exchange is not before):
            exchange.went_on()
            if exchange.is_receiving and exchange is not before:
                self._alarm.set(exchange.seconds_to_read, self._look_at_body)

    def _wake_at(self, exchange: Exchange) -> None:
        """Set the bytes for which the kernel wakes the loop: a client's writes are then read by few calls.

        The kernel wakes the loop for fewer bytes at the end of the stream, and where its memory has no room for more.
        """
        left = exchange.left if exchange.is_receiving else 0
        least = min(left, _MANY) if left > _FEW and self.scheme == "http" else 1
        if least != self._least:
            self._least = least
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._exchange is not None:
            self._exchange.leave()
        super().connection_lost(exc)

    def _look_at_body(self) -> None:
        if self._exchange is not None and self._exchange.is_receiving:
            self._exchange.end_unread()

    # ---- the parser --------------------------------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        exchange = self._begun()
        if exchange is None:
            super().on_headers_complete()
            return
        self.end_head()
        self.cycle = self._exchange = exchange
        exchange.keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        exchange.begin()

    def _begun(self) -> Exchange | None:
        """The exchange of the request, None for a request that takes uvicorn's way."""
        is_first = self.cycle is None or self.cycle.response_complete
        if self.begin is None or not is_first or self.flow.write_paused:
            return None
        if self.expect_100_continue or self.parser.should_upgrade() or self.parser.get_method() != b"POST":
            return None
        found = [value for name, value in self.headers if name in (b"content-length", b"transfer-encoding")]
        if len(found) != 1 or not found[0].isdigit() or not int(found[0]):
            return None
        return self.begin(self, self.url, self.headers, min(int(found[0]), _LARGEST))

    def on_body(self, body: bytes) -> None:
        if self._exchange is None or self.cycle is not self._exchange:
            super().on_body(body)
        else:
            self._unseen = 0
            self._exchange.take(body)

    def on_message_complete(self) -> None:
        if self.cycle is self._exchange:  # which counts the bytes of its body
            self.end_message()
        else:
            super().on_message_complete()
