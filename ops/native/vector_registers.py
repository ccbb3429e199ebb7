"""The vector registers of this machine."""

from __future__ import annotations

import functools

from .static_values import at_compile_time


@functools.cache
def registers() -> tuple[int, int]:
    """The number of vector registers of this machine, and their bytes."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 32, 64
    if features.get("neon") or llvm.get_default_triple().startswith(("aarch64", "arm64")):
        return 32, 16
    return 16, 32 if features.get("avx") else 16


def registers_name() -> str:
    """The vector registers of this machine, as a part of a name."""
    return str(registers())


@at_compile_time
def vector_bytes() -> int:
    """The bytes of a vector register of this machine."""
    return registers()[1]
