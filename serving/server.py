"""A server process: both transports on their ports, until a signal; accepted requests are finished."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable

import uvicorn

from ..vm.diagnostics.source import FileError
from .binding import Binding
from .receiver import ReceivingProtocol
from .repository import Repository
from .rest import application

Announce = Callable[[dict[str, str]], None]

#: Connections that wait to be accepted.
_BACKLOG = 2048
#: Bytes of a connection that the kernel keeps: clients write their bodies while the loop does other work.
_RECEIVED = 4 << 20


def run(repository: Repository, binding: Binding, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT.  ``announce`` is called with the addresses by transport once they take requests.

    Raises FileError for an address that cannot be bound, and for unreadable TLS files."""
    # uvicorn sends the signals that it has handled to the process again: they have done their work
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        asyncio.run(_serve(repository, binding, announce))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _serve(repository: Repository, binding: Binding, announce: Announce) -> None:
    seconds = repository.limits.timeout_ms / 1000
    config = uvicorn.Config(
        application(repository, owns=False), host=binding.host, port=binding.port, http=ReceivingProtocol, log_level="warning",
        access_log=False, server_header=False, timeout_graceful_shutdown=int(seconds) + 1,
        ssl_certfile=binding.certificate, ssl_keyfile=binding.key,
    )  # fmt: skip
    listening = _bound(binding)
    rpc, addresses = None, {}
    try:
        config.load()
        if binding.grpc_port is not None:
            from .grpc_server import started

            rpc, port = await started(repository, binding)
            addresses["grpc"] = f"{binding.host}:{port}"
        scheme = "http" if binding.certificate is None else "https"
        addresses["rest"] = f"{scheme}://{binding.host}:{listening.getsockname()[1]}"
        announce(addresses)
        await uvicorn.Server(config).serve(sockets=[listening])
    except OSError as error:
        raise FileError(f"cannot read the certificate or the key: {error.strerror or error}") from error
    finally:
        listening.close()
        if rpc is not None:
            await rpc.stop(seconds)
        await asyncio.to_thread(repository.close)


def _bound(binding: Binding) -> socket.socket:
    family = socket.AF_INET6 if ":" in binding.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY by the protocol
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED)  # accepted connections inherit it
    try:
        found.bind((binding.host, binding.port))
        found.listen(_BACKLOG)  # before the address is printed
    except OSError as error:
        found.close()
        raise FileError(f"cannot bind {binding.host}:{binding.port}: {error.strerror or error}", help="another --port") from error
    return found
