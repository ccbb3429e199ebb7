"""Layer 4: a server of executables that speaks the Open Inference Protocol, version 2, over REST and gRPC.

    application = relayvm.serving.app(["detector=detection_tail.relay"])   # an ASGI application, for any ASGI server
    relayvm.serving.serve(["detector=detection_tail.relay"])               # both transports, until SIGTERM

Needs the extra ``serve``.  ``docs/serving.md`` describes the endpoints and the limits.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .limits import Limits

if TYPE_CHECKING:
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
    models: Sequence[str | Path], *, limits: Limits | None = None, bind: Mapping[str, Any] | None = None, **options: Any
) -> None:
    """Serve these models over REST and gRPC until SIGTERM or SIGINT; accepted requests are finished.

    ``bind``: the fields of ``binding.Binding``.  The other arguments and the errors are those of ``load``; FileError for an
    address that cannot be bound.
    """
    repository = load(models, limits=limits, **options)
    from .binding import Binding
    from .server import run

    run(repository, Binding(**(bind or {})), lambda addresses: log.info("addresses: %s", addresses))
