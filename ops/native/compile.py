"""From plain functions marked ``@native`` to object code, by numba.  Slow (0.1 to 2 s a function); see ``store`` for the cache.

numba's own ``cache=True`` is not used: it returns stale code when an imported function changes, and it pickles.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import os
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..ty import HALVES
from .collection import collection_put_off

#: Options of every function compiled: no Python, no exceptions, IEEE division, no runtime of numba's.
OPTIONS = {"nogil": True, "error_model": "numpy", "boundscheck": False, "_nrt": False, "no_rewrites": True}


@dataclass(frozen=True)
class ObjectCode:
    """Relocatable machine code of one entry point: ``symbol`` follows the C calling convention."""

    symbol: str
    code: bytes


def _globals_used(code: types.CodeType) -> Iterator[str]:
    """The names of globals, and of attributes: quick, for every process needs fingerprints."""
    yield from code.co_names
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _globals_used(c)


def _globals_read(code: types.CodeType) -> Iterator[str]:
    """The names of globals only.  An attribute may be called as a function is that calls the reader."""
    yield from (i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL")
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _globals_read(c)


def fingerprint(function: Callable[..., Any]) -> str:
    """A hash of everything that decides what ``function`` does: its bytecode and constants, and those of all it calls."""
    digest, seen = hashlib.sha256(), set()
    stack: list[Any] = [function]
    while stack:
        f = stack.pop()
        if id(f) in seen:
            continue
        seen.add(id(f))
        digest.update(repr(f.__defaults__).encode())
        for part in _code_parts(f.__code__, f.__doc__):
            digest.update(repr(part).encode())
        for name in sorted(set(_globals_used(f.__code__))):
            value = f.__globals__.get(name)
            if getattr(value, "__native__", None) in ("function", "generic"):
                digest.update(name.encode())
                stack.append(value)
            elif isinstance(value, types.ModuleType):
                digest.update(repr((name, value.__name__, _read_off(value, f.__code__))).encode())
            else:
                digest.update(repr((name, _meaning(value))).encode())
    return digest.hexdigest()


def _read_off(module: types.ModuleType, code: types.CodeType) -> list[tuple[str, Any]]:
    """The constants that code may read as attributes of a module: their values are in it as if they were its own."""
    found = [(name, getattr(module, name, None)) for name in sorted(set(_globals_used(code)))]
    return [(name, value) for name, value in found if isinstance(value, (int, float, bool, str, tuple))]


def _meaning(value: Any) -> Any:
    """What code depends on of a global value that is no function of ours, as something whose ``repr`` is the same each time."""
    kind = getattr(value, "__native__", None)
    if kind == "record":
        return value.dtype.descr
    if kind == "array":
        return value.dtype, value.rank
    if hasattr(value, "__machine__"):  # machine forms outside ``intrinsics``, which the toolchain's hash has
        return _source_of(value.__machine__.__module__)
    if isinstance(value, (int, float, bool, str, tuple)):
        return value
    return getattr(value, "__name__", None)  # types, twins; None: a built-in, or the name of an attribute


@functools.cache
def _source_of(module: str) -> bytes:
    return Path(str(sys.modules[module].__file__)).read_bytes()


def _code_parts(code: types.CodeType, doc: str | None = None) -> Iterator[Any]:
    """What the bytecode depends on; not ``doc``, the docstring, which is the first constant of a function that has one."""
    yield code.co_code, code.co_names, code.co_varnames, code.co_argcount
    for i, c in enumerate(code.co_consts):
        if isinstance(c, types.CodeType):
            yield from _code_parts(c)
        elif not (i == 0 and doc is not None and c == doc):
            yield sorted(map(repr, c)) if isinstance(c, frozenset) else c  # sets have another order in each process


#: Variables by which numba is told to make other code.
_NUMBA_VARIABLES = (
    "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX", "NUMBA_OPT", "NUMBA_LOOP_VECTORIZE", "NUMBA_SLP_VECTORIZE",
    "NUMBA_DISABLE_INTEL_SVML",
)  # fmt: skip


#: What of this folder turns functions into code.
_TOOLCHAIN = ("compile", "front_end", "intrinsics", "memory", "halves", "half_arrays")


def toolchain_fields() -> dict[str, str]:
    """What turns functions into code, by name: this package's compiler, numba, LLVM, numpy, Python, and the processor."""
    from importlib.metadata import version

    import llvmlite.binding as llvm

    here = Path(__file__).parent
    sources = [
        (here / name).read_bytes()
        for name in ("compile.py", "front_end.py", "intrinsics.py", "memory.py", "halves.py", "half_arrays.py")
    ]
    settings = [f"{name}={os.environ[name]}" for name in _NUMBA_VARIABLES if name in os.environ]
    return {
        "options": " ".join([*(f"{name}={value}" for name, value in OPTIONS.items()), *settings]),
        "processor": llvm.get_host_cpu_name(),
        "features": llvm.get_host_cpu_features().flatten(),
        "triple": llvm.get_default_triple(),
        **{package: version(package) for package in ("numba", "llvmlite", "numpy")},
        "python": sys.version,
        "toolchain": hashlib.sha256(repr(sources).encode()).hexdigest(),
    }


