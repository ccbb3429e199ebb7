"""Operations with LLVM flags that Python has no syntax for, so that loops vectorise.

Sums and extremes with reassociation: a reduction then processes as many elements at once as a vector register holds.
Reassociated sums round differently; code is compiled for one CPU, so results are always the same there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..memory import instruction, twin
from ..vector_registers import vector_bytes


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

    No iteration reads an element that another one writes (``APART``).  LLVM prefers vectors of half the length on processors with
    AVX-512.
    """
    return range(*bounds)


@twin
def rest_range(*bounds: int) -> range:
    """As ``range``, for a loop without a sum, such as one behind whole blocks: masked vectors that fill registers.

    No iteration reads an element that another one writes (``APART``).
    """
    return range(*bounds)


@twin
def sum_range(*bounds: int) -> range:
    """As ``range``, for the loop of a sum: four vectors of partial sums, whatever else the loop computes.

    So a sum does not depend on the loop's other statements.  Where the summed element calls an interleaved function, ``range``
    gives two vectors.
    """
    return range(*bounds)


@twin
def filled_range(*bounds: int) -> range:
    """As ``range``, for a loop that stores halves: vectors of float32 that fill registers, as LLVM converts them best.

    With registers of AVX2 two vectors at a time, whose halves fill one: they are packed and stored together.
    """
    return range(*bounds)


@twin
def filled_short_range(*bounds: int) -> range:
    """As ``short_range``, of halves, also for a loop that stores them: vectors of float32 that fill registers."""
    return range(*bounds)


@twin
def filled_sum_range(*bounds: int) -> range:
    """As ``sum_range``, of halves: as many partial sums, in vectors of float32 that fill registers."""
    return range(*bounds)


