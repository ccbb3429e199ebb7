"""The CPU and its features as LLVM names them, for the keys of machine code.

LLVM's import takes longer than the rest of a look-up, so the store keeps LLVM's answer, under the CPU's description by the kernel
of Linux.  The description has vendor, family, model, and every feature that the kernel has found.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ..front_end.llvm import host
from . import disk_cache
from .cache_entry import Entry
from .cache_key import CacheKey
from .installed_version import installed_version

#: The kind of the answer's entry in the store.
PROCESSOR = "processor"
_DESCRIPTION = Path("/sys/devices/system/cpu/modalias")
#: The names of the answer's parts: the CPU, its features as LLVM's flags, the platform.
FIELDS = ("processor", "features", "triple")


def host_processor() -> dict[str, str]:
    """LLVM's name of the CPU, its features and its platform, by FIELDS."""
    key = _key()
    stored = None if key is None else disk_cache.read(key)
    found = None if stored is None else _parsed(bytes(stored.payload))
    if found is None:
        found = _asked()
        if key is not None:
            disk_cache.write(Entry(key, found["processor"], "", json.dumps(found).encode()))
    return found


def _key() -> CacheKey | None:
    """The key of the answer for this CPU; None where the system does not describe the CPU."""
    try:
        description = _DESCRIPTION.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
    if not description:
        return None
    return CacheKey.of(PROCESSOR, {"cpu": description, "platform": sys.platform, host.PACKAGE: installed_version(host.PACKAGE)})


def _parsed(payload: bytes) -> dict[str, str] | None:
    try:
        found = json.loads(payload)
    except ValueError:
        return None
    if isinstance(found, dict) and {*found} == {*FIELDS} and all(isinstance(value, str) for value in found.values()):
        return found
    return None


def _asked() -> dict[str, str]:
    return dict(zip(FIELDS, host.processor(), strict=True))
