"""What relayvm runs on: versions, folders, devices; the first thing to put into a bug report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

from ...ops.native import disk, libraries
from ...ops.native.fingerprint import library_fields
from ...vm import threads, trust
from ...vm.executable import DEVICES

_PACKAGES = ("relayvm", "numpy", "numba", "llvmlite", "scipy", "lark", "click", "rich")
#: Environment variables that change what relayvm does.
VARIABLES = (disk.FOLDER_VARIABLE, disk.CAP_VARIABLE, threads.VARIABLE, trust.VARIABLE, "RELAYVM_TRACEBACK")


def environment() -> dict[str, Any]:
    """Versions by package (None: not installed), the machine, the cache of kernels, devices, environment variables."""
    return {
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "devices": list(DEVICES),
        "blas": _blas(),
        "cuda": _cuda(),
        "cache": _cache(),
        "variables": {name: os.environ.get(name) for name in VARIABLES},
    }


def _blas() -> dict[str, Any]:
    """The package, with its version, whose BLAS multiplies matrices (None: there is none); ``why`` those before it do not."""
    try:
        why = [*libraries.blas().passed_over]
    except ImportError as error:
        return {"package": None, "why": [str(error)]}
    return {"package": library_fields(libraries.TABLE)["blas"], "why": why}


def _cache() -> dict[str, Any]:
    try:
        sizes = [file.size for file in disk.stored()]
        return {"folder": str(disk.folder()), "entries": len(sizes), "bytes": sum(sizes)}
    except disk.NoFolder as error:
        return {"folder": None, "why": str(error), "entries": 0, "bytes": 0}


def _cuda() -> dict[str, Any]:
    """The cards, with the driver's version and the compiler of CUDA C; ``why`` there is none, in a line."""
    from ...ops.native import nvrtc
    from ...vm.cuda import device
    from ...vm.cuda.driver import NoCuda

    found: dict[str, Any] = {"cards": [], "driver": None, "compiler": None, "why": []}
    try:
        found["driver"] = device.driver().get("cuDriverGetVersion") & 0xFFFFFFFF
        cards = [device.device(i) for i in range(device.count())]
        found["cards"] = [{"name": c.name, "architecture": c.architecture, "bytes": c.total_bytes} for c in cards]
    except NoCuda as error:
        found["why"].append(str(error))
    try:
        found["compiler"] = nvrtc.compiler.version.partition(";")[0]
    except nvrtc.NoNvrtc as error:
        found["why"].append(str(error))
    return found


def _cuda_text(cuda: dict[str, Any]) -> str:
    cards = [f"{n}: {c['name']} ({c['architecture']}, {c['bytes'] >> 20} MiB)" for n, c in enumerate(cuda["cards"])]
    version = f"driver for CUDA {cuda['driver'] // 1000}.{cuda['driver'] % 1000 // 10}" if cuda["driver"] else None
    return "; ".join(filter(None, [*cards, version, cuda["compiler"], *cuda["why"]]))


def environment_text(data: dict[str, Any]) -> str:
    """The same for people, a fact a line."""
    lines = [f"{name:<10} {version or 'not installed'}" for name, version in data["versions"].items()]
    lines += [
        f"platform   {data['platform']}, {data['machine']}, {data['cores']} cores",
        f"devices    {', '.join(data['devices'])}",
        f"blas       {'; '.join(filter(None, [data['blas']['package'], *data['blas']['why']]))}",
        f"cuda       {_cuda_text(data['cuda'])}",
        f"cache      {_cache_text(data['cache'])}",
    ]
    lines += [f"{name}={'(not set)' if value is None else value}" for name, value in data["variables"].items()]
    return "\n".join(lines)


def _cache_text(cache: dict[str, Any]) -> str:
    if cache["folder"] is None:
        return f"none: {cache['why']}"
    return f"{cache['folder']}: {cache['entries']} entries, {cache['bytes']} bytes (deleting it is always safe)"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