def interleaved(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a native function whose operations wait for each other: a loop that calls it takes two vectors at a time.

    LLVM takes one vector at a time of a loop with many operations.  A CPU then begins too few of the next vector's operations.
    Two vectors at a time take three quarters of the time.
    """
    function.__interleaved__ = True  # type: ignore[attr-defined]
    return function


@instruction(lambda e, a, b, c: e.floats("fmuladd", a, b, c))
def multiply_add(a: Any, b: Any, c: Any) -> Any:
    """Compute ``a * b + c``, rounded once if the CPU can, else twice; all three of one dtype, a float, or vectors of such."""
    return a * b + c


@instruction(lambda e, x: e.floats("canonicalize", x))
def settled(x: Any) -> Any:
    """The same float, which LLVM does not convert together with what it was converted from."""
    return x


@instruction(lambda e, x: e.floats("roundeven", x))
def nearest_whole(x: Any) -> Any:
    """The nearest whole number of a float, halves to the even one; for a CPU with an instruction for it."""
    return np.rint(x)


@instruction(lambda e, x: e.floats("trunc", x))
def whole_part(x: Any) -> Any:
    """A float without its fraction; for a CPU with an instruction for it."""
    return np.trunc(x)


@instruction(lambda e, x: e.floats("floor", x))
def whole_below(x: Any) -> Any:
    """The largest whole number that is at most a float; for a CPU with an instruction for it."""
    return np.floor(x)


@instruction(lambda e, x: e.floats("ceil", x))
def whole_above(x: Any) -> Any:
    """The smallest whole number that is at least a float; for a CPU with an instruction for it."""
    return np.ceil(x)


@instruction(lambda e, total, element: e.floats("fadd", total, element, flags=("reassoc",)))
def add_in_any_order(total: Any, element: Any) -> Any:
    """Compute ``total + element`` of floats; a loop may compute several partial sums and add them at the end."""
    return total + element


@instruction(lambda e, total, a, b: e.floats("fmuladd", a, b, total, flags=("reassoc",)))
def add_product_in_any_order(total: Any, a: Any, b: Any) -> Any:
    """As ``add_in_any_order`` with the element ``a * b``, which is not rounded if the CPU can."""
    return total + a * b


@instruction(lambda e, total, element: e.floats("fmul", total, element, flags=("reassoc",)))
def multiply_in_any_order(total: Any, element: Any) -> Any:
    """Compute ``total * element`` of floats; a loop may compute several partial products and multiply them at the end."""
    return total * element


@instruction(lambda e, a, b: e.floats("maximum", a, b, flags=("nsz",)))
def larger(a: Any, b: Any) -> Any:
    """The larger of two floats, NaN if one is NaN; of two zeros either."""
    return a if a > b or math.isnan(a) else b


@instruction(lambda e, a, b: e.floats("minimum", a, b, flags=("nsz",)))
def smaller(a: Any, b: Any) -> Any:
    """The smaller of two floats, NaN if one is NaN; of two zeros either."""
    return a if a < b or math.isnan(a) else b


#: The properties of a loop, for LLVM: name, bits and value of each; no bits: the name alone.
LoopHints = tuple[tuple[str, int, int], ...]
#: The property of a loop that is compiled once, and not again for each value of its counter.
NOT_UNROLLED = ("llvm.loop.unroll.disable", 0, 0)
#: The property of a loop of which no iteration reads what another one writes: LLVM cannot know so where an index is data.  It is
#: ours; LLVM reads it at the loop's loads and stores.
APART = ("relayvm.loop.apart", 0, 0)
#: The property of a loop of vectors of float32 that fill registers.
FILLED = "llvm.loop.vectorize.width"
#: Elements of a loop over ``block_range``: two vectors of AVX2, one of AVX-512.
BLOCK = 16
#: Bytes of a register of AVX2.
_OF_AVX2 = 32
_ALONE, _MASKED = ("llvm.loop.interleave.count", 32, 1), ("llvm.loop.vectorize.predicate.enable", 1, 1)


def _stored_together() -> int:
    """The float32 that become halves at a time in a loop over ``filled_range``."""
    return vector_bytes() // (2 if vector_bytes() == _OF_AVX2 else 4)


def has_words(hints: LoopHints) -> bool:
    """Whether a loop with these hints, over many elements, fills registers of AVX2."""
    return vector_bytes() == _OF_AVX2 and hints == RANGES[filled_range]()


def _filled(*hints: tuple[str, int, int]) -> LoopHints:
    """The properties of a loop of vectors of float32 that fill registers, and whose iterations are apart."""
    return (FILLED, 32, vector_bytes() // 4), APART, *hints


def _block() -> LoopHints:
    return _filled(("llvm.loop.interleave.count", 32, min(BLOCK * 4 // vector_bytes(), 2)), NOT_UNROLLED)


def whole_vectors() -> LoopHints:
    """The properties of a loop over a multiple of BLOCK elements: single vectors that fill registers."""
    return (FILLED, 32, vector_bytes() // 4), _ALONE


def masked_vectors() -> LoopHints:
    """The properties of a loop over fewer than BLOCK elements: masked vectors that fill registers."""
    return (*whole_vectors(), _MASKED)


def rest_of_words() -> LoopHints:
    """The properties of a loop over fewer than BLOCK elements, behind a loop over words: at most one vector."""
    return (*whole_vectors(), NOT_UNROLLED)


#: The properties of a loop over the result of a function.
RANGES: dict[Callable[..., range], Callable[[], LoopHints]] = {
    short_range: lambda: (_ALONE, _MASKED),
    block_range: _block,
    filled_range: lambda: ((FILLED, 32, _stored_together()),),
    filled_sum_range: lambda: ((FILLED, 32, vector_bytes() // 4), ("llvm.loop.interleave.count", 32, 2)),
    filled_short_range: lambda: ((FILLED, 32, vector_bytes() // 4), _ALONE, _MASKED),
    rest_range: lambda: _filled(_ALONE, _MASKED),
    sum_range: lambda: (("llvm.loop.interleave.count", 32, 4),),
}
#: The property of a loop that calls an interleaved function.  More vectors at a time do not fit 16 registers.
_INTERLEAVED = ("llvm.loop.interleave.count", 32, 2)


def interleaved_loop(hints: LoopHints) -> LoopHints:
    """The properties of a loop that calls an interleaved function, if it has these of its own."""
    return hints if any(name == _INTERLEAVED[0] for name, *_ in hints) else (*hints, _INTERLEAVED)
