"""Memory that crosses to other libraries and back: what the machine lends to their streams, and what it borrows from them.

A block of the machine's pool is used again in the order of the machine's own stream.  Another library reads and writes it on a
stream of its own, so the end of its use is marked there by an event, which hangs at the storage until the block is free: then the
machine's stream waits for it (``card.await_users``).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ...ops.native.memory import alloc, store_i64
from ...ops.native.memory import tensor as record_at
from ..heap import USERS
from .device import CudaError, Device
from .provider import DEFAULT_STREAM

if TYPE_CHECKING:
    from ..tensor import Tensor

#: The default stream of a thread.  It and the process's wait for each other, which therefore stands for that of any thread.
_THREADS_STREAM = 2
#: DLPack: the consumer wants no stream to wait, and says nothing of its own.
_NO_STREAM = -1
_WITHOUT_TIMES = 2
_USER_BYTES = 16


class Lent:
    """Keeps a tensor that a consumer uses on ``stream``; dropped with what the consumer holds, when that is no longer used."""

    __slots__ = ("_lending", "_stream", "_tensor")

    def __init__(self, lending: Lending, tensor: Tensor, stream: int) -> None:
        self._lending, self._tensor, self._stream = lending, tensor, stream

    def __del__(self) -> None:
        # in any thread, and while streams are captured
        with contextlib.suppress(CudaError):
            self._lending.take_back(self._tensor, self._stream)


class Lending:
    """The streams of others that work on one machine's memory, and those on whose memory the machine works."""

    def __init__(self, device: Device, record: Any) -> None:
        self._device, self._driver, self._record = device, device.driver, record
        #: Tensors given back on a stream that is captured: an event there would become a part of the capture.
        self._late: list[tuple[Tensor, int]] = []

    def lend(self, tensor: Tensor, stream: int | None) -> Lent:
        """The object that a consumer keeps while it uses ``tensor`` on ``stream``; that stream waits for what is launched so far.

        Raises BufferError for a stream that is captured, or is no stream.
        """
        stream = named(stream)
        try:
            if stream != _NO_STREAM:
                with self._device.entered():
                    if self.is_captured(stream):
                        raise BufferError(
                            "the consumer's stream is captured in a graph: take the tensor before the capture begins"
                        )
                    self._follow(stream)
        except CudaError as error:
            raise BufferError(f"the consumer's stream cannot be used: {error}") from None
        return Lent(self, tensor, stream)

    def lead(self, stream: int) -> None:
        """Make an owner's stream wait for what is launched so far; the host waits where the stream is captured or gone.

        Raises CudaError, after which the card is of no use.
        """
        with self._device.entered():
            with contextlib.suppress(CudaError):
                if not self.is_captured(stream):
                    return self._follow(stream)
            self._driver.call("cuStreamSynchronize", int(self._record["compute"]))

    def is_captured(self, stream: int) -> bool:
        """Is a stream captured, or would work on it spoil the capture of another one?  The card's context is this thread's."""
        try:
            return bool(self._driver.get("cuStreamIsCapturing", stream, out=1) & 0xFFFFFFFF)
        except CudaError as error:
            if error.number == _CAPTURE_IMPLICIT:
                return True
            raise

    def _follow(self, stream: int) -> None:
        event = self._driver.get("cuEventCreate", _WITHOUT_TIMES)
        try:
            self._driver.call("cuEventRecord", event, int(self._record["compute"]))
            self._driver.call("cuStreamWaitEvent", stream, event, 0)
        finally:
            self._driver.call("cuEventDestroy", event)

    def take_back(self, tensor: Tensor, stream: int) -> None:
        """A consumer has launched on ``stream`` all that uses ``tensor``: its memory is used again behind that.

        Raises CudaError where nothing can be said of the stream any more.
        """
        if stream != _NO_STREAM:
            self._late.append((tensor, stream))
        self.settle()

    def settle(self) -> None:
        """Mark the end of use on each stream that is not captured (any more).  Raises CudaError."""
        if int(self._record["error"]):
            self._late.clear()  # nothing is launched any more
        if not self._late:
            return
        with self._device.entered():
            for _ in range(len(self._late)):
                try:
                    tensor, stream = self._late.pop(0)
                except IndexError:  # another thread took it
                    return
                if not self._marked(tensor, stream):
                    self._late.append((tensor, stream))

    def _marked(self, tensor: Tensor, stream: int) -> bool:
        """False while the stream is captured.  Of a stream that is gone the host waits for the work."""
        event = user = 0
        try:
            if self.is_captured(stream):
                return False
            event = self._driver.get("cuEventCreate", _WITHOUT_TIMES)
            self._driver.call("cuEventRecord", event, stream)
            user = alloc(_USER_BYTES)
        except CudaError:
            pass
        if not user:
            if event:
                self._driver.call("cuEventDestroy", event)
            self._driver.call("cuCtxSynchronize")
            return True
        storage = record_at(record_at(tensor._address).storage)
        store_i64(user, event)
        store_i64(user + 8, storage.shape[USERS])
        storage.shape[USERS] = user
        return True


#: The driver's error number for a use of the default stream while an ordinary stream is captured.
_CAPTURE_IMPLICIT = 906


def named(stream: int | None) -> int:
    """A stream as consumers say it, by a handle that means the same in every thread."""
    return DEFAULT_STREAM if stream in (None, 0, DEFAULT_STREAM, _THREADS_STREAM) else int(stream)
