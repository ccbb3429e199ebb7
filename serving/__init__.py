"""Layer 4: a server of executables that speaks the Open Inference Protocol, version 2, over REST and gRPC.

    application = relayvm.serving.app(["detector=detection_tail.relay"])   # an ASGI application, for any ASGI server
    relayvm.serving.serve(["detector=detection_tail.relay"])               # both transports, until SIGTERM

Needs the extra ``serve``.  ``docs/serving.md`` describes the endpoints and the limits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..vm.thread_count import get_num_threads
from .protocol.limits import Limits

if TYPE_CHECKING:
    from .binding import Binding
    from .repository import Repository

log = logging.getLogger(__name__)

__all__ = ["Limits", "app", "load", "serve"]


def load(models: Sequence[str | Path], *, limits: Limits | None = None, **options: Any) -> Repository:
    """The models of a server, compiled, with their worker threads.

    ``models``: ``PATH``, ``NAME=PATH`` or ``NAME:VERSION=PATH`` each.  ``options``: ``device``, ``config``, ``params`` and
    ``batch``, as the options of ``relayvm serve``.

    Raises RelayError for a model that cannot be loaded or served, ConfigError without the packages of the extra ``serve``.
    """
    from .stack import require_stack

    require_stack()
    from .repository import Repository
    from .sources import sources

    return Repository.load(sources(models, **options), limits or Limits())


def app(models: Sequence[str | Path], *, limits: Limits | None = None, **options: Any) -> Any:
    """An ASGI application that serves these models over REST, and closes them at the end of its lifespan.

    Arguments and errors are those of ``load``.
    """
    repository = load(models, limits=limits, **options)
    from .rest import application

    return application(repository, owns=True)


def serve(
    models: Sequence[str | Path],
    *,
    limits: Limits | None = None,
    bind: Mapping[str, Any] | None = None,
    processes: int = 1,
    **options: Any,
) -> None:
    """Serve these models over REST and gRPC until SIGTERM or SIGINT; accepted requests are finished.

    ``bind``: the fields of ``binding.Binding``.  ``processes``: the number of processes, 0 for one per core; several are forks
    of this process, which must not have run a model before.  The other arguments and the errors are those of ``load``; FileError
    for an address that cannot be bound.
    """
    from .binding import Binding

    def announce(addresses: dict[str, str]) -> None:
        log.info("addresses: %s", addresses)

    binding = Binding(**(bind or {}))
    serve_repository(lambda limits: load(models, limits=limits, **options), limits or Limits(), processes, binding, announce)


def serve_repository(
    loaded: Callable[[Limits], Repository],
    limits: Limits,
    processes: int,
    binding: Binding,
    announce: Callable[[dict[str, str]], None],
) -> None:
    """Serve the models that ``loaded`` loads, with its limits, in so many processes; the arguments of ``serve``."""
    from .stack import require_stack

    require_stack()
    limits = limits.checked()
    from .server import run, run_processes

    count = processes or get_num_threads()
    if count == 1:
        run(loaded(limits), binding, announce)
    else:
        each = limits.divided(count)
        run_processes(count, lambda: loaded(each), binding, announce, limits.timeout_ms)
