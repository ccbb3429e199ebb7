"""Compile plain functions marked ``@native`` to object code, by numba.  Slow (0.1 to 2 s a function): ``kernel_store`` caches.

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

from ...core.tensor_types import HALVES
from .gc_pause import collection_paused
from .halves import CONVERSIONS

#: Options of every compiled function: no Python, no exceptions, IEEE division, no numba runtime.
OPTIONS = {"nogil": True, "error_model": "numpy", "boundscheck": False, "_nrt": False, "no_rewrites": True}


@dataclass(frozen=True)
class ObjectCode:
    """Relocatable machine code of one entry point: ``symbol`` follows the C calling convention."""

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
        digest.update(repr(f.__defaults__).encode())
        for part in _code_parts(f.__code__, f.__doc__):
            digest.update(repr(part).encode())
        for name in sorted(set(_globals_used(f.__code__))):
            value = f.__globals__.get(name)
            if getattr(value, "__native__", None) in ("function", "generic"):
                digest.update(name.encode())
                stack.append(value)
            elif isinstance(value, types.ModuleType):
                digest.update(repr((name, value.__name__, _module_constants(value, f.__code__))).encode())
            else:
                digest.update(repr((name, _stable_value(value))).encode())
    return digest.hexdigest()


def _module_constants(module: types.ModuleType, code: types.CodeType) -> list[tuple[str, Any]]:
    """The constants that code may read as attributes of a module: their values are compiled into the code."""
    found = [(name, getattr(module, name, None)) for name in sorted(set(_globals_used(code)))]
    return [(name, value) for name, value in found if isinstance(value, (int, float, bool, str, tuple))]


def _stable_value(value: Any) -> Any:
    """The part of a global value, no native function, on which code depends; its ``repr`` is the same in every process."""
    kind = getattr(value, "__native__", None)
    if kind == "record":
        return value.dtype.descr
    if kind == "array":
        return value.dtype, value.rank
    if hasattr(value, "__machine__"):  # a machine form outside ``intrinsics``, whose files the toolchain's hash does not include
        return _source_of(value.__machine__.__module__)
    if isinstance(value, (int, float, bool, str, tuple)):
        return value
    return getattr(value, "__name__", None)  # types, twins; None: a built-in, or the name of an attribute


@functools.cache
def _source_of(module: str) -> bytes:
    return Path(str(sys.modules[module].__file__)).read_bytes()


def _code_parts(code: types.CodeType, doc: str | None = None) -> Iterator[Any]:
    """Properties of the bytecode; not ``doc``, the docstring, which is the first constant of a function with one."""
    yield code.co_code, code.co_names, code.co_varnames, code.co_argcount
    for i, c in enumerate(code.co_consts):
        if isinstance(c, types.CodeType):
            yield from _code_parts(c)
        elif not (i == 0 and doc is not None and c == doc):
            yield sorted(map(repr, c)) if isinstance(c, frozenset) else c  # the order of a set differs between processes


#: Environment variables that change numba's code.
_NUMBA_VARIABLES = (
    "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX", "NUMBA_OPT", "NUMBA_LOOP_VECTORIZE", "NUMBA_SLP_VECTORIZE",
    "NUMBA_DISABLE_INTEL_SVML",
)  # fmt: skip


#: Files of the compiler, relative to the folder ``ops/native``.
_TOOLCHAIN = (
    "jit/native_compiler.py", "jit/front_end.py", "jit/intrinsics.py", "memory.py", "jit/halves.py", "jit/half_arrays.py",
)  # fmt: skip


def toolchain_fields() -> dict[str, str]:
    """The toolchain that compiles functions, by name: this package's compiler, numba, LLVM, numpy, Python, and the CPU."""
    from importlib.metadata import version

    import llvmlite.binding as llvm

    folder = Path(__file__).parents[1]
    sources = [(folder / name).read_bytes() for name in _TOOLCHAIN]
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
    """Machine forms of native functions, records, arrays and twins for numba, each made once in a process."""

    def __init__(self) -> None:
        self._forms: dict[int, Any] = {}
        self._originals: list[Any] = []  # the objects whose ids are the keys

    def of(self, value: Any) -> Any:
        """The machine form of ``value``; a value that is not native is returned as it is."""
        kind = getattr(value, "__native__", None)
        if kind is None:
            return value
        if id(value) not in self._forms:
            self._originals.append(value)
            self._add(value, kind)
        return self._forms[id(value)]

    def entry(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A copy of ``function`` over machine forms, for its caller to compile."""
        copy = self._copy(function)
        self._fill(copy, function)
        return copy

    def _add(self, value: Any, kind: str) -> None:
        import numba

        from . import intrinsics
        from .front_end import NativeCompiler

        if kind == "record":
            self._forms[id(value)] = intrinsics.record(value.dtype)
        elif kind == "array":
            self._forms[id(value)] = _array_form(value.dtype, value.rank)
        elif kind == "twin":
            provider = getattr(value, "__machine__", None)  # a twin declared outside ``memory`` names its machine form
            self._forms[id(value)] = provider() if provider else getattr(intrinsics, value.__name__)
        else:
            copy = self._copy(value)
            options = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
            dispatcher = numba.njit(copy, **options, pipeline_class=NativeCompiler)
            self._forms[id(value)] = dispatcher  # stored before its globals are resolved: it may call itself
            self._fill(copy, value)
            if kind == "function":
                # all arguments are words: compile once, not once for every literal argument
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

    if dtype not in HALVES:
        return intrinsics.array(dtype, rank)
    value, bits, _ = CONVERSIONS[dtype]
    return half_arrays.array(dtype, rank, machine_form(value), machine_form(bits))


_forms = _MachineForms()
#: The machine form of a native value.
machine_form = _forms.of


def _link(library: Any) -> Any:
    """One module with all callees of ``library``."""
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


def _optimize(module: Any, symbol: str, target_machine: Any) -> Any:
    """Optimize a module at LLVM's -O2, with everything but the entry point private.

    -O3 would also unswitch loops: half as much again to compile, in code whose loops are written separately where that pays.
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


@collection_paused()
def compile_object(function: Callable[..., Any], signature: str) -> ObjectCode:
    """Compile ``function`` to object code with a C signature such as ``"int32(int64, int64)"``.

    Raises numba's errors: a function outside the subset is a bug of this package.
    """
    import warnings

    from numba.core import errors, sigutils
    from numba.core.ccallback import CFunc
    from numba.core.compiler_lock import global_compiler_lock

    from .front_end import NativeCompiler, front_end_only

    with global_compiler_lock, warnings.catch_warnings(), front_end_only():
        warnings.simplefilter("ignore", errors.NumbaWarning)
        # CFunc.compile() would also load the code into numba's own engine; only the object is needed
        types_ = sigutils.normalize_signature(signature)
        entry = CFunc(_forms.entry(function), types_, locals={}, options=OPTIONS, pipeline_class=NativeCompiler)
        compiled = entry._compile_uncached()
        library = compiled.library
        symbol = compiled.fndesc.llvm_cfunc_wrapper_name
        machine = library.codegen._tm
        return ObjectCode(symbol, machine.emit_object(_optimize(_link(library), symbol, machine)))
