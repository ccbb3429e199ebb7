"""What an executable, and the machine that it runs on, are known by: ingredients of fingerprints, by name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace

from ..ops.native import fingerprint, nvrtc
from ..ops.native.fingerprint import NONE
from ..ops.native.store import toolchain
from . import threads
from .cuda import device
from .cuda.driver import NoCuda
from .executable import DEVICES, Executable
from .layout import CUDA
from .types_json import type_to_json

#: Hexadecimal digits of a program's hash.
_DIGITS = 32


def machine_fields(target: str, libraries: Iterable[str] = ()) -> dict[str, str]:
    """What times measured on the device ``target`` depend on; ``libraries``: the library functions that may be called."""
    if target == DEVICES[CUDA]:
        return {"device": target, **_card_fields()}
    host = {"threads": str(threads.num_threads()), **fingerprint.host_fields(), **fingerprint.library_fields(libraries)}
    return {"device": target, **host}


def code_fields(target: str) -> dict[str, str]:
    """What compiled code for the device ``target`` depends on."""
    return {"device": target, **toolchain(), **(_card_fields() if target == DEVICES[CUDA] else {})}


def _card_fields() -> dict[str, str]:
    """The first card, its driver and the compiler of CUDA C."""
    try:
        card = device.device(0)
        found = {"card": card.name, "architecture": card.architecture, "driver": _driver_version()}
    except NoCuda:
        found = dict.fromkeys(("card", "architecture", "driver"), NONE)
    try:
        return found | {"cuda": nvrtc.compiler.version}
    except nvrtc.NoNvrtc:
        return found | {"cuda": NONE}


def _driver_version() -> str:
    version = device.driver().get("cuDriverGetVersion") & 0xFFFFFFFF
    return f"{version // 1000}.{version % 1000 // 10}"


def program_hash(exe: Executable) -> str:
    """A hash of what an executable computes: its functions' types, kernels and constants.  Not of which implementations compute
    it, nor of its sources' texts: both may be others on another machine."""
    parts = [f"{f.name} {[type_to_json(ty) for _, ty in f.params]} {type_to_json(f.result)}" for f in exe.functions]
    parts += sorted({replace(p.group, implementation="", workspace=False).key() for p in exe.packed})
    digest = hashlib.sha256(json.dumps(parts).encode())
    for c in exe.constants:
        digest.update(f"{c.dtype.name} {c.shape}".encode() + hashlib.sha256(c.tobytes()).digest())
    return digest.hexdigest()[:_DIGITS]
