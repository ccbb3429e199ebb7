"""Interoperation with other libraries: tensors lent to their streams, and arrays borrowed from them.

A block of the machine's pool is reused in the order of the machine's own stream.  Another library reads and writes it on a stream
of its own, so the end of its use is marked on that stream by an event.  The event is stored with the storage until the block is
free; then the machine's stream waits for the event (``gpu.wait_for_users``).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ....ops.native.memory import alloc
from ....ops.native.memory import tensor as record_at
from ....ops.native.objects import storage_at
from ...state.gpu_layout import user_at
from .driver_api.device import CudaError, Device
from .driver_api.provider import DEFAULT_STREAM

if TYPE_CHECKING:
    from ...values.tensor import Tensor

#: The per-thread default stream.  It and the legacy default stream wait for each other, so the latter represents it.
_PER_THREAD_STREAM = 2
#: DLPack: the consumer wants no synchronization, and its stream is unknown.
_NO_STREAM = -1
_DISABLE_TIMING = 2
_USER_BYTES = 16


class Export:
    """A tensor kept alive while a consumer uses it on ``stream``; dropped when the consumer's object is."""

    __slots__ = ("_interop", "_stream", "_tensor")

    def __init__(self, interop: StreamInterop, tensor: Tensor, stream: int) -> None:
        self._interop, self._tensor, self._stream = interop, tensor, stream

    def __del__(self) -> None:
        # runs in any thread, also during captures
        with contextlib.suppress(CudaError):
            self._interop.reclaim(self._tensor, self._stream)


class StreamInterop:
    """Foreign streams that use one machine's memory, and streams of owners of borrowed arrays."""

    def __init__(self, device: Device, record: Any) -> None:
        self._device, self._driver, self._record = device, device.driver, record
        #: Tensors taken back on a stream under capture: an event there would become a part of the capture.
        self._unrecorded: list[tuple[Tensor, int]] = []

    def export(self, tensor: Tensor, stream: int | None) -> Export:
        """Make ``stream`` wait for all launches so far; an object that the consumer keeps while it uses ``tensor`` on the stream.

        Raises BufferError for a stream under capture, or an invalid stream.
        """
        stream = stream_handle(stream)
        try:
            if stream != _NO_STREAM:
                with self._device.as_current():
                    if self.is_capturing(stream):
                        raise BufferError(
                            "the consumer's stream is captured in a graph: take the tensor before the capture begins"
                        )
                    self._wait_for_launches(stream)
        except CudaError as error:
            raise BufferError(f"the consumer's stream cannot be used: {error}") from None
        return Export(self, tensor, stream)

    def make_wait(self, stream: int) -> None:
        """Make an owner's stream wait for all launches so far; the host waits if the stream is under capture or destroyed.

        Raises CudaError, after which the GPU is unusable.
        """
        with self._device.as_current():
            with contextlib.suppress(CudaError):
                if not self.is_capturing(stream):
                    return self._wait_for_launches(stream)
            self._driver.call("cuStreamSynchronize", int(self._record["compute"]))

    def is_capturing(self, stream: int) -> bool:
        """Whether a stream is under capture, or its use would invalidate another capture.  The GPU's context is current."""
        try:
            return bool(self._driver.get("cuStreamIsCapturing", stream, out=1) & 0xFFFFFFFF)
        except CudaError as error:
            if error.number == _CAPTURE_IMPLICIT:
                return True
            raise

    def _wait_for_launches(self, stream: int) -> None:
        event = self._driver.get("cuEventCreate", _DISABLE_TIMING)
        try:
            self._driver.call("cuEventRecord", event, int(self._record["compute"]))
            self._driver.call("cuStreamWaitEvent", stream, event, 0)
        finally:
            self._driver.call("cuEventDestroy", event)

    def reclaim(self, tensor: Tensor, stream: int) -> None:
        """Take back ``tensor`` after a consumer's launches on ``stream``: its memory is reused after them.

        Raises CudaError if the stream's state is unknown.
        """
        if stream != _NO_STREAM:
            self._unrecorded.append((tensor, stream))
        self.record_uses()

    def record_uses(self) -> None:
        """Record the end of use on each stream that is no longer under capture.  Raises CudaError."""
        if int(self._record["error"]):
            self._unrecorded.clear()  # no launches follow
        if not self._unrecorded:
            return
        with self._device.as_current():
            for _ in range(len(self._unrecorded)):
                try:
                    tensor, stream = self._unrecorded.pop(0)
                except IndexError:  # another thread took it
                    return
                if not self._record_use(tensor, stream):
                    self._unrecorded.append((tensor, stream))

    def _record_use(self, tensor: Tensor, stream: int) -> bool:
        """Record the end of use; False while the stream is under capture.  For a destroyed stream the host synchronizes."""
        event = user = 0
        try:
            if self.is_capturing(stream):
                return False
            event = self._driver.get("cuEventCreate", _DISABLE_TIMING)
            self._driver.call("cuEventRecord", event, stream)
            user = alloc(_USER_BYTES)
        except CudaError:
            pass
        if not user:
            if event:
                self._driver.call("cuEventDestroy", event)
            self._driver.call("cuCtxSynchronize")
            return True
        storage = storage_at(record_at(tensor._address).storage)
        row = user_at(user)
        row.event, row.next = event, storage.users
        storage.users = user
        return True


#: The driver's error number for a use of the default stream while an ordinary stream is captured.
_CAPTURE_IMPLICIT = 906


def stream_handle(stream: int | None) -> int:
    """The handle of a stream that a consumer names, valid in every thread."""
    return DEFAULT_STREAM if stream in (None, 0, DEFAULT_STREAM, _PER_THREAD_STREAM) else int(stream)
