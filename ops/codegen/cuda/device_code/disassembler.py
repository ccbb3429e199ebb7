"""Disassemble machine code of GPUs (SASS) with nvdisasm and cuobjdump, NVIDIA's tools.  They need no GPU.

The tools are those of an installed CUDA toolkit, or of NVIDIA's wheels (the extra ``relayvm[sass]``).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


class NoDisassembler(Exception):
    """Machine code cannot be disassembled here; the text is the reason, in one line."""


def listing(image: bytes) -> str:
    """The instructions of all kernels in a cubin, as nvdisasm prints them.  Raises NoDisassembler."""
    return _run("nvdisasm", "-c", image=image)


def resource_usage(image: bytes) -> str:
    """The registers and bytes of memory of each kernel in a cubin, as cuobjdump prints them.  Raises NoDisassembler."""
    return _run("cuobjdump", "-res-usage", image=image)


def check() -> None:
    """Raise NoDisassembler where machine code cannot be disassembled."""
    for tool in ("nvdisasm", "cuobjdump"):
        _path(tool)


def _run(tool: str, option: str, image: bytes) -> str:
    path = _path(tool)
    with tempfile.TemporaryDirectory(prefix="relayvm-") as folder:
        cubin = Path(folder) / "kernels.cubin"
        cubin.write_bytes(image)
        done = subprocess.run([path, option, cubin], capture_output=True, text=True)
    if done.returncode:
        raise NoDisassembler(f"{path} failed: {(done.stderr or done.stdout).strip().splitlines()[:1]}")
    return done.stdout


@functools.cache
def _path(tool: str) -> str:
    """The path of a tool.  Raises NoDisassembler."""
    found = shutil.which(tool) or shutil.which(tool, path=os.pathsep.join(map(str, _folders())))
    if found is None:
        raise NoDisassembler(f"{tool} is not installed; install relayvm[sass] or the CUDA toolkit")
    return found


def _folders() -> Iterator[Path]:
    """The folders of programs of NVIDIA's wheels, and of an installed toolkit."""
    package = importlib.util.find_spec("nvidia")
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        yield from sorted(Path(folder).glob("*/bin"), reverse=True)
    for variable in ("CUDA_PATH", "CUDA_HOME"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "bin"
    yield Path("/usr/local/cuda/bin")
