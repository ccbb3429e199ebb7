"""The emulated GPU: a CUDA driver library and a compiler of CUDA C, both for the host.

``driver_path()`` stands in for libcuda (and for cuBLAS and cuDNN), ``compile`` for NVRTC: the emulated
``cuModuleLoadData`` takes its result.  Both need g++; ``available()`` says whether there is one.

With ``real.GPU`` set, ``library`` and ``compile`` belong to a real GPU, and the tests of kernels run there.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relayvm.ops.codegen.cuda.device_code.prelude import PRELUDE

from . import real

_HERE = Path(__file__).resolve().parent / "machine"
_KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
#: Not optimized: compiling takes longer than running.
_TEXT_FLAGS = (
    *("-std=c++17", "-O0", "-fPIC", "-fwrapv", "-ffp-contract=off", "-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing"),
    # nothing of one text is another's: a static array in a template would otherwise be one for all loaded libraries
    *("-fvisibility=hidden", "-fno-gnu-unique"),
    # a GPU faults at an address that is not a multiple of what is read there
    *("-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"),
)
#: Every access becomes a call, of functions in device.hpp; the sanitizer's own library is not linked.
_CHECKED_FLAGS = ("-DEMULATOR_CHECKED", "-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0")
#: Texts name no library but that of g++: a linker takes a fifth of the time of a text to read the symbols of the C library.
#: Its functions are found when a text is loaded (see ``modules::open_image``).
_LIBRARIES = ("-nostdlib", "-Wl,--build-id=none", "-lgcc")
_DRIVER_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off")

#: How kernels wait for the kernels in front of them (``dependent_launch``): blocks::TURN_KERNELS.
_WAITS = "#define AWAIT_KERNELS_BEFORE() emulator_hooks->turn(2)\n"

#: Whether texts are compiled with checks by default (see ``compile``).
CHECKED = os.environ.get("RELAYVM_EMULATOR_CHECKED") == "1"


#: Whether the functions of the mathematical library differ by units in the last place, like a GPU's functions from the host's.
ROUGH = os.environ.get("RELAYVM_EMULATOR_ROUGH") == "1"
_ROUGH_FLAGS = ("-DEMULATOR_ROUGH",) if ROUGH else ()


class CompileError(Exception):
    """g++ rejected the text; the message has its errors, with numbered lines of the text around the first error."""


def available() -> str | None:
    """None, or why there can be no emulated GPU on this machine."""
    if real.gpu is not None:
        return None
    if shutil.which("g++") is None:
        return "the emulated GPU needs g++"
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        return "the emulated GPU needs Linux on x86-64 or aarch64"
    return None


def _folder() -> Path:
    named = os.environ.get("RELAYVM_CACHE_DIR")
    folder = (Path(named) if named else Path(tempfile.gettempdir()) / "relayvm-tests") / "emulator"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@functools.cache
def version() -> str:
    """A hash of all inputs of ``compile`` except the text and its architecture."""
    compiler = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    headers = [(_HERE / name).read_text() for name in ("contract.hpp", "device.hpp")]
    return hashlib.sha256(
        "\0".join([compiler, platform.machine(), *_TEXT_FLAGS, *_ROUGH_FLAGS, *_CHECKED_FLAGS, *_LIBRARIES, *headers]).encode()
    ).hexdigest()[:16]


def _built(name: str, command: list[str], source: str) -> Path:
    """The library ``name`` in the cache folder, made by g++ from ``source`` on its standard input unless it is there."""
    sys.audit("relayvm.emulator", name)  # heard by ``tiers``
    path = _folder() / name
    if path.exists():
        return path
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    os.close(handle)
    done = subprocess.run(["g++", *command, "-o", temporary], input=source, capture_output=True, text=True)
    if done.returncode:
        os.unlink(temporary)
        raise CompileError(_explained(done.stderr, source))
    os.replace(temporary, path)
    return path


def _built_by_one(name: str, command: list[str]) -> Path:
    """The same for what takes seconds to compile: one process does, others wait for it."""
    with (_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _built(name, command, "")


def _explained(log: str, source: str) -> str:
    found = re.search(r"<stdin>:(\d+):", log)
    lines = source.splitlines()
    around = range(max(0, int(found[1]) - 6), min(len(lines), int(found[1]) + 4)) if found else range(0)
    return log[:4000] + "".join(f"\n{i + 1:5d} {lines[i]}" for i in around)


@functools.cache
def driver_path() -> str:
    """The path of the emulated driver's library, built when it is not in the cache folder.  Raises CompileError."""
    sources = [*sorted(_HERE.glob("*.hpp")), _HERE / "driver.cpp"]
    content = "\0".join([version(), *_DRIVER_FLAGS, *(source.read_text() for source in sources)])
    name = f"driver-{hashlib.sha256(content.encode()).hexdigest()[:24]}.so"
    command = [*_DRIVER_FLAGS, "-shared", "-I", str(_HERE), str(_HERE / "driver.cpp"), "-ldl"]
    return str(_built_by_one(name, command))


def kernels(text: str) -> list[str]:
    """The names of the kernels in a text, in their order."""
    return list(dict.fromkeys(_KERNEL.findall(_COMMENT.sub(" ", text))))


def compile(text: str, arch: str = "sm_90", options: Sequence[str] = (), checked: bool = CHECKED) -> bytes:
    """A library of the kernels in ``text`` for the emulated driver; ``arch`` is ``sm_XX``, and the device must fit it;
    ``sm_90a`` has products by teams of warps.

    ``text`` may begin with the prelude or not.  ``options`` are NVRTC's and change nothing.  ``checked``: the GPU looks at
    every access: reads and writes outside of any block, and races in shared memory, poison it.  It is slower then.
    Raises CompileError.
    """
    if real.gpu is not None:
        return real.gpu.compile(text)
    return _image(text, arch, checked)


