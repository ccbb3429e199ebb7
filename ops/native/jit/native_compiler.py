"""Compile plain functions marked ``@native`` to object code, by LLVM: 20 ms to 2 s a function (``kernel_store`` caches)."""

from __future__ import annotations

import dis
import functools
import hashlib
import operator
import os
import platform
import sys
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....declarations.frozen_dataclass import frozen
from ..cache.host_processor import host_processor
from ..cache.installed_version import installed_version
from ..code_parts import Part, parts_of
from ..inlining import is_shared
from . import marked_accesses
from .gc_pause import collection_paused

if TYPE_CHECKING:
    from ..front_end.compilation import Compilation

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
#: For code whose loops run a few times, over the axes or arguments of a tensor: two thirds of the time, and of the code.
SHORT_LOOPS = Levels(2, 3, loops=False)
#: For most parts, which are emitted as the vectors and loops that they shall be: the same code as by OPTIMIZED, in half the time.
EMITTED_LOOPS = Levels(1, 3, loops=False)
#: LLVM takes a twentieth of the time, and the code is slow.
UNOPTIMIZED = Levels(0, 0)


def kernel_levels() -> Levels:
    """The levels of kernels, as the environment says now.  The machine itself is always optimized."""
    return UNOPTIMIZED if os.environ.get(OPTIMIZE_VARIABLE) == "0" else OPTIMIZED


@frozen
class ObjectCode:
    """Relocatable machine code of one entry point: ``symbol`` follows the C calling convention.

    ``code``: an object, which has the entry point, and the objects of its parts (see ``code_parts``).
    """

    symbol: str
    code: bytes


def _globals_used(code: types.CodeType) -> Iterator[str]:
    """The names of globals and of attributes: fast, because every process needs fingerprints."""
    yield from code.co_names
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _globals_used(c)


