"""A Ray Serve deployment of the server's REST endpoints.  Each replica has the models in files of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..serving.protocol.limits import Limits
from ..serving.sources import sources
from ..serving.stack import require_stack
from ..vm.bytecode.executable_file import to_bytes
from .installed import ray
from .turns import turn

_NAME = "relayvm"


def application(
    models: Sequence[str | os.PathLike[str]], limits: Limits, options: Mapping[str, Any], deployed: Mapping[str, Any]
) -> Any:
    """The application of ``relayvm.ray.deployment``, whose arguments and errors these are."""
    ray()
    require_stack()
    from ray import serve

    found = [(source, to_bytes(source.load().exe)) for source in sources([Path(model) for model in models], **options)]
    contents = {f"{source.name}:{source.version}": data for source, data in found}
    batch = [f"{source.name}={dim}" for source, _ in found for dim in source.batch]
    checked = limits.checked()

    def build() -> Any:
        return _built(contents, checked, batch)

    return serve.deployment(**{"name": _NAME, **deployed})(serve.ingress(build)()).bind()


def _built(contents: Mapping[str, bytes], limits: Limits, batch: Sequence[str]) -> Any:
    """The ASGI application of a replica.  Its files are gone once they are loaded: their constants stay mapped."""
    from ..serving import app

    with tempfile.TemporaryDirectory() as folder, turn():
        named = []
        for i, (name, data) in enumerate(contents.items()):
            path = Path(folder) / f"{i}.rvm"
            path.write_bytes(data)
            named.append(f"{name}={path}")
        return app(named, limits=limits, batch=list(batch))
