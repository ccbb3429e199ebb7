"""The sockets of a server's addresses, bound before any model is loaded, and shared by all processes of a server."""

from __future__ import annotations

import socket
from dataclasses import replace

from ..vm.diagnostics.source import FileError
from .binding import Binding

#: Connections that wait to be accepted.
_BACKLOG = 2048
#: Bytes of a connection that the kernel keeps: clients write their bodies while the loop does other work.
_RECEIVED = 4 << 20


def listening(binding: Binding) -> socket.socket:
    """The socket of REST, which listens.  Raises FileError for an address that cannot be bound."""
    found = _socket(binding.host)  # asyncio sets TCP_NODELAY by the protocol
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED)  # accepted connections inherit it
    try:
        found.bind((binding.host, binding.port))
        found.listen(_BACKLOG)  # before the address is printed
    except OSError as error:
        found.close()
        raise _refused(binding.host, binding.port, "--port", error) from error
    found.setblocking(False)
    return found


def reserved(binding: Binding) -> tuple[Binding, socket.socket | None]:
    """The binding with its true port of gRPC, and a socket that keeps the port for the processes of this server.

    gRPC binds sockets itself, so each process binds the port again, by SO_REUSEPORT.  The socket does not listen, thus gets no
    connections.  Raises FileError for a port that another program has.
    """
    if binding.grpc_port is None:
        return binding, None
    port = binding.grpc_port
    try:
        with _socket(binding.host) as alone:  # without SO_REUSEPORT: a port that another server shares is refused
            alone.bind((binding.host, port))
            port = alone.getsockname()[1]
        found = _socket(binding.host)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        found.bind((binding.host, port))
    except OSError as error:
        raise _refused(binding.host, port, "--grpc-port", error) from error
    return replace(binding, grpc_port=port), found


def addresses(binding: Binding, rest: socket.socket, grpc_port: int | None) -> dict[str, str]:
    """The addresses by transport."""
    scheme = "http" if binding.certificate is None else "https"
    found = {} if grpc_port is None else {"grpc": f"{binding.host}:{grpc_port}"}
    return {**found, "rest": f"{scheme}://{binding.host}:{rest.getsockname()[1]}"}


def _socket(host: str) -> socket.socket:
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return found


def _refused(host: str, port: int, option: str, error: OSError) -> FileError:
    return FileError(f"cannot bind {host}:{port}: {error.strerror or error}", help=f"another {option}")
