"""numba's front end, from bytecode to LLVM IR, without the parts that native functions do not need.

numba optimises, links and loads every function separately, with all its callees, again and again.  It runs passes and analyses
for parts of Python that native functions exclude, and resolves the types of each ``a + b`` and the size of each type anew.  The
generated code is the same without all that (``tests/ops/native/test_front_end.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from numba.core import compiler, ir, transforms, typed_passes, types, untyped_passes
from numba.core.base import BaseContext
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler_machinery import PassManager
from numba.core.cpu import CPUContext
from numba.core.postproc import PostProcessor, VariableLifetime

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


_get_abi_sizeof = BaseContext.get_abi_sizeof
#: Sizes of LLVM types by target and text.  numba prints and parses a module for each question.
_sizes: dict[tuple[str, str], int] = {}


def _cached_size(self: Any, ty: Any) -> int:
    key = str(self.target_data), str(ty)
    if key not in _sizes:
        _sizes[key] = _get_abi_sizeof(self, ty)
    return _sizes[key]


_list_variables = ir.Inst._rec_list_vars
#: Types of the values in an instruction that hold no variable, except for rare ones.
_WITHOUT_VARIABLES = frozenset((ir.Loc, str, int, bool, type(None), type))


def _variables(self: Any, value: Any) -> list[Any]:
    """The variables of an instruction's values: as numba lists them, with fewer calls."""
    if type(value) is dict:
        value = value.values()
    elif type(value) is not tuple and type(value) is not list:
        found: list[Any] = _list_variables(self, value)
        return found
    found = []
    for each in value:
        if type(each) is ir.Var:
            found.append(each)
        elif type(each) not in _WITHOUT_VARIABLES:
            found += self._rec_list_vars(each)
    return found


_process = PostProcessor.run


def _process_without_entries(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Without the variables alive at the entry of each block, which only generators, ``del`` and Python objects need."""
    if emit_dels or self.func_ir.is_generator:
        _process(self, emit_dels, extend_lifetimes)
    else:
        self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
        self.func_ir.variable_lifetime = VariableLifetime(self.func_ir.blocks)
        self.func_ir.generator_info = None


def _unique_builtin(self: Any, library: Any, description: Any, environment: Any) -> Any:
    return [].append  # numba needs a distinct built-in for each function, as a key


def _skip_linking(self: Any) -> None:
    self._finalized = True


_REPLACED: tuple[tuple[type, str, Any], ...] = (
    (CPUCodeLibrary, "_optimize_functions", lambda self, module: None),
    (CPUCodeLibrary, "finalize", _skip_linking),
    (CPUContext, "get_executable", _unique_builtin),
    (types.Function, "get_call_type", _cached_call_type),
    (BaseContext, "get_abi_sizeof", _cached_size),
    (ir.Inst, "_rec_list_vars", _variables),
    (PostProcessor, "run", _process_without_entries),
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
