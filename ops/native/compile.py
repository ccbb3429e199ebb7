"""From plain functions marked ``@native`` to object code, by numba.  Slow (0.1 to 2 s a function); see ``store`` for the cache.

numba's own ``cache=True`` is not used: it returns stale code when an imported function changes, and it pickles.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Options of every function compiled: no Python, no exceptions, IEEE division, no runtime of numba's.
OPTIONS = {"nogil": True, "error_model": "numpy", "boundscheck": False, "_nrt": False, "no_rewrites": True}


@dataclass(frozen=True)
class ObjectCode:
    """Relocatable machine code of one entry point: ``symbol`` follows the C calling convention."""

    symbol: str
    code: bytes


def _globals_used(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _globals_used(c)


def fingerprint(function: Callable[..., Any]) -> str:
    """A hash of everything that decides what ``function`` does: its bytecode and constants, and those of all it calls."""
    digest, seen = hashlib.sha256(), set()
    stack: list[Any] = [function]
    while stack:
        f = stack.pop()
        if id(f) in seen:
            continue
        seen.add(id(f))
        for part in _code_parts(f.__code__):
            digest.update(repr(part).encode())
        for name in sorted(set(_globals_used(f.__code__))):
            value = f.__globals__.get(name)
            kind = getattr(value, "__native__", None)
            if kind in ("function", "generic"):
                digest.update(name.encode())
                stack.append(value)
            elif kind == "record":
                digest.update(repr((name, value.dtype.descr)).encode())
            elif hasattr(value, "__machine__"):  # machine forms outside ``intrinsics``, which the toolchain's hash has
                digest.update(name.encode() + _source_of(value.__machine__.__module__))
            elif isinstance(value, (int, float, bool, str, tuple)):
                digest.update(repr((name, value)).encode())
    return digest.hexdigest()


@functools.cache
def _source_of(module: str) -> bytes:
    return Path(str(sys.modules[module].__file__)).read_bytes()


def _code_parts(code: types.CodeType) -> Iterator[Any]:
    yield code.co_code, code.co_names, code.co_varnames, code.co_argcount
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _code_parts(c)
        else:
            yield c


def toolchain_fingerprint() -> str:
    """A hash of what turns functions into code: this package's compiler, numba, LLVM, numpy, Python and the processor."""
    from importlib.metadata import version

    import llvmlite.binding as llvm

    here = Path(__file__).parent
    sources = [(here / name).read_bytes() for name in ("compile.py", "intrinsics.py", "memory.py")]
    versions = [sys.version, *(version(p) for p in ("numba", "llvmlite", "numpy"))]
    processor = [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), llvm.get_default_triple()]
    return hashlib.sha256(repr((sources, versions, processor)).encode()).hexdigest()


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

        if kind == "record":
            self._made[id(value)] = intrinsics.record(value.dtype)
        elif kind == "array":
            self._made[id(value)] = intrinsics.array(value.dtype, value.rank)
        elif kind == "twin":
            provider = getattr(value, "__machine__", None)  # a twin declared outside ``memory`` names its machine form
            self._made[id(value)] = provider() if provider else getattr(intrinsics, value.__name__)
        else:
            copy = self._copy(value)
            dispatcher = numba.njit(copy, **OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True)
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
        for name in set(_globals_used(function.__code__)):
            if name in function.__globals__:
                copy.__globals__[name] = self.of(function.__globals__[name])


_forms = _MachineForms()


@contextlib.contextmanager
def _front_end_only() -> Iterator[None]:
    """numba links, optimises and loads every function by itself, with all it calls, again and again: most of its time.
    We do that once, for the whole (``_linked``, ``_optimised``)."""
    from numba.core.codegen import CPUCodeLibrary
    from numba.core.cpu import CPUContext

    def stand_in(self: Any, library: Any, description: Any, environment: Any) -> Any:
        return [].append  # numba wants a built-in of its own for each function, as a key

    def leave_unlinked(self: Any) -> None:
        self._finalized = True

    replaced = [
        (CPUCodeLibrary, "_optimize_functions", lambda self, module: None),
        (CPUCodeLibrary, "finalize", leave_unlinked),
        (CPUContext, "get_executable", stand_in),
    ]
    before = [(cls, name, getattr(cls, name)) for cls, name, _ in replaced]
    for cls, name, value in replaced:
        setattr(cls, name, value)
    try:
        yield
    finally:
        for cls, name, value in before:
            setattr(cls, name, value)


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
    """The module with everything but the entry point private, at LLVM's -O3."""
    import llvmlite.binding as llvm

    for function in module.functions:
        if not function.is_declaration and function.name != symbol:
            function.linkage = "internal"
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = True
    builder = llvm.create_pass_builder(target_machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


def compile_object(function: Callable[..., Any], signature: str) -> ObjectCode:
    """Object code of ``function`` with a C signature such as ``"int32(int64, int64)"``.

    Raises numba's errors: a function outside the subset is our own mistake.
    """
    import warnings

    from numba.core import errors, sigutils
    from numba.core.ccallback import CFunc
    from numba.core.compiler_lock import global_compiler_lock

    with warnings.catch_warnings(), global_compiler_lock, _front_end_only():
        warnings.simplefilter("ignore", errors.NumbaWarning)
        # CFunc.compile() would also load the code into numba's own engine; we only want the object
        entry = CFunc(_forms.entry(function), sigutils.normalize_signature(signature), locals={}, options=OPTIONS)
        compiled = entry._compile_uncached()
        library = compiled.library
        symbol = compiled.fndesc.llvm_cfunc_wrapper_name
        machine = library.codegen._tm
        return ObjectCode(symbol, machine.emit_object(_optimised(_linked(library), symbol, machine)))
