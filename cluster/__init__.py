"""Layer 5: models on a cluster of Ray.

    rows = rows.map_batches(relayvm.ray.predictor("model.relay"), compute=ray.data.ActorPoolStrategy(size=8))   # batch work
    ray.serve.run(relayvm.ray.deployment(["model.relay"]))                                                      # a service

``relayvm.ray`` is this package.  It needs the extra ``ray``, the service ``serve`` too.  ``docs/ray.md`` describes both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..serving.protocol.limits import Limits

__all__ = ["deployment", "predictor"]


def predictor(
    model: Any,
    *,
    device: str | None = None,
    config: Mapping[str, str] | None = None,
    params: str | os.PathLike[str] | None = None,
    batch: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    results: Mapping[str, str] | None = None,
    keep: Sequence[str] | None = None,
    threads: int | None = None,
) -> type:
    """A class whose instances run ``model`` on the rows of a batch: the function of ``ray.data.Dataset.map_batches``.

    ``model``: an Executable, the path of a program, a model or an executable, or a module.  ``device``, ``config`` and
    ``params``: as the options of ``relayvm serve``.  Each row is a run of its own, of any sizes.  Rows are concatenated,
    without padding, along the dims that ``batch`` names: the first size of each input and result; a row's tensor may lack
    this axis.

    ``columns``: the columns of inputs whose columns have other names; ``results``: the columns of results, by the names
    of the model's outputs, or ``result``, ``result.0`` and so on.  ``keep``: the columns that the output has beside the results,
    None for all that are no inputs.  ``threads``: the threads of an actor's kernels, None for as many as Ray gave it CPUs.

    Raises RelayError for a model that cannot be loaded or batched, ConfigError without the package ray, for a column that
    has two values, and for names that the model does not have.  A call raises InputError, with the number of the row.
    """
    from .actors import actor_class
    from .row_runs import Columns

    chosen = Columns(dict(columns or {}), dict(results or {}), None if keep is None else tuple(keep))
    return actor_class(model, device, config, params, tuple(batch), chosen, threads)


def deployment(
    models: Sequence[str | os.PathLike[str]],
    *,
    limits: Limits | None = None,
    options: Mapping[str, Any] | None = None,
    **deployed: Any,
) -> Any:
    """A Ray Serve application of the REST endpoints of ``relayvm serve`` (``docs/serving.md``): an argument of ``serve.run``.

    ``models``, ``limits`` and ``options``: as the arguments of ``relayvm.serving.app``.  The models are compiled here and sent to
    the replicas.  ``deployed``: options of ``ray.serve.deployment``: ``num_replicas``, ``autoscaling_config`` and so on.

    Raises RelayError for a model that cannot be loaded, ConfigError without the packages.
    """
    from .replicas import application

    return application(models, limits or Limits(), dict(options or {}), deployed)
