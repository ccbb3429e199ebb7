"""Compilation of ``@native`` functions to object code by LLVM: 20 ms to 2 s a function; ``kernel_store`` keeps the objects."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....declarations.frozen_dataclass import frozen
from ..cache.host_processor import host_processor
from ..cache.installed_version import installed_version
from ..code_parts import Part, parts_of
from ..front_end.llvm import host, single_halves
from ..gc_pause import collection_paused
from . import marked_accesses

if TYPE_CHECKING:
    from ..front_end.compilation import Compilation

#: The packages whose versions determine machine code.
PACKAGES = host.PACKAGE, "numpy"
#: The symbol of every entry point.
_ENTRY = "relayvm_entry"
#: Environment variable that turns off the optimization of kernels: 0.
OPTIMIZE_VARIABLE = "RELAYVM_OPTIMIZE"


@frozen
class Levels:
    """LLVM's levels of optimization: ``speed`` of its passes, ``code`` of its code generator.

    ``loops``: whether loops are vectorised, interleaved and unrolled.
    """

    speed: int
    code: int
    loops: bool = True


#: -O3 would also unswitch loops: half as much again to compile, in code whose loops are written separately where that pays.
OPTIMIZED = Levels(2, 3)
#: For code whose loops run a few times, over the axes or arguments of a tensor: two thirds of the compile time and of the bytes.
SHORT_LOOPS = Levels(2, 3, loops=False)
#: For most parts, whose vectors and unrolled loops are written out: the same code as with OPTIMIZED, in half the time.
EMITTED_LOOPS = Levels(1, 3, loops=False)
#: For tests: LLVM takes a twentieth of the time, and the code is slow.
UNOPTIMIZED = Levels(0, 0)


def kernel_levels() -> Levels:
    """The levels of kernels by the environment variable as it is now.  The machine itself is always optimized."""
    return UNOPTIMIZED if os.environ.get(OPTIMIZE_VARIABLE) == "0" else OPTIMIZED


@frozen
class ObjectCode:
    """Relocatable machine code of one entry point: ``symbol`` follows the C calling convention.

    ``code``: an object, which has the entry point, and the objects of its parts (see ``code_parts``).
    """

    symbol: str
    code: bytes


#: Files of the compiler, relative to the folder ``ops/native``, by pattern.
_TOOLCHAIN = (
    "front_end/**/*.py", "halves.py", "jit/native_compiler.py", "given_literals.py",
    "jit/marked_accesses.py", "matrix_tiles.py", "memory.py", "static_values.py", "vector_registers.py", "vectors.py",
)  # fmt: skip


def options(levels: Levels) -> str:
    """The options of the compiler, as a field of the key of its code."""
    loops = [] if levels.loops else ["loops=plain"]
    return " ".join([f"speed_level={levels.speed}", f"code_level={levels.code}", *loops])


def toolchain_fields() -> dict[str, str]:
    """The toolchain that compiles functions, by name: this package's compiler, LLVM, numpy, Python, and the CPU."""
    folder = Path(__file__).parents[1]
    sources = [path.read_bytes() for pattern in _TOOLCHAIN for path in sorted(folder.glob(pattern))]
    return {
        "options": options(kernel_levels()),
        **host_processor(),
        **{package: installed_version(package) for package in PACKAGES},
        "python": sys.version,
        "toolchain": hashlib.sha256(repr(sources).encode()).hexdigest(),
    }


