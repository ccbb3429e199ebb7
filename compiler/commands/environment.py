"""Environment of this process: versions, folders, devices; for bug reports."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
from typing import Any

from ...ops.native.blas import library_calls
from ...ops.native.cache import disk_cache
from ...ops.native.front_end.llvm import host
from ...ops.native.jit.native_compiler import OPTIMIZE_VARIABLE
from ...ops.native.tuning.fingerprint import library_fields
from ...vm.device_table import DEVICES
from ...vm.diagnostics.source import ConfigError
from ...vm.options import CHECK_VARIABLE, OPENMP_VARIABLE, THREADS_VARIABLE
from ...vm.thread_count import number_and_source

_PACKAGES = ("relayvm", "numpy", "numba", host.PACKAGE, "scipy", "lark", "click", "rich")
#: Environment variables that change relayvm's behaviour.
VARIABLES = (
    disk_cache.FOLDER_VARIABLE, disk_cache.CAP_VARIABLE, THREADS_VARIABLE, OPENMP_VARIABLE, CHECK_VARIABLE, OPTIMIZE_VARIABLE,
    "RELAYVM_TRACEBACK",
)  # fmt: skip


def environment() -> dict[str, Any]:
    """Versions by package (None: not installed), the machine, the cache of kernels, devices, environment variables."""
    return {
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": _threads(),
        "devices": list(DEVICES),
        "blas": _blas(),
        "cuda": _cuda(),
        "cache": _cache(),
        "variables": {name: os.environ.get(name) for name in VARIABLES},
    }


def _threads() -> dict[str, Any]:
    """The number of threads of kernels, and its source; ``why``: the reason against a number."""
    try:
        number, source = number_and_source()
    except ConfigError as error:
        return {"number": None, "source": THREADS_VARIABLE, "why": error.diagnostics[0].message}
    return {"number": number, "source": source}


def _threads_text(threads: dict[str, Any]) -> str:
    return threads.get("why") or f"{threads['number']}, by {threads['source']}"


def _blas() -> dict[str, Any]:
    """Package and version of the BLAS in use (None: there is none); ``why``: the reasons against the BLAS libraries before it."""
    try:
        why = [*library_calls.blas().passed_over]
    except ImportError as error:
        return {"package": None, "why": [str(error)]}
    return {"package": library_fields(library_calls.TABLE)["blas"], "why": why}


def _cache() -> dict[str, Any]:
    try:
        sizes = [file.size for file in disk_cache.entry_files()]
        return {"folder": str(disk_cache.folder()), "entries": len(sizes), "bytes": sum(sizes)}
    except disk_cache.NoFolder as error:
        return {"folder": None, "why": str(error), "entries": 0, "bytes": 0}


def _cuda() -> dict[str, Any]:
    """GPUs, driver version, compiler of CUDA C and version of cuDNN; ``why``: one line for each that is missing."""
    from ...ops.codegen.cuda.device_code import nvrtc
    from ...vm.devices.cuda.cudnn.library import version
    from ...vm.devices.cuda.driver_api import device
    from ...vm.devices.cuda.driver_api.driver import NoCuda

    found: dict[str, Any] = {"cards": [], "driver": None, "compiler": None, "cudnn": None, "why": []}
    try:
        found["driver"] = device.driver().get("cuDriverGetVersion") & 0xFFFFFFFF
        gpus = [device.device(i) for i in range(device.count())]
        found["cards"] = [{"name": c.name, "architecture": c.architecture, "bytes": c.total_bytes} for c in gpus]
        found["cudnn"] = version(functools.partial(device.library_function, "cudnn"))
    except NoCuda as error:
        found["why"].append(str(error))
    try:
        found["compiler"] = nvrtc.compiler.version.partition(";")[0]
    except nvrtc.NoNvrtc as error:
        found["why"].append(str(error))
    return found


def _cuda_text(cuda: dict[str, Any]) -> str:
    gpus = [f"{n}: {c['name']} ({c['architecture']}, {c['bytes'] >> 20} MiB)" for n, c in enumerate(cuda["cards"])]
    version = f"driver for CUDA {cuda['driver'] // 1000}.{cuda['driver'] % 1000 // 10}" if cuda["driver"] else None
    cudnn = f"cuDNN {cuda['cudnn']}" if cuda["cudnn"] else None
    return "; ".join(filter(None, [*gpus, version, cuda["compiler"], cudnn, *cuda["why"]]))


def environment_text(data: dict[str, Any]) -> str:
    """The environment as text, one fact per line."""
    lines = [f"{name:<10} {version or 'not installed'}" for name, version in data["versions"].items()]
    lines += [
        f"platform   {data['platform']}, {data['machine']}, {data['cores']} cores",
        f"threads    {_threads_text(data['threads'])}",
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