def _image(text: str, arch: str, checked: bool) -> bytes:
    text = text.removeprefix(PRELUDE)
    flags = (*_TEXT_FLAGS, *_ROUGH_FLAGS, "-w", "-I", str(_HERE), *(_CHECKED_FLAGS if checked else ()))
    header = _header(arch.rpartition("_")[2], flags)
    entries = "\n".join(f"EMULATOR_KERNEL({name})" for name in kernels(text))
    waits = _WAITS if "AWAIT_KERNELS_BEFORE" in text else ""
    source = f'#include "{header.name}"\n{waits}{text}\n{entries}\n'
    command = [*flags, "-I", str(header.parent), "-shared", "-x", "c++", "-", *_LIBRARIES]
    name = f"text-{hashlib.sha256(' '.join([version(), *flags, source]).encode()).hexdigest()[:24]}.so"
    return _built(name, command, source).read_bytes()


@functools.cache
def _header(architecture: str, flags: tuple[str, ...]) -> Path:
    """The header of every text, which has the prelude; compiled beside it, which takes a fifth of the time of a text."""
    number, teams = architecture.rstrip("a"), int(architecture == "90a")
    content = f'#define EMULATOR_ARCHITECTURE {number}\n#define EMULATOR_TEAMS {teams}\n#include "device.hpp"\n{PRELUDE}\n'
    name = f"header-{hashlib.sha256(' '.join([version(), *flags, content]).encode()).hexdigest()[:24]}.hpp"
    path = _folder() / name
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")  # threads compile side by side
        part.write_text(content)
        part.replace(path)
    _built_by_one(f"{name}.gch", [*flags, "-x", "c++-header", str(path)])
    return path


class Compiler:
    """A replacement of NVRTC; its ``version`` is part of the key of compiled code."""

    def __init__(self, checked: bool = CHECKED) -> None:
        self.checked = checked

    @property
    def version(self) -> str:
        """Differs where what is made can differ."""
        return f"emulated {version()}{' checked' if self.checked else ''}"

    def compile(self, text: str, arch: str, options: Sequence[str] = ()) -> bytes:
        """See ``compile``."""
        return compile(text, arch, options, self.checked)


def library() -> Any:
    """The driver, cuBLAS and cuDNN: functions by their symbols."""
    return _emulated() if real.gpu is None else real.gpu


@functools.cache
def _emulated() -> ctypes.CDLL:
    """The emulated driver, loaded."""
    loaded = ctypes.CDLL(driver_path())
    loaded.emulator_set.argtypes = [ctypes.c_char_p, ctypes.c_longlong]
    loaded.emulator_get.argtypes = [ctypes.c_char_p]
    loaded.emulator_get.restype = ctypes.c_longlong
    loaded.emulator_text.restype = ctypes.c_char_p
    return loaded


def set(name: str, value: int) -> None:
    """Changes a setting; see ``defaults`` in GPU.hpp.  Raises KeyError for one that there is not.  A real GPU has none."""
    if real.gpu is None and library().emulator_set(name.encode(), value):
        raise KeyError(name)


def get(name: str) -> int:
    """A setting, or what is so now, or a count.

    ``error`` (the CUresult of a poisoned GPU, else 0), ``blocks`` and ``used`` (live device memory: blocks, bytes),
    ``queued`` (operations not yet run), ``kernels`` and ``operations`` (run so far), ``bus_atomics`` (of checked kernels on
    pinned memory), or how often the driver's function
    of that name (without the version of its symbol) was called.
    """
    return int(library().emulator_get(name.encode()))


def text() -> str:
    """The text of the last error; a real GPU reports an error number."""
    if real.gpu is not None:
        return ""
    return library().emulator_text().decode()


def failure() -> str:
    """The text of the error that the emulated GPU has failed with; "" if it has not, or was never opened."""
    if real.gpu is not None or not _emulated.cache_info().currsize or not get("error"):
        return ""
    return text() or str(get("error"))


def reset() -> None:
    """Reset to the initial state: free all memory and handles, restore settings and counts.  A real GPU stays.

    A driver that is not loaded is in this state: pytest's controller, which runs no test, waits for no compilation of it.
    """
    if real.gpu is None and _emulated.cache_info().currsize:
        library().emulator_reset()


def clear() -> None:
    """Settings and counts as at the start; memory and handles stay."""
    library().emulator_clear()


@contextlib.contextmanager
def at_once(stream: int) -> Iterator[None]:
    """Run the queued work of a stream of the driver, then all work as soon as it is called, until the end of the block.

    For code that works on the device's memory from the host, in the order of the stream, like numpy in place of cupy.
    """
    library().emulator_run(ctypes.c_uint64(stream))
    before = get("eager")
    set("eager", 1)
    try:
        yield
    finally:
        set("eager", before)


def array(address: int, shape: Sequence[int], dtype: Any) -> np.ndarray[Any, Any]:
    """Memory of the device as it is now, as an array that shares it."""
    dtype = np.dtype(dtype)
    n = int(np.prod(shape, dtype=np.int64))
    if n == 0:
        return np.empty(shape, dtype)
    raw = (ctypes.c_ubyte * (n * dtype.itemsize)).from_address(address)
    return np.frombuffer(raw, dtype).reshape(shape)
