"""The packages of the extra ``serve``."""

from __future__ import annotations

from importlib.util import find_spec

from ..vm.diagnostics.source import ConfigError

#: The modules of the extra.
MODULES = ("starlette", "uvicorn", "httptools", "grpc", "google.protobuf", "prometheus_client")


def require_stack() -> None:
    """Raises ConfigError if a package of the extra is not installed."""
    missing = [name for name in MODULES if not _is_installed(name)]
    if missing:
        raise ConfigError(
            f"serving needs packages that are not installed: {', '.join(missing)}", help="pip install 'relayvm[serve]'"
        )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the package that holds the module
        return False