def _optimize(module: Any, entries: Collection[str], target_machine: Any, levels: Levels) -> Any:
    """Optimize a module, with everything but the entry points private."""
    import llvmlite.binding as llvm

    for function in module.functions:
        if function.is_declaration:
            function.add_function_attribute("nonlazybind")  # see _NEAR
        elif function.name not in entries:
            function.linkage = "internal"
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=levels.speed)
    tuning.slp_vectorization = False  # takes a tenth of the time, and changes few kernels, none that it makes faster
    tuning.loop_vectorization = tuning.loop_interleaving = tuning.loop_unrolling = levels.loops
    builder = llvm.create_pass_builder(target_machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


#: The code model in which constants are at most 2 GiB from the code, so that a constant is an operand of an instruction.  LLVM's
#: model for compilers in a process loads the address of each constant first, even in loops with more constants than registers.
#: Functions outside are called through a table of addresses beside the code: LLVM's stubs would need memory of their own there.
_NEAR = {"codemodel": "small", "reloc": "pic"}


def has_near_constants() -> bool:
    """Whether code is compiled and linked with its constants near."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


@functools.cache
def _target_machine(code_level: int) -> Any:
    """The machine that code is generated for: this one."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # for the empty instructions of ``nests``
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=code_level, jit=True,
        **(_NEAR if has_near_constants() else {"codemodel": "jitdefault", "reloc": "default"}),
    )  # fmt: skip


#: The object code of a part, by the levels of the code that calls it.
CodeOfPart = Callable[[Part, Levels], bytes]


@collection_paused()
def compile_part(part: Part, levels: Levels, code_of_part: CodeOfPart | None = None) -> bytes:
    """Compile a part to an object, which the objects of the parts that it calls follow."""
    made = _module(part.symbol, levels)
    part.emit(made)
    return _object_code(made, (part.symbol,), levels, code_of_part or compile_part)


@collection_paused()
def compile_object(
    function: Callable[..., Any], signature: str, levels: Levels = OPTIMIZED, code_of_part: CodeOfPart | None = None
) -> ObjectCode:
    """Compile ``function`` to object code with a C signature such as ``"int32(int64, int64)"``.

    Raises ``scalars.Outside`` for a function outside the subset of Python, which is a bug of this package.
    """
    compilation = _compilation(function, signature, levels)
    if has_near_constants():
        compilation.use_offset_table()
    code = _object_code(compilation.module, (_ENTRY,), levels, code_of_part or compile_part, compilation.texts)
    return ObjectCode(_ENTRY, code)


@collection_paused()
def compile_parts(function: Callable[..., Any], signature: str, levels: Levels, code_of_part: CodeOfPart) -> None:
    """Compile the parts of ``function``, and those that only unoptimized code calls; but not the function itself."""
    for part in (parts_of(_compilation(function, signature, levels).module) or {}).values():
        code_of_part(part, _levels_of(part, levels))


def _compilation(function: Callable[..., Any], signature: str, levels: Levels) -> Compilation:
    """The module of ``function`` and of the functions that it calls, but for its parts."""
    from ..front_end.compilation import Compilation

    made = Compilation(_module("native", levels), with_parts=has_near_constants())
    made.entry(function, signature, _ENTRY)
    return made


def _module(name: str, levels: Levels) -> Any:
    """An empty module for this machine."""
    import llvmlite.binding as llvm
    from llvmlite import ir

    made = ir.Module(name)
    made.triple, made.data_layout = llvm.get_default_triple(), str(_target_machine(levels.code).target_data)
    return made


def _object_code(
    emitted: Any, entries: Collection[str], levels: Levels, code_of_part: CodeOfPart, texts: Sequence[str] = ()
) -> bytes:
    """The object of an emitted module, and those of its parts; ``texts``: modules to link."""
    import llvmlite.binding as llvm

    machine, text = _target_machine(levels.code), str(emitted)
    module = llvm.parse_assembly(text)
    for linked in texts:
        module.link_in(llvm.parse_assembly(linked))
    module = _optimize(module, entries, machine, levels)
    for completion in (marked_accesses, single_halves):
        if completion.is_needed(text):
            module = llvm.parse_assembly(completion.complete(str(module)))
    own = bytes(machine.emit_object(module))
    called = {function.name for function in module.functions}
    parts = [part for part in (parts_of(emitted) or {}).values() if part.symbol in called]
    return b"".join((own, *(code_of_part(part, _levels_of(part, levels)) for part in parts)))


def _levels_of(part: Part, levels: Levels) -> Levels:
    """The levels of a part of code that is compiled with ``levels``."""
    return UNOPTIMIZED if levels == UNOPTIMIZED else OPTIMIZED if part.loops else EMITTED_LOOPS
