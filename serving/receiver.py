"""Bodies that the kernel writes into the memory of their tensors: uvicorn's HTTP protocol, without its copies of long bodies.

uvicorn collects a body as bytes objects and gives these to the application, which joins them: four copies.  Here the head of
a request goes through uvicorn's parser, and the transport receives the body of an inference into the memory of its exchange.
A request of another form (chunks, ``Expect``, a second request in the pipeline, another endpoint) takes uvicorn's way.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .exchange import Exchange

#: Finds the exchange of a POST request, from the protocol, the address, the headers and the length of the body.
Begin = Callable[["ReceivingProtocol", bytes, Sequence[tuple[bytes, bytes]], int], Exchange | None]

#: Bytes that are received at a time outside of long bodies.
_PIECE = 1 << 16
_LARGEST = 1 << 62


class _Memory(threading.local):
    """Memory for the bytes outside of long bodies.

    One transport of a thread receives at a time, and its bytes are taken before the next receives: all connections of a thread
    share the memory.  Threads do not, for a transport receives without the interpreter's lock.
    """

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_PIECE))


class ReceivingProtocol(HttpToolsProtocol, asyncio.BufferedProtocol):
    """uvicorn's protocol, which receives into its own memory, or into that of the exchange that answers the request.

    ``begin``: finds the requests that are answered by an exchange, without the application.
    """

    cycle: Any  # an exchange, or a cycle of uvicorn's
    begin: Begin | None = None
    _exchange: Exchange | None = None  # of the newest request that has one
    _memory = _Memory()

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
            exchange.went_on()
            return
        self.data_received(bytes(self._memory.view[:nbytes]))
        if self._exchange is not None and self._exchange is not exchange:
            self._exchange.went_on()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._exchange is not None:
            self._exchange.leave()
        super().connection_lost(exc)

    # ---- the parser --------------------------------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        exchange = self._begun()
        if exchange is None:
            super().on_headers_complete()
            return
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
            self._exchange.take(body)

    def on_message_complete(self) -> None:
        if self.cycle is not self._exchange:  # else the exchange counts the bytes of its body
            super().on_message_complete()
