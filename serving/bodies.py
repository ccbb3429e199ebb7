"""The memory of a request's body: counted, within the limits, before it is taken."""

from __future__ import annotations

from ..vm.diagnostics import codes
from .protocol.refusals import RequestError
from .repository import Repository

#: Binary tensors begin at a multiple of so many bytes of memory where their sizes allow: kernels read them in place.
_ALIGNMENT = 64


class BodyMemory:
    """The bytes of one request, counted until ``release``."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.counted = 0

    def count(self, nbytes: int) -> None:
        """Count further bytes.  Raises RequestError beyond the limit of a body, and of all requests together."""
        most = self._repository.limits.body_bytes
        if self.counted + nbytes > most:
            message = f"the body is longer than {most} bytes"
            raise RequestError(message, help="the option --body-bytes of the server", code=codes.Serve.LIMIT)
        self._repository.pending.take(nbytes)
        self.counted += nbytes

    def memory_for(self, nbytes: int, json_length: int) -> memoryview:
        """Memory for the body, aligned behind ``json_length`` bytes of JSON."""
        memory = self._repository.buffers.take(nbytes + 2 * _ALIGNMENT)
        start = -(memory.__array_interface__["data"][0] + json_length) % _ALIGNMENT
        return memory.data[start : start + nbytes]

    def release(self) -> None:
        """Uncount the bytes of the body."""
        self._repository.pending.give(self.counted)
        self.counted = 0