class _MachineForms:
    """numba's form of native functions, records, arrays and twins, each made once in a process."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._alive: list[Any] = []  # what the keys are the ids of

    def of(self, value: Any) -> Any:
        """The machine form of ``value``; anything that is not native is itself."""
        kind = getattr(value, "__native__", None)
        if kind is None:
            return value
        if id(value) not in self._made:
            self._alive.append(value)
            self._make(value, kind)
        return self._made[id(value)]

    def entry(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A copy of ``function`` over machine forms, for its caller to compile."""
        copy = self._copy(function)
        self._fill(copy, function)
        return copy

    def _make(self, value: Any, kind: str) -> None:
        import numba

        from . import intrinsics
        from .front_end import NativeCompiler

        if kind == "record":
            self._made[id(value)] = intrinsics.record(value.dtype)
        elif kind == "array":
            self._made[id(value)] = _array_form(value.dtype, value.rank)
        elif kind == "twin":
            provider = getattr(value, "__machine__", None)  # a twin declared outside ``memory`` names its machine form
            self._made[id(value)] = provider() if provider else getattr(intrinsics, value.__name__)
        else:
            copy = self._copy(value)
            options = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
            dispatcher = numba.njit(copy, **options, pipeline_class=NativeCompiler)
            self._made[id(value)] = dispatcher  # known before its globals are filled: it may call itself
            self._fill(copy, value)
            if kind == "function":
                # all arguments are words: compile once, not once for every literal it is called with
                dispatcher.compile((numba.int64,) * value.__code__.co_argcount)
                dispatcher.disable_compile()

    def _copy(self, function: Callable[..., Any]) -> types.FunctionType:
        namespace: dict[str, Any] = {"__builtins__": __builtins__}
        copy = types.FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)
        copy.__module__ = "relayvm_native"
        return copy

    def _fill(self, copy: types.FunctionType, function: Callable[..., Any]) -> None:
        for name in sorted(set(_globals_read(function.__code__))):
            if name in function.__globals__:
                copy.__globals__[name] = self.of(function.__globals__[name])


def _array_form(dtype: str, rank: int) -> Any:
    from . import half_arrays, intrinsics

    return (half_arrays if dtype in HALVES else intrinsics).array(dtype, rank)


_forms = _MachineForms()
#: The machine form of anything native.
machine_form = _forms.of


def _linked(library: Any) -> Any:
    """One module with everything that ``library`` calls."""
    import llvmlite.binding as llvm

    whole = llvm.parse_bitcode(library._final_module.as_bitcode())
    seen, stack = {library}, list(library._linking_libraries)
    while stack:
        needed = stack.pop()
        if needed not in seen:
            seen.add(needed)
            stack += needed._linking_libraries
            whole.link_in(needed._final_module, preserve=True)
    return whole


def _optimised(module: Any, symbol: str, target_machine: Any) -> Any:
    """The module with everything but the entry point private, at LLVM's -O2.

    -O3 would also make a copy of a loop for each way that a condition in it may go: half as much again to compile, in code
    whose loops are written apart where that pays.
    """
    import llvmlite.binding as llvm

    for function in module.functions:
        if not function.is_declaration and function.name != symbol:
            function.linkage = "internal"
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = True
    builder = llvm.create_pass_builder(target_machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


@collection_put_off()
def compile_object(function: Callable[..., Any], signature: str) -> ObjectCode:
    """Object code of ``function`` with a C signature such as ``"int32(int64, int64)"``.

    Raises numba's errors: a function outside the subset is our own mistake.
    """
    import warnings

    from numba.core import errors, sigutils
    from numba.core.ccallback import CFunc
    from numba.core.compiler_lock import global_compiler_lock

    from .front_end import NativeCompiler, front_end_only

    with global_compiler_lock, warnings.catch_warnings(), front_end_only():
        warnings.simplefilter("ignore", errors.NumbaWarning)
        # CFunc.compile() would also load the code into numba's own engine; we only want the object
        types_ = sigutils.normalize_signature(signature)
        entry = CFunc(_forms.entry(function), types_, locals={}, options=OPTIONS, pipeline_class=NativeCompiler)
        compiled = entry._compile_uncached()
        library = compiled.library
        symbol = compiled.fndesc.llvm_cfunc_wrapper_name
        machine = library.codegen._tm
        return ObjectCode(symbol, machine.emit_object(_optimised(_linked(library), symbol, machine)))
