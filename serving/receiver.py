"""Bodies that the kernel writes into the memory of their tensors: uvicorn's HTTP protocol, without its copies of long bodies.

uvicorn collects a body as bytes objects and gives these to the application, which joins them: four copies.  Here the head of
a request goes through uvicorn's parser; the application then gives the memory for the body, and the transport receives into this
memory.  A request of another form (chunks, ``Expect``, a second request in the pipeline) takes uvicorn's way.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: The name of the receiver among the extensions of an ASGI scope.
EXTENSION = "relayvm.body"
#: Bytes that are received at a time outside of long bodies.
_PIECE = 1 << 16
_LARGEST = 1 << 62


class Receiver:
    """The body of one request of a known length, as an application receives it."""

    def __init__(self, protocol: ReceivingProtocol, length: int) -> None:
        self._protocol = protocol
        self.length = length
        self.early: list[bytes] = []
        self.view: memoryview | None = None
        self.received = 0
        self._done: asyncio.Future[None] | None = None

    @property
    def is_complete(self) -> bool:
        return self.received == self.length

    async def into(self, view: memoryview) -> bool:
        """Receive the body into this memory of ``length`` bytes; whether all of it came before the client left."""
        at = 0
        for piece in self.early:
            view[at : at + len(piece)] = piece
            at += len(piece)
        self.early = []
        if not self.is_complete:
            self.view = view
            self._done = asyncio.get_running_loop().create_future()
            self._protocol.resume(self)
            try:
                await self._done
            except asyncio.CancelledError:
                self._protocol.cycle.keep_alive = False  # the rest of the body is not read
                self.end()
                raise
        return self.is_complete

    def advance(self, nbytes: int) -> None:
        """Count bytes that have been written to ``view``."""
        self.received += nbytes
        if self.is_complete:
            self.end()

    def end(self) -> None:
        """Stop the reception: the body is complete, or the client has left."""
        self.view = None
        if self._done is not None and not self._done.done():
            self._done.set_result(None)


class _Memory(threading.local):
    """Memory for the bytes outside of long bodies.

    One transport of a thread receives at a time, and its bytes are taken before the next receives: all connections of a thread
    share the memory.  Threads do not, for a transport receives without the interpreter's lock.
    """

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_PIECE))


class ReceivingProtocol(HttpToolsProtocol, asyncio.BufferedProtocol):
    """uvicorn's protocol, which receives into its own memory, or into that of an application for the body of a request."""

    _receiver: Receiver | None = None
    _is_lost = False
    _memory = _Memory()

    # ---- the transport -----------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        receiver = self._receiver
        if receiver is None or receiver.view is None:
            return self._memory.view
        return receiver.view[receiver.received :]

    def buffer_updated(self, nbytes: int) -> None:
        receiver = self._receiver
        if receiver is None or receiver.view is None:
            self.data_received(bytes(self._memory.view[:nbytes]))
            if self._receiver is not None and not self.cycle.response_complete:
                self.flow.pause_reading()  # until the application gives the memory
            return
        receiver.advance(nbytes)
        if receiver.is_complete:
            self._receiver = None
            self.parser = httptools.HttpRequestParser(self)  # the other one waits for the body
            self.cycle.more_body = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        super().connection_lost(exc)
        if self._receiver is not None:
            self._receiver.end()

    def resume(self, receiver: Receiver) -> None:
        """Go on with the reception of a body."""
        if self._is_lost:
            receiver.end()
        self.flow.resume_reading()

    # ---- the parser --------------------------------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        self._receiver = None
        length = self._length()
        if length is not None:
            self._receiver = Receiver(self, length)
            extensions: dict[str, Any] = {EXTENSION: self._receiver}
            self.scope["extensions"] = extensions
        super().on_headers_complete()

    def _length(self) -> int | None:
        """The length of the body, None for a request that takes uvicorn's way."""
        is_first = self.cycle is None or self.cycle.response_complete
        if not is_first or self.expect_100_continue or self.parser.should_upgrade():
            return None
        found = [value for name, value in self.headers if name in (b"content-length", b"transfer-encoding")]
        if len(found) != 1 or not found[0].isdigit():
            return None
        return min(int(found[0]), _LARGEST) or None

    def on_body(self, body: bytes) -> None:
        if self._receiver is None:
            super().on_body(body)
        elif not self.cycle.response_complete:  # else the request was refused by its head
            self._receiver.early.append(body)
            self._receiver.received += len(body)

    def on_message_complete(self) -> None:
        if self._receiver is None:
            super().on_message_complete()
        else:
            self.cycle.more_body = False
            self._receiver = None
