"""Fingerprints of executables and of the machine that runs them, as named fields."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace

from ...ops.core.implementation import GPU
from ...ops.native.compiled.kernel_store import toolchain
from ...ops.native.jit.native_compiler import OPTIMIZED, kernel_levels
from ...ops.native.tuning import fingerprint
from ...ops.native.tuning.fingerprint import NONE
from .. import thread_count
from ..bytecode.executable import ExecutableData, LateBound
from ..bytecode.types_json import type_to_json
from ..device_table import machine_of

#: Hexadecimal digits of a program's hash.
_DIGITS = 32


def machine_fields(target: str, libraries: Iterable[str] = ()) -> dict[str, str]:
    """Properties of the machine that affect times measured on the device ``target``.

    ``libraries``: the library functions that may be called.
    """
    if machine_of(target) == GPU:
        return {"device": target, **_gpu_fields()}
    host = {"threads": str(thread_count.get_num_threads()), **fingerprint.host_fields(), **fingerprint.library_fields(libraries)}
    slow = {} if kernel_levels() == OPTIMIZED else {"kernels": "unoptimized"}
    return {"device": target, **host, **slow}


def code_fields(target: str) -> dict[str, str]:
    """Properties of the machine that affect compiled code for the device ``target``."""
    return {"device": target, **toolchain(), **(_gpu_fields() if machine_of(target) == GPU else {})}


def _gpu_fields() -> dict[str, str]:
    """The first GPU, its driver and the CUDA C compiler."""
    from ...ops.codegen.cuda.device_code import nvrtc  # for programs of GPUs only
    from ..devices.cuda.driver_api import device
    from ..devices.cuda.driver_api.driver import NoCuda

    try:
        gpu = device.device(0)
        found = {
            "card": gpu.name,
            "architecture": gpu.architecture,
            "driver": _version_text(device.driver().get("cuDriverGetVersion")),
        }
    except NoCuda:
        found = dict.fromkeys(("card", "architecture", "driver"), NONE)
    try:
        return found | {"cuda": nvrtc.compiler.version}
    except nvrtc.NoNvrtc:
        return found | {"cuda": NONE}


def _version_text(number: int) -> str:
    version = number & 0xFFFFFFFF
    return f"{version // 1000}.{version % 1000 // 10}"


def program_hash(exe: ExecutableData) -> str:
    """A hash of an executable's function types, kernels and constants.

    The hash leaves out the chosen implementations and the source texts, since both may differ on another machine.
    """
    parts = [f"{f.name} {[type_to_json(ty) for _, ty in f.params]} {type_to_json(f.result)}" for f in exe.functions]
    parts += sorted({replace(p.group, implementation="", workspace=False).key() for p in exe.packed})
    digest = hashlib.sha256(json.dumps(parts).encode())
    for c in exe.constants:
        elements = bytes.fromhex(c.digest) if isinstance(c, LateBound) else hashlib.sha256(c.tobytes()).digest()
        digest.update(f"{c.dtype.name} {c.shape}".encode() + elements)
    return digest.hexdigest()[:_DIGITS]
