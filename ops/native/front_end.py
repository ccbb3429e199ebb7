"""numba's front end, from bytecode to LLVM's representation, without what native functions have no use for.

numba optimises, links and loads every function by itself, with all it calls, again and again, runs passes over it for parts of
Python that we leave out, and finds out for each ``a + b`` anew what an addition of two integers is.  The code that comes out is
the same without all that (``tests/ops/test_front_end.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from numba.core import compiler, typed_passes, types, untyped_passes
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler_machinery import PassManager
from numba.core.cpu import CPUContext

#: numba's passes for functions without closures, ``with``, ``raise``, lists of literals, and values that are counted.
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
    """numba's pipeline for native functions."""

    def define_pipelines(self) -> list[Any]:
        passes = PassManager("native")
        for each in _PASSES:
            passes.add_pass(each, each.name())
        passes.finalize()
        self.state.type_annotation = None  # for people who read numba's dumps; it has a pass of its own
        return [passes]


_numbas_answer = types.Function.get_call_type
#: What a built-in function gives for arguments of some types: never another answer later.
_answers: dict[tuple[Any, tuple[Any, ...]], Any] = {}


def _remembered(self: Any, context: Any, args: Any, kws: Any) -> Any:
    key = self, tuple(args)
    if kws or key not in _answers:
        answer = _numbas_answer(self, context, args, kws)
        if kws or answer is None:
            return answer
        _answers[key] = answer
    return _answers[key]


def _no_function(self: Any, library: Any, description: Any, environment: Any) -> Any:
    return [].append  # numba wants a built-in of its own for each function, as a key


def _left_unlinked(self: Any) -> None:
    self._finalized = True


_REPLACED: tuple[tuple[type, str, Any], ...] = (
    (CPUCodeLibrary, "_optimize_functions", lambda self, module: None),
    (CPUCodeLibrary, "finalize", _left_unlinked),
    (CPUContext, "get_executable", _no_function),
    (types.Function, "get_call_type", _remembered),
)


@contextlib.contextmanager
def front_end_only() -> Iterator[None]:
    """While this is open numba only translates: what it translates is never linked or run by numba itself."""
    before = [(cls, name, getattr(cls, name)) for cls, name, _ in _REPLACED]
    for cls, name, value in _REPLACED:
        setattr(cls, name, value)
    try:
        yield
    finally:
        for cls, name, value in before:
            setattr(cls, name, value)
