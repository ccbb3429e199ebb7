"""A server: both transports on their ports, until a signal; accepted requests are finished.  In one process, or in several."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import socket
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import uvicorn

from ..vm.diagnostics.source import FileError
from ..vm.thread_count import get_num_threads, set_num_threads
from .binding import Binding
from .connection_counts import ConnectionCounts, Share
from .endings import SIGNALS, Ending, ended_by
from .exchange import exchange_for
from .receiver import ReceivingProtocol
from .repository import Repository
from .rest import application
from .sockets import addresses, listening, reserved
from .supervisor import Supervisor

Announce = Callable[[dict[str, str]], None]

#: Seconds for which no connection is accepted after the process has run out of file descriptors.
_PAUSE = 0.5
#: Seconds for which a process leaves a connection to processes that have fewer.
_COURTESY = 0.05


def run(repository: Repository, binding: Binding, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT.  ``announce`` is called with the addresses by transport once they take requests.

    Raises FileError for an address that cannot be bound, and for unreadable TLS files."""
    with ended_by(SIGNALS) as ending:
        rest = listening(binding)
        asyncio.run(_serve(repository, binding, rest, ending, lambda port: announce(addresses(binding, rest, port))))


def run_processes(processes: int, load: Callable[[], Repository], binding: Binding, announce: Announce, timeout_ms: int) -> None:
    """Serve in several processes, which load the models by ``load``, until SIGTERM or SIGINT.

    This process must have run no model: its processes are forks.  Raises the errors of ``load`` and of ``run``.
    """
    from . import metrics

    rest = listening(binding)
    binding, rpc = reserved(binding)
    threads, connection_counts = max(1, get_num_threads() // processes), ConnectionCounts(processes)
    with tempfile.TemporaryDirectory(prefix="relayvm-serve-") as name, rest:
        folder = Path(name)

        def work(ready: Callable[[], None], life: int, place: int) -> None:
            metrics.share(folder)
            set_num_threads(threads)
            repository = load()
            with ended_by((signal.SIGTERM,)) as ending:  # the parent decides about SIGINT
                asyncio.run(_serve(repository, binding, rest, ending, lambda _: ready(), life, connection_counts.share(place)))

        def ended(pid: int, place: int) -> None:
            metrics.forget(folder, pid)
            connection_counts.leave(place)

        Supervisor(
            processes, work, lambda: announce(addresses(binding, rest, binding.grpc_port)), ended, 2 * timeout_ms / 1000 + 10
        ).run()
    if rpc is not None:
        rpc.close()


async def _serve(
    repository: Repository,
    binding: Binding,
    rest: socket.socket,
    ending: Ending,
    ready: Callable[[int | None], None],
    life: int | None = None,
    share: Share | None = None,
) -> None:
    """Serve until the ending is asked for or, in one of several processes, the pipe ``life`` ends.  ``ready`` gets gRPC's port.

    ``share``: the connections of this process among those of all.
    """
    seconds = repository.limits.timeout_ms / 1000
    config = uvicorn.Config(
        application(repository, owns=False), http=ReceivingProtocol, log_level="warning", access_log=False, proxy_headers=False,
        ws="none", server_header=False, timeout_graceful_shutdown=int(seconds) + 1,
        ssl_certfile=binding.certificate, ssl_keyfile=binding.key,
    )  # fmt: skip
    rpc, port = None, None
    try:
        config.load()
        if binding.grpc_port is not None:
            from .grpc_server import started

            rpc, port = await started(repository, binding, is_shared=life is not None)
        server = _Server(config, rest, repository, ending, share)
        if life is not None:
            asyncio.get_running_loop().add_reader(life, server.end, life)
        ready(port)
        await server.serve()
    except OSError as error:
        raise FileError(f"cannot read the certificate or the key: {error.strerror or error}") from error
    finally:
        rest.close()
        if rpc is not None:
            await rpc.stop(seconds)
        await asyncio.to_thread(repository.close)


class _Server(uvicorn.Server):
    """uvicorn's server, which accepts one connection at a time: processes that share the socket get equal numbers of them."""

    def __init__(
        self, config: uvicorn.Config, listening: socket.socket, repository: Repository, ending: Ending, share: Share | None
    ) -> None:
        super().__init__(config)
        self._repository, self._ending, self._share, self._count = repository, ending, share, 0
        ending.hurry = self._hurry
        self._listening, self._opening = listening, set[asyncio.Task[Any]]()

    def end(self, life: int) -> None:
        """End gracefully: the parent has closed the life pipe."""
        asyncio.get_running_loop().remove_reader(life)
        self._ending.ask()

    def _hurry(self) -> None:
        self.force_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """No handlers: the handlers of the ending were there before the addresses were known."""
        yield

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._ending.is_asked

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        self._add(0)
        self._listen()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().remove_reader(self._listening)
        self._listening.close()
        if self._share is not None:
            self._share.end()
            self._share = None
        if self._opening:
            await asyncio.wait(self._opening)
        await super().shutdown([])

    def _listen(self) -> None:
        if self._listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _add(self, connections: int) -> None:
        """Count connections, for the other processes, too."""
        self._count += connections
        if self._share is not None:
            self._share.set(self._count)

    def _accept(self) -> None:
        if self._share is None or self._share.is_next():
            self._take()
        else:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._listening)
            loop.call_later(_COURTESY, self._take_left)

    def _take_left(self) -> None:
        """Take a connection that the other processes have left."""
        if self._listening.fileno() >= 0:
            self._listen()
            self._take()

    def _take(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another process was faster, or the client has gone
        except OSError:  # no file descriptors
            loop.remove_reader(self._listening)
            loop.call_later(_PAUSE, self._listen)
            return
        connection.setblocking(False)
        self._add(1)
        seconds = None if self.config.ssl is None else self._repository.limits.header_ms / 1000
        opened = loop.create_task(
            loop.connect_accepted_socket(self._protocol, connection, ssl=self.config.ssl, ssl_handshake_timeout=seconds)
        )
        self._opening.add(opened)
        opened.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[Any]) -> None:
        self._opening.discard(task)
        if task.cancelled() or task.exception() is not None:  # a failed handshake of TLS is the client's
            self._add(-1)

    def _protocol(self) -> ReceivingProtocol:
        protocol = ReceivingProtocol(self.config, self.server_state, self.lifespan.state)
        protocol.begin, protocol.ended = functools.partial(exchange_for, self._repository), functools.partial(self._add, -1)
        protocol.limits = self._repository.limits
        return protocol
