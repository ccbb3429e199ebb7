"""The package ray, which may be absent."""

from __future__ import annotations

from typing import Any

from ..vm.diagnostics.source import ConfigError


def ray() -> Any:
    """The package ray.  Raises ConfigError if it is not installed."""
    try:
        import ray as found
    except ModuleNotFoundError as error:
        raise ConfigError(
            "relayvm.ray needs the package ray, which is not installed", help="pip install 'relayvm[ray]'"
        ) from error
    return found
