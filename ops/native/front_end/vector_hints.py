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
def short_range(*bounds: int) -> range:
    """As ``range``, for the loop of a reduction over few elements.

    The loop has one vector of partial results, and the lanes behind the last element are masked: these results are combined
    once, not once after groups of vectors, once after single vectors and once after single elements.
    """
    return range(*bounds)


@twin
def block_range(*bounds: int) -> range:
    """As ``range``, for a loop over BLOCK elements: whole vectors that fill registers, and no loop for a rest.

    LLVM prefers vectors of half the length on processors with AVX-512.
    """
    return range(*bounds)


@twin
def rest_range(*bounds: int) -> range:
    """As ``range``, for a loop over fewer than BLOCK elements, without a sum: masked vectors that fill registers."""
    return range(*bounds)


@twin
def sum_range(*bounds: int) -> range:
    """As ``range``, for the loop of a sum: four vectors of partial sums, whatever else the loop computes.

    So a sum does not depend on the loop's other statements.  Where the summed element calls an interleaved function, ``range``
    gives two vectors.
    """
    return range(*bounds)


def interleaved(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a native function whose operations wait for each other: a loop that calls it takes two vectors at a time.

    LLVM takes one vector at a time of a loop with many operations.  A CPU then begins too few of the next vector's operations.
    Two vectors at a time take three quarters of the time.
    """
    function.__interleaved__ = True  # type: ignore[attr-defined]
    return function


@twin
def multiply_add(a: Any, b: Any, c: Any) -> Any:
    """Compute ``a * b + c``, rounded once if the CPU can, else twice; all three of one dtype, a float."""
    return a * b + c


@twin
def add_in_any_order(total: Any, element: Any) -> Any:
    """Compute ``total + element`` of floats; a loop may compute several partial sums and add them at the end."""
    return total + element


@twin
def add_product_in_any_order(total: Any, a: Any, b: Any) -> Any:
    """As ``add_in_any_order`` with the element ``a * b``, which is not rounded if the CPU can."""
    return total + a * b


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


def _of_floats(generate: Callable[[Any, list[Any]], Any]) -> Callable[[], Any]:
    """The provider of the machine form of a twin of floats, computed in the widest of their types."""

    def form(emitter: Any, *arguments: Any) -> Any:
        from .machine_types import FLOAT32, FLOAT64, Value
        from .scalars import cast

        wide = FLOAT64 if any(a.type == FLOAT64 for a in arguments) else FLOAT32
        assert all(a.type in (FLOAT32, FLOAT64) for a in arguments), arguments
        return Value(wide, (generate(emitter.builder, [cast(emitter.builder, a, wide).scalar for a in arguments]),))

    return lambda: form


def _library(name: str, *flags: str) -> Callable[[Any, list[Any]], Any]:
    """A call of an LLVM intrinsic of floats, with fast-math ``flags``."""

    def generate(builder: Any, values: list[Any]) -> Any:
        from llvmlite import ir

        kind = values[0].type
        signature = ir.FunctionType(kind, [kind] * len(values))
        return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [kind], signature), values, fastmath=flags)

    return generate


#: The properties of a loop, for LLVM: name, bits and value of each; no bits: the name alone.
LoopHints = tuple[tuple[str, int, int], ...]
#: The property of a loop that is compiled once, and not again for each value of its counter.
NOT_UNROLLED = ("llvm.loop.unroll.disable", 0, 0)
#: Elements of a loop over ``block_range``: two vectors of AVX2, one of AVX-512.
BLOCK = 16
_ALONE, _MASKED = ("llvm.loop.interleave.count", 32, 1), ("llvm.loop.vectorize.predicate.enable", 1, 1)


def _filled(*hints: tuple[str, int, int]) -> LoopHints:
    """The properties of a loop of vectors of float32 that fill registers."""
    from ..jit.products.register_tile import vector_bytes

    return ("llvm.loop.vectorize.width", 32, vector_bytes() // 4), *hints


def _block() -> LoopHints:
    from ..jit.products.register_tile import vector_bytes

    return _filled(("llvm.loop.interleave.count", 32, min(BLOCK * 4 // vector_bytes(), 2)), NOT_UNROLLED)


#: The properties of a loop over the result of a function.
RANGES: dict[Callable[..., range], Callable[[], LoopHints]] = {
    short_range: lambda: (_ALONE, _MASKED),
    block_range: _block,
    rest_range: lambda: _filled(_ALONE, _MASKED),
    sum_range: lambda: (("llvm.loop.interleave.count", 32, 4),),
}
#: The properties of a loop that calls an interleaved function.  More vectors at a time do not fit 16 registers.
INTERLEAVED_LOOP: LoopHints = (("llvm.loop.interleave.count", 32, 2),)

set_machine_form(multiply_add, _of_floats(_library("fmuladd")))
set_machine_form(add_in_any_order, _of_floats(lambda builder, v: builder.fadd(*v, flags=("reassoc",))))
set_machine_form(add_product_in_any_order, _of_floats(lambda builder, v: _library("fmuladd", "reassoc")(builder, [*v[1:], v[0]])))
set_machine_form(multiply_in_any_order, _of_floats(lambda builder, v: builder.fmul(*v, flags=("reassoc",))))
set_machine_form(larger, _of_floats(_library("maximum", "nsz")))
set_machine_form(smaller, _of_floats(_library("minimum", "nsz")))
