"""The gRPC transport: the protocol's service on an asynchronous server."""

from __future__ import annotations

import asyncio
import functools
import time
from typing import Any

import grpc

from ..vm.diagnostics.source import FileError
from .binding import Binding
from .protocol import grpc_form
from .protocol.endpoints import ENDPOINTS
from .protocol.messages import SERVICE, message, parsed
from .protocol.refusals import refusal, status_of, text_of
from .repository import Repository
from .service import Observed, answered, server_metadata

#: Bytes of a message besides the body of a request of the same tensors.
_SLACK = 1 << 16


async def started(repository: Repository, binding: Binding, is_shared: bool) -> tuple[Any, int]:
    """A server that runs, and its port.  ``is_shared``: whether other processes of this server have the same port.

    Raises FileError for an address that cannot be bound, and for unreadable TLS files.
    """
    limits = repository.limits
    options = [
        ("grpc.max_receive_message_length", limits.body_bytes + _SLACK), ("grpc.max_send_message_length", -1),
        ("grpc.absolute_max_metadata_size", limits.header_bytes), ("grpc.max_metadata_size", limits.header_bytes),
        ("grpc.server_handshake_timeout_ms", limits.header_ms), ("grpc.max_connection_idle_ms", limits.idle_ms),
        ("grpc.so_reuseport", int(is_shared)),
    ]  # fmt: skip
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, _methods(repository)),))
    address = f"{f'[{binding.host}]' if ':' in binding.host else binding.host}:{binding.grpc_port}"
    try:
        if binding.certificate is None:
            port = server.add_insecure_port(address)
        else:
            chain = binding.certificate.read_bytes()
            key = (binding.key or binding.certificate).read_bytes()
            port = server.add_secure_port(address, grpc.ssl_server_credentials([(key, chain)]))
    except (OSError, RuntimeError) as error:
        raise FileError(f"cannot bind {address} for gRPC", help="another --grpc-port") from error
    await server.start()
    return server, port


def _methods(repository: Repository) -> dict[str, Any]:
    handlers = _Handlers(repository)
    return {
        e.rpc: grpc.unary_unary_rpc_method_handler(
            functools.partial(_guarded, getattr(handlers, e.handler), f"{e.rpc}Request"),
            response_serializer=message(f"{e.rpc}Response").SerializeToString,
        )
        for e in ENDPOINTS
        if e.rpc
    }


async def _guarded(handler: Any, kind: str, data: bytes, context: Any) -> Any:
    try:
        return await handler(parsed(kind, data), context)
    except Exception as error:  # every failure is an answer of the protocol
        found = refusal(error)
    await context.abort(getattr(grpc.StatusCode, status_of(found).grpc), text_of(found))


class _Handlers:
    """The handlers of the endpoints, by the names in ``ENDPOINTS``."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    async def live(self, request: Any, context: Any) -> Any:
        return message("ServerLiveResponse")(live=True)

    async def ready(self, request: Any, context: Any) -> Any:
        return message("ServerReadyResponse")(ready=not self._repository.stopping)

    async def model_ready(self, request: Any, context: Any) -> Any:
        self._repository.pool(request.name, request.version)
        return message("ModelReadyResponse")(ready=True)

    async def server(self, request: Any, context: Any) -> Any:
        return message("ServerMetadataResponse")(**server_metadata())

    async def model(self, request: Any, context: Any) -> Any:
        model = self._repository.pool(request.name, request.version).model
        return grpc_form.metadata(model.metadata(self._repository.versions(model.name)))

    async def infer(self, request: Any, context: Any) -> Any:
        observed, nbytes, began = Observed(self._repository, "grpc"), request.ByteSize(), time.monotonic()
        self._repository.pending.take(nbytes)
        try:
            model = observed.model = self._repository.pool(request.model_name, request.model_version).model
            decoded = grpc_form.decode(model, request, self._repository.limits)
            left = context.time_remaining()
            if left is not None:
                began = min(began, began + left - (decoded.timeout_ms or self._repository.limits.timeout_ms) / 1000)
            encode = functools.partial(grpc_form.encode, model, decoded.id, decoded.wanted)
            answer = await answered(self._repository, model, decoded, encode, began)
        except asyncio.CancelledError as error:  # the client has gone
            observed.end(error)
            raise
        except Exception as error:
            observed.end(error)
            raise
        finally:
            self._repository.pending.give(nbytes)
        observed.end(None)
        return answer
