"""What relayvm runs on: versions, folders, devices; the first thing to put into a bug report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

from ..ops.native import store
from ..vm.executable import DEVICES

_PACKAGES = ("relayvm", "numpy", "numba", "llvmlite", "scipy", "lark", "click", "rich")
#: Environment variables that change what relayvm does.
VARIABLES = ("RELAYVM_CACHE_DIR", "RELAYVM_CHECK", "RELAYVM_TRACEBACK")


def environment() -> dict[str, Any]:
    """Versions by package (None: not installed), the machine, the cache of kernels, devices, environment variables."""
    folder = store.folder()
    entries = [f.stat().st_size for f in folder.glob("objects/*/*") if f.is_file()]
    return {
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "devices": list(DEVICES),
        "cache": {"folder": str(folder), "entries": len(entries), "bytes": sum(entries)},
        "variables": {name: os.environ.get(name) for name in VARIABLES},
    }


def environment_text(data: dict[str, Any]) -> str:
    """The same for people, a fact a line."""
    cache = data["cache"]
    lines = [f"{name:<10} {version or 'not installed'}" for name, version in data["versions"].items()]
    lines += [
        f"platform   {data['platform']}, {data['machine']}, {data['cores']} cores",
        f"devices    {', '.join(data['devices'])}",
        f"cache      {cache['folder']}: {cache['entries']} entries, {cache['bytes']} bytes (deleting it is always safe)",
    ]
    lines += [f"{name}={'(not set)' if value is None else value}" for name, value in data["variables"].items()]
    return "\n".join(lines)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
