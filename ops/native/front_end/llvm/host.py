"""This machine and this process as LLVM sees them: the CPU, the names of functions, code that its linker maps.

LLVM's import takes a tenth of a second: it is imported by the first question.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

#: The package that has LLVM: its version decides machine code.
PACKAGE = "llvmlite"
_engines: list[Any] = []  # they own the code, which lives as long as the process


@functools.cache
def processor() -> tuple[str, str, str]:
    """The name of the CPU, its features, as flags with a sign and a comma between them, and the platform."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), llvm.get_default_triple()


@functools.cache
def features() -> frozenset[str]:
    """The features that the CPU has."""
    return frozenset(flag[1:] for flag in processor()[1].split(",") if flag.startswith("+"))


def is_of_amd() -> bool:
    """Whether the CPU is one of AMD's, by LLVM's name: what pays there by measurement differs from CPUs of Intel."""
    return processor()[0].startswith(("znver", "bdver", "btver"))


def multiplies_bytes(lanes: int) -> bool:
    """Whether the CPU has an instruction that adds 4 products of bytes to each of ``lanes`` int32."""
    wanted = {16: [{"avx512vnni"}], 8: [{"avxvnni"}, {"avx512vnni", "avx512vl"}]}
    return any(instructions <= features() for instructions in wanted.get(8 if lanes == 4 else lanes, []))


def multiplies_limited_bytes(lanes: int) -> bool:
    """As ``multiplies_bytes``, for an instruction that adds up 2 products in 16 bits."""
    return {4: "ssse3", 8: "avx2", 16: "avx512bw"}.get(lanes, "") in features()


def architecture() -> str:
    """The architecture of the CPU, such as x86_64 and aarch64."""
    found = processor()[2].partition("-")[0]
    return "aarch64" if found == "arm64" else found


def knows_symbol(name: str) -> bool:
    """Whether LLVM's linker finds a function of this name in the process."""
    import llvmlite.binding as llvm

    return bool(llvm.address_of_symbol(name))


def add_symbol(name: str, address: int) -> None:
    """Let LLVM's linker find a function at an address."""
    import llvmlite.binding as llvm

    llvm.add_symbol(name, address)


@functools.cache
def _linked_for() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(opt=3, codemodel="jitdefault", jit=True)


def map_object(code: bytes, names: Sequence[str], near: bool) -> dict[str, int]:
    """The addresses of functions of an object that LLVM's linker maps; 0 for a function that the object lacks.

    ``near``: whether its parts are reserved at once, else they might be more than 2 GiB apart.
    """
    import llvmlite.binding as llvm

    target = _linked_for()
    # LLVM reserves the memory of an engine for its first object only
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target, use_lmm=near or None)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return {name: engine.get_function_address(name) for name in names}