def _globals_read(code: types.CodeType) -> Iterator[str]:
    """The names of globals only.  An attribute may have the name of a function that calls the reader."""
    yield from (i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL")
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _globals_read(c)


def fingerprint(function: Callable[..., Any]) -> str:
    """Hash everything that determines the behaviour of ``function``: bytecode and constants, its own and its callees'."""
    digest, seen = hashlib.sha256(), set()
    stack: list[Any] = [function]
    while stack:
        f = stack.pop()
        if id(f) in seen:
            continue
        seen.add(id(f))
        text, names = _own_text(f)
        digest.update(text)
        for name in names:
            if name not in f.__globals__:
                continue  # of an attribute or a built-in
            value = f.__globals__[name]
            if getattr(value, "__native__", None) in ("function", "generic"):
                digest.update(name.encode())
                stack.append(value)
            elif isinstance(value, types.ModuleType):
                digest.update(repr((name, value.__name__, _module_constants(value, names))).encode())
            else:
                digest.update(repr((name, _stable_value(value))).encode())
    return digest.hexdigest()


#: The attribute of a function that has its code, defaults and docstring, and the text and names that follow from them alone.
_OWN_TEXT = "__own_text__"


def _own_text(f: Any) -> tuple[bytes, list[str]]:
    """The part of a fingerprint that ``f`` itself adds, and the sorted names of globals that it may use.

    Kept, for most kernels call the same functions.
    """
    of = f.__code__, f.__defaults__, f.__doc__, getattr(f, "__interleaved__", False), is_shared(f), getattr(f, "__apart__", None)
    kept = f.__dict__.get(_OWN_TEXT)
    if kept is not None and all(map(operator.is_, kept[0], of)):
        return kept[1], kept[2]
    parts = repr((f.__defaults__, *of[3:])), *map(repr, _code_parts(f.__code__, f.__doc__))
    text, names = "".join(parts).encode(), sorted(set(_globals_used(f.__code__)))
    f.__dict__[_OWN_TEXT] = of, text, names
    return text, names


def _module_constants(module: types.ModuleType, names: list[str]) -> list[tuple[str, Any]]:
    """The constants that code may read as attributes of a module: their values are compiled into the code."""
    found = [(name, vars(module).get(name)) for name in names]
    return [(name, value) for name, value in found if isinstance(value, (int, float, bool, str, tuple))]


def _stable_value(value: Any) -> Any:
    """The part of a global value, no native function, on which code depends; its ``repr`` is the same in every process."""
    kind = getattr(value, "__native__", None)
    if kind == "record":
        return _fields(value.dtype)
    if kind == "array":
        return value.dtype, value.rank
    if kind in ("instruction", "static"):  # what it emits, and what it computes
        return source_hash(value.__module__)
    if hasattr(value, "_fields"):
        return value.__name__, value._fields
    if hasattr(value, "__machine__"):  # a machine form in a file that the toolchain's hash does not include
        return source_hash(value.__machine__.__module__)
    if isinstance(value, (int, float, bool, str, tuple)):
        return value
    return getattr(value, "__name__", None)  # types, twins; None: a built-in, or the name of an attribute


@functools.cache
def _fields(dtype: Any) -> str:
    return repr(dtype.descr)


def source_of(module: str) -> bytes:
    """The text of a module of machine forms, and the texts of the modules of this folder that it takes names from."""
    found, todo = {}, [module]
    while todo:
        name = todo.pop()
        found[name] = Path(str(sys.modules[name].__file__)).read_bytes()
        used = {getattr(value, "__module__", None) or "" for value in vars(sys.modules[name]).values()}
        todo += [other for other in used if other.startswith(f"{__package__}.") and other not in found]
    return b"".join(text for _, text in sorted(found.items()))


@functools.cache
def source_hash(module: str) -> str:
    """The SHA-256 of ``source_of``, in hexadecimal digits."""
    return hashlib.sha256(source_of(module)).hexdigest()


def source_of_part(part: Part) -> str:
    """A hash of all that determines the code of a part, besides its name."""
    return source_hash(part.maker) if isinstance(part.maker, str) else fingerprint(part.maker)


def _code_parts(code: types.CodeType, doc: str | None = None) -> Iterator[Any]:
    """Properties of the bytecode; not ``doc``, the docstring, which is the first constant of a function with one."""
    yield code.co_code, code.co_names, code.co_varnames, code.co_argcount
    for i, c in enumerate(code.co_consts):
        if isinstance(c, types.CodeType):
            yield from _code_parts(c)
        elif not (i == 0 and doc is not None and c == doc):
            yield sorted(map(repr, c)) if isinstance(c, frozenset) else c  # the order of a set differs between processes


#: Environment variables that change the code that numba compiles for users' functions.
_NUMBA_VARIABLES = (
    "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX", "NUMBA_OPT", "NUMBA_LOOP_VECTORIZE", "NUMBA_SLP_VECTORIZE",
    "NUMBA_DISABLE_INTEL_SVML",
)  # fmt: skip


#: Files of the compiler, relative to the folder ``ops/native``, by pattern.
_TOOLCHAIN = (
    "front_end/*.py", "front_end/llvm/*.py", "halves.py", "jit/native_compiler.py", "jit/given_literals.py", "jit/given_sizes.py",
    "jit/marked_accesses.py", "memory.py", "static_values.py", "vector_registers.py", "vectors.py",
)  # fmt: skip


def options(levels: Levels) -> str:
    """The options of the compiler, as a field of the key of its code."""
    settings = [f"{name}={os.environ[name]}" for name in _NUMBA_VARIABLES if name in os.environ]
    loops = [] if levels.loops else ["loops=plain"]
    return " ".join([f"speed_level={levels.speed}", f"code_level={levels.code}", *loops, *settings])


def toolchain_fields() -> dict[str, str]:
    """The toolchain that compiles functions, by name: this package's compiler, numba, LLVM, numpy, Python, and the CPU."""
    folder = Path(__file__).parents[1]
    sources = [path.read_bytes() for pattern in _TOOLCHAIN for path in sorted(folder.glob(pattern))]
    return {
        "options": options(kernel_levels()),
        **host_processor(),
        **{package: installed_version(package) for package in ("numba", "llvmlite", "numpy")},
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


#: Constants are at most 2 GiB from the code, so that an instruction reads a constant as an operand of its own.  The code model
#: of compilers in a process loads the address of each constant first, in loops too that have more constants than registers.
#: Functions outside are called through a table of addresses beside the code: stubs of another kind find no memory there.
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
    """Compile the functions of a part to an object, which the objects of the parts that it calls follow."""
    made = _module(part.name, levels)
    functions = part.functions(made)
    for function in functions:
        function.linkage = ""
    return _object_code(made, [f.name for f in functions], levels, code_of_part or compile_part)


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
    code = _object_code(compilation.module, (_ENTRY,), levels, code_of_part or compile_part, compilation.bitcode)
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
    made: Any, entries: Collection[str], levels: Levels, code_of_part: CodeOfPart, bitcode: Sequence[bytes] = ()
) -> bytes:
    """The object of a module, and those of its parts; ``bitcode``: modules to link."""
    import llvmlite.binding as llvm

    machine, text = _target_machine(levels.code), str(made)
    module = llvm.parse_assembly(text)
    for code in bitcode:
        module.link_in(llvm.parse_bitcode(code))
    module = _optimize(module, entries, machine, levels)
    if marked_accesses.has_marks(text):
        module = llvm.parse_assembly(marked_accesses.complete(str(module)))
    own = bytes(machine.emit_object(module))
    called = {function.name for function in module.functions}
    parts = [part for part in (parts_of(made) or {}).values() if not part.symbol or part.symbol in called]
    return b"".join((own, *(code_of_part(part, _levels_of(part, levels)) for part in parts)))


def _levels_of(part: Part, levels: Levels) -> Levels:
    """The levels of a part of code that is compiled with ``levels``."""
    return UNOPTIMIZED if levels == UNOPTIMIZED else OPTIMIZED if part.loops else EMITTED_LOOPS
