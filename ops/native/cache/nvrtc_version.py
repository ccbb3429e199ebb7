"""NVRTC's version with its build, for the keys of machine code of GPUs.

The imports of cupy and NVRTC take half a second, longer than the rest of a process that finds all its kernels in the store.  The
store keeps NVRTC's answer under the states of the files that a process here loads: those of NVRTC, and the packages that choose
among them.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from . import disk_cache
from .cache_entry import Entry
from .cache_key import CacheKey

#: The kind of the answer's entry in the store.
NVRTC = "nvrtc"
#: The packages that find and load NVRTC.
_FINDERS = ("cupy", "cupy_backends", "cuda.pathfinder")
#: Variables that change where NVRTC is found.
_VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX")
_MAPPINGS = Path("/proc/self/maps")


def nvrtc_version(ask: Callable[[], str]) -> str:
    """NVRTC's version from the store, else the answer of ``ask``, which loads NVRTC.  Raises the exceptions of ``ask``.

    An answer is stored only if all loaded files of NVRTC are among the files of the key.
    """
    libraries = {os.path.realpath(path) for path in _libraries()}
    key = _key(libraries)
    stored = None if key is None else disk_cache.read(key)
    if stored is not None:
        return bytes(stored.payload).decode()
    version = ask()
    loaded = _loaded()
    if key is not None and loaded and loaded <= libraries and _key(libraries) == key:  # no file was replaced meanwhile
        disk_cache.write(Entry(key, version.partition(";")[0], "", version.encode()))
    return version


def _key(libraries: set[str]) -> CacheKey | None:
    """The key of the answer; None where NVRTC or a package is not among installed files."""
    finders = [_spec_file(package) for package in _FINDERS]
    if not libraries or None in finders:
        return None
    try:
        states = [_state(path) for path in (*sorted(libraries), *(f for f in finders if f is not None))]
    except OSError:
        return None
    variables = ",".join(f"{name}={os.environ.get(name, '')}" for name in _VARIABLES)
    return CacheKey.of(NVRTC, {"files": ",".join(states), "variables": variables, "python": sys.version})


def _state(path: str) -> str:
    found = os.stat(path)
    return f"{path} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _spec_file(package: str) -> str | None:
    """The file of a package, which is not imported; None if it is not installed."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # no parent package, or a module without a file
        return None
    return None if spec is None else spec.origin


def _libraries() -> Iterator[str]:
    """The files of NVRTC: in NVIDIA's packages, and where the system's linker looks first."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        spec = None
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield from glob.iglob(f"{glob.escape(folder)}/*/lib/libnvrtc*")
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        yield from glob.iglob(f"{glob.escape(folder)}/libnvrtc*")
    for word in os.environ.get("LD_PRELOAD", "").replace(":", " ").split():
        if "libnvrtc" in word and os.path.exists(word):
            yield word


def _loaded() -> set[str]:
    """The files of NVRTC in this process; none where the system does not tell."""
    try:
        lines = _MAPPINGS.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return set()
    return {os.path.realpath(line.split(maxsplit=5)[5]) for line in lines if "libnvrtc" in line}
