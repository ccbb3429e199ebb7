"""numba's front end, from bytecode to LLVM IR, without the parts that native functions do not need.

numba optimises, links and loads every function separately, with all its callees, again and again.  It runs passes for parts of
Python that native functions exclude, and resolves the types of each ``a + b`` anew.  The generated code is the same without all
that (``tests/ops/native/test_front_end.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from numba.core import compiler, typed_passes, types, untyped_passes
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler_machinery import PassManager
from numba.core.cpu import CPUContext

#: numba's passes for functions without closures, ``with``, ``raise``, lists of literals, and reference-counted values.
_PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


class NativeCompiler(compiler.CompilerBase):  # type: ignore[misc]  # numba has no types
    """The pass pipeline of native functions."""

    def define_pipelines(self) -> list[Any]:
        passes = PassManager("native")
        for each in _PASSES:
            passes.add_pass(each, each.name())
        passes.finalize()
        self.state.type_annotation = None  # only for numba's dumps; its pass is left out
        return [passes]


_get_call_type = types.Function.get_call_type
#: Result types of built-in functions by argument types, which never change.
_call_types: dict[tuple[Any, tuple[Any, ...]], Any] = {}


def _cached_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
    key = self, tuple(args)
    if kws or key not in _call_types:
        call_type = _get_call_type(self, context, args, kws)
        if kws or call_type is None:
            return call_type
        _call_types[key] = call_type
    return _call_types[key]


def _unique_builtin(self: Any, library: Any, description: Any, environment: Any) -> Any:
    return [].append  # numba needs a distinct built-in for each function, as a key


def _skip_linking(self: Any) -> None:
    self._finalized = True


_REPLACED: tuple[tuple[type, str, Any], ...] = (
    (CPUCodeLibrary, "_optimize_functions", lambda self, module: None),
    (CPUCodeLibrary, "finalize", _skip_linking),
    (CPUContext, "get_executable", _unique_builtin),
    (types.Function, "get_call_type", _cached_call_type),
)


@contextlib.contextmanager
def front_end_only() -> Iterator[None]:
    """Restrict numba to its front end inside the block: numba itself never links or runs the code."""
    before = [(cls, name, getattr(cls, name)) for cls, name, _ in _REPLACED]
    for cls, name, value in _REPLACED:
        setattr(cls, name, value)
    try:
        yield
    finally:
        for cls, name, value in before:
            setattr(cls, name, value)
