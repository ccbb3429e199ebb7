"""Machine code of a function given as text."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from relayvm.ops.native import memory
from relayvm.ops.native.generated_source import define
from relayvm.ops.native.halves import scalar_types
from relayvm.ops.native.jit.native_compiler import compile_object, kernel_levels
from relayvm.ops.native.linking import linker

NAMES: dict[str, Any] = {**memory.ARRAYS, **{n: v for n, v in vars(memory).items() if hasattr(v, "__native__")}, **scalar_types()}


def python_function(text: str, **names: Any) -> Callable[..., Any]:
    """The function ``f`` of the text, over the names of kernels."""
    return memory.native(define("test", text, {**NAMES, **names})["f"])  # type: ignore[no-any-return]


def compiled(function: Callable[..., Any]) -> Callable[..., int]:
    """A function of words and with a word as its result, as machine code; optimized in tests that are marked so."""
    n = function.__code__.co_argcount
    code = compile_object(function, f"int64({', '.join(['int64'] * n)})", kernel_levels())
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * n)(linker.load(code))
