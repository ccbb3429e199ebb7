"""The vector registers of this machine."""

from __future__ import annotations

import functools

from .front_end.llvm import host
from .static_values import at_compile_time


@functools.cache
def registers() -> tuple[int, int]:
    """The number of vector registers of this machine, and their bytes."""
    features = host.features()
    if "avx512f" in features:
        return 32, 64
    if "neon" in features or host.architecture() == "aarch64":
        return 32, 16
    return 16, 32 if "avx" in features else 16


def registers_name() -> str:
    """The vector registers of this machine, as a part of a name."""
    return str(registers())


def has_fast_gathers() -> bool:
    """Whether the instruction that gathers elements is faster than a load of each.

    For a resized image Zen 4 takes 1.4 to 1.7 of the time of loads, a Xeon 0.6.
    """
    return not host.is_of_amd()


@at_compile_time
def vector_bytes() -> int:
    """The bytes of a vector register of this machine."""
    return registers()[1]
