"""LLVM code of the bounds of loops over ranges."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llvmlite import ir

from ..vector_registers import vector_bytes
from . import vector_hints
from .llvm.instructions import annotate_accesses
from .values import scalars
from .values.machine_types import BOOL, INT64, UINT64, WORD, Integer, Value, decayed
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


def rounds(loop: ast.For, types: Mapping[str, Any]) -> bool:
    """Whether a loop only computes elements, each by itself, and stores them as bfloat16, where registers are wide."""
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
            is_rounded = is_rounded or getattr(types.get(target.value.id), "dtype", "") == "bfloat16"
        else:
            return False
    return is_rounded and not assigned & read and vector_bytes() == _WIDE


def parts_of_vectors(b: Any, bounds: list[Value]) -> Iterator[tuple[list[Value], vector_hints.LoopHints]]:
    """The bounds and the hints of two loops over a range whose step is 1: whole vectors, and masked ones; of others, as it is."""
    kind, start, stop, step = bounds_of(b, bounds)
    if known_integer(step) != 1 or not kind.signed:
        yield bounds, ()
        return
    count = b.sub(stop, start)
    whole = b.and_(b.select(b.icmp_signed(">", count, WORD(0)), count, WORD(0)), WORD(-vector_hints.BLOCK))
    first, middle, last = (Value(kind, (end,)) for end in (start, b.add(start, whole), stop))
    yield [first, middle], vector_hints.whole_vectors()
    yield [middle, last], vector_hints.masked_vectors()
