"""Operations with LLVM flags that Python has no syntax for, so that loops vectorise.

Sums and extremes with reassociation: a reduction then processes as many elements at once as a vector register holds.
Reassociated sums round differently; code is compiled for one CPU, so results are always the same there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..memory import set_machine_form, twin


@twin
def multiply_add(a: Any, b: Any, c: Any) -> Any:
    """Compute ``a * b + c``, rounded once if the CPU can, else twice; all three of one dtype, a float."""
    return a * b + c


@twin
def add_in_any_order(total: Any, element: Any) -> Any:
    """Compute ``total + element`` of floats; a loop may compute several partial sums and add them at the end."""
    return total + element


@twin
def multiply_in_any_order(total: Any, element: Any) -> Any:
    """Compute ``total * element`` of floats; a loop may compute several partial products and multiply them at the end."""
    return total * element


@twin
def larger(a: Any, b: Any) -> Any:
    """The larger of two floats, NaN if one is NaN; of two zeros either."""
    return a if a > b or math.isnan(a) else b


@twin
def smaller(a: Any, b: Any) -> Any:
    """The smaller of two floats, NaN if one is NaN; of two zeros either."""
    return a if a < b or math.isnan(a) else b


def _machine(arguments: int, generate: Callable[[Any, list[Any]], Any]) -> Callable[[], Any]:
    """The provider of the machine form of a twin of ``arguments`` floats of one dtype: ``generate(builder, values)``."""

    def provider() -> Any:
        from numba import types

        from .intrinsics import intrinsic

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = [context.cast(builder, a, t, signature.return_type) for a, t in zip(args, signature.args, strict=True)]
            return generate(builder, values)

        def signature_of(*given: Any) -> Any:
            wide = types.float64 if types.float64 in given else types.float32
            assert all(isinstance(t, types.Float) for t in given), given
            return wide(*given)

        if arguments == 2:

            @intrinsic
            def two(typing: Any, a: Any, b: Any) -> Any:
                return signature_of(a, b), emit

            return two

        @intrinsic
        def three(typing: Any, a: Any, b: Any, c: Any) -> Any:
            return signature_of(a, b, c), emit

        return three

    return provider


def _library(name: str, *flags: str) -> Callable[[Any, list[Any]], Any]:
    """A call of an LLVM intrinsic of floats, with fast-math ``flags``."""

    def generate(builder: Any, values: list[Any]) -> Any:
        from llvmlite import ir
        from numba.core import cgutils

        kind = values[0].type
        suffix = "f32" if isinstance(kind, ir.FloatType) else "f64"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind] * len(values)), f"llvm.{name}.{suffix}"
        )
        return builder.call(function, values, fastmath=flags)

    return generate


set_machine_form(multiply_add, _machine(3, _library("fmuladd")))
set_machine_form(add_in_any_order, _machine(2, lambda builder, v: builder.fadd(*v, flags=("reassoc",))))
set_machine_form(multiply_in_any_order, _machine(2, lambda builder, v: builder.fmul(*v, flags=("reassoc",))))
set_machine_form(larger, _machine(2, _library("maximum", "nsz")))
set_machine_form(smaller, _machine(2, _library("minimum", "nsz")))
