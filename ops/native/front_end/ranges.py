"""LLVM code of the bounds of loops over ranges."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llvmlite import ir

from ...core.tensor_types import EXACT
from ..vector_registers import vector_bytes
from . import vector_hints
from .llvm.instructions import annotate_accesses
from .values import scalars
from .values.machine_types import BOOL, INT64, UINT64, WORD, Array, Integer, Value, decayed
from .values.scalars import Outside, cast, known_integer


def describe_loop(module: ir.Module, back: Any, hints: vector_hints.LoopHints, blocks: Sequence[Any]) -> None:
    """Let the branch ``back`` to the head of a loop of ``blocks`` have the hints."""
    node = _loop_metadata(module, hints)
    back.set_metadata("llvm.loop", node)
    if vector_hints.APART in hints:
        annotate_accesses(blocks, "llvm.mem.parallel_loop_access", node)


def _loop_metadata(module: ir.Module, hints: vector_hints.LoopHints) -> Any:
    """The node that identifies a loop, which refers to itself first, with the hints."""
    properties = [module.add_metadata([name, *([ir.IntType(bits)(value)] if bits else [])]) for name, bits, value in hints]
    # equal nodes are shared, but no two loops may have the same
    node = module.add_metadata([f"loop {len(module.metadata)}", *properties])
    node.operands = (node, *properties)
    return node


def bounds_of(b: Any, bounds: list[Value]) -> tuple[Integer, Any, Any, Value]:
    """The type, the ends and the step of a range."""
    bounds = [decayed(bound) for bound in bounds]
    if not 1 <= len(bounds) <= 3 or not all(isinstance(v.type, Integer) or v.type == BOOL for v in bounds):
        raise Outside("a range of other than integers")
    one = scalars.constant(INT64, 1)
    start, stop, step = [scalars.constant(INT64, 0), *bounds, one] if len(bounds) == 1 else [*bounds, one][:3]
    unsigned = all(isinstance(v.type, Integer) and not v.type.signed for v in bounds)
    if known_integer(step) == 0:
        raise Outside("a range with the step 0")
    kind = UINT64 if unsigned else INT64
    return kind, cast(b, start, kind).scalar, cast(b, stop, kind).scalar, cast(b, step, kind)


def steps(b: Any, start: Any, stop: Any, step: Any) -> Any:
    """The number of steps of a range, at most that; none for the step 0."""
    zero = WORD(0)
    up, none = b.icmp_signed(">", step, zero), b.icmp_signed("==", step, zero)
    rounded = b.add(b.sub(b.add(b.sub(stop, start), step), WORD(1)), b.select(up, zero, WORD(2)))
    return b.select(none, zero, b.sdiv(rounded, b.select(none, WORD(1), step)))


# ---- loops that round --------------------------------------------------------------------------------------------------------
# LLVM prefers vectors of half a register of AVX-512.  A rounding to bfloat16 takes more instructions than all the rest of most
# loops, and vectors that fill registers take fewer.  They leave more elements behind the last one, which get masked vectors.

#: Bytes of the registers for which the loops have two parts.
_WIDE = 64
_HALF = "bfloat16"


def rounds(loop: ast.For, types: Mapping[str, Any]) -> bool:
    """Whether a loop only computes elements, each by itself, and stores them as bfloat16, where registers are wide."""
    return vector_bytes() == _WIDE and _stores_halves(loop, types)


def _stores_halves(loop: ast.For, types: Mapping[str, Any]) -> bool:
    """Whether a loop only computes elements, each by itself, and stores some of them as bfloat16."""
    assigned, read = set[str](), set[str]()
    is_rounded = False
    for line in loop.body:
        if not isinstance(line, ast.Assign) or len(line.targets) != 1:
            return False
        (target,) = line.targets
        read |= {n.id for n in ast.walk(line) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)} - assigned
        if isinstance(target, ast.Name):
            assigned.add(target.id)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            is_rounded = is_rounded or getattr(types.get(target.value.id), "dtype", "") == _HALF
        else:
            return False
    return is_rounded and not assigned & read


def parts_of_vectors(b: Any, bounds: list[Value]) -> Iterator[tuple[list[Value], vector_hints.LoopHints]]:
    """The bounds and the hints of two loops over a range whose step is 1: whole vectors, and masked ones; of others, as it is."""
    ends = _whole_and_rest(b, bounds)
    if ends is None:
        yield bounds, ()
        return
    yield ends[:2], vector_hints.whole_vectors()
    yield ends[1:], vector_hints.masked_vectors()


def _whole_and_rest(b: Any, bounds: list[Value]) -> list[Value] | None:
    """The start of a range whose step is 1, the start of its rest behind whole blocks, and its end; None for other ranges."""
    kind, start, stop, step = bounds_of(b, bounds)
    if known_integer(step) != 1 or not kind.signed:
        return None
    count = b.sub(stop, start)
    whole = b.and_(b.select(b.icmp_signed(">", count, WORD(0)), count, WORD(0)), WORD(-vector_hints.BLOCK))
    return [Value(kind, (end,)) for end in (start, b.add(start, whole), stop)]


# ---- loops over words --------------------------------------------------------------------------------------------------------
# Two neighbouring bfloat16s are a word of 32 bits: of a vector of words, a shift is one half of the elements as float32, and a
# blend with zero the other half.  Rounded results become words by a shift and a blend.  To widen and to narrow neighbouring
# elements takes several moves between the lanes of a register of AVX2.  LLVM finds the words in a loop over pairs of elements.


def is_of_words(loop: ast.For, types: Mapping[str, Any], hints: vector_hints.LoopHints) -> bool:
    """Whether a loop with these hints fills registers of AVX2, reads no elements but bfloat16, and rounds what it stores.

    Halves that are chosen, not rounded, stay halves in registers.
    """
    if not vector_hints.has_words(hints) or not _stores_halves(loop, types):
        return False
    arrays = [n for n in ast.walk(loop) if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)]
    kinds = [(types.get(n.value.id), isinstance(n.ctx, ast.Store)) for n in arrays if isinstance(n.value, ast.Name)]
    return all(
        isinstance(kind, Array) and kind.dtype == _HALF and not (is_store and kind.stored == EXACT) for kind, is_store in kinds
    )


def parts_of_words(
    b: Any, bounds: list[Value], hints: vector_hints.LoopHints
) -> Iterator[tuple[list[Value], vector_hints.LoopHints, int]]:
    """Of two loops over a range whose step is 1, words and then a rest: the bounds, the hints, the elements of an iteration."""
    ends = _whole_and_rest(b, bounds)
    if ends is None:
        yield bounds, hints, 1
        return
    yield [*ends[:2], scalars.constant(INT64, 2)], vector_hints.whole_vectors(), 2
    yield ends[1:], vector_hints.rest_of_words(), 1
