"""The addresses of a server."""

from __future__ import annotations

from pathlib import Path

from ..declarations.frozen_dataclass import frozen

#: The address of a server that other computers do not reach.
LOOPBACK = "127.0.0.1"


@frozen(kw_only=True)
class Binding:
    """The addresses of a server.  Port 0: any free port; ``grpc_port`` None: no gRPC.  ``certificate`` and ``key``: PEM files."""

    host: str = LOOPBACK
    port: int = 8000
    grpc_port: int | None = 8001
    certificate: Path | None = None
    key: Path | None = None
