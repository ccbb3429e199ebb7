"""Overlaps in memory plans, found by tracing bytes: an oracle independent of the planner.

It walks a lowered function of known shapes along every path.  Each byte of each storage records the write that filled it; a read
of a value must find the bytes of that value's write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from relayvm.compiler.ir.anf import operands
from relayvm.compiler.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    IRModule,
    Let,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.compiler.ir.lowering_context import LoweringContext
from relayvm.compiler.ir.primitive_shape import primitive
from relayvm.ops.core.op import Op
from relayvm.ops.core.tensor_types import ITEMSIZE, TensorType
from relayvm.ops.defs.machine import machine_ops
from relayvm.shape_funcs.symbolic.dim import const

#: The write of bytes that nobody has written yet.
NONE = -1


@dataclass(frozen=True)
class Region:
    """Bytes of a storage from ``offset`` on; ``writes``: the write that filled each byte."""

    storage: Var
    offset: int
    writes: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return len(self.writes)


@dataclass
class State:
    """The values of variables, the write of each byte of each storage, the constants in vectors, and the source and offset of
    each view."""

    regions: dict[Expr, tuple[Region, ...]] = field(default_factory=dict)
    vectors: dict[Expr, tuple[int, ...]] = field(default_factory=dict)
    within: dict[Expr, tuple[Expr, int]] = field(default_factory=dict)
    filled: dict[Var, list[int]] = field(default_factory=dict)
    writes: int = 0

    def copy(self) -> State:
        return State(
            dict(self.regions), dict(self.vectors), dict(self.within), {s: list(b) for s, b in self.filled.items()}, self.writes
        )


def dead_reads(mod: IRModule) -> list[str]:
    """Every read, on some path through some function, of bytes from another write."""
    return [f"@{name}: {what}" for name, f in mod.functions.items() if not f.is_primitive for what in _function(mod, f)]


def _function(mod: IRModule, function: Function) -> Iterator[str]:
    pending: list[tuple[Expr, State, tuple]] = [(function.body, State(), ())]
    while pending:
        chain, state, after = pending.pop()
        while isinstance(chain, Let):
            if isinstance(chain.value, If):
                rest = (chain.var, chain.body, after)
                pending.append((chain.value.false_branch, state.copy(), rest))
                chain, after = chain.value.true_branch, rest
                continue
            yield from _binding(mod, state, chain.var, chain.value)
            chain = chain.body
        yield from _wrong(state, chain, "the result of a chain")
        if after:
            var, body, outer = after
            state.regions[var] = state.regions.get(chain, ())
            pending.append((body, state, outer))


def _wrong(state: State, atom: Expr, what: str) -> Iterator[str]:
    for r in state.regions.get(atom, ()):
        if NONE in r.writes or state.filled[r.storage][r.offset : r.offset + r.nbytes] != list(r.writes):
            yield f"{what} reads %{atom.name} after its bytes are another's"  # type: ignore[attr-defined]


def _binding(mod: IRModule, state: State, var: Var, value: Expr) -> Iterator[str]:
    op = value.op if isinstance(value, Call) else None
    if op is machine_ops.ALLOC_STORAGE:
        state.filled[var] = [0] * value.attrs.nbytes  # type: ignore[attr-defined]
    elif op is machine_ops.ALLOC_TENSOR:
        assert isinstance(value, Call) and isinstance(value.args[0], Var)
        nbytes = math.prod(value.attrs.shape) * ITEMSIZE[value.attrs.dtype]
        assert value.attrs.offset + nbytes <= len(state.filled[value.args[0]])
        state.regions[var] = (Region(value.args[0], value.attrs.offset, (NONE,) * nbytes),)
    elif op is machine_ops.INVOKE_OP:
        assert isinstance(value, Call)
        yield from _launch(mod, state, value)
    elif op is machine_ops.LOAD_CONST:
        assert isinstance(value, Call) and isinstance(value.args[0], Constant)
        state.vectors[var] = tuple(value.args[0].data.reshape(-1).tolist())
    elif op is machine_ops.SLICE_TENSOR:
        assert isinstance(value, Call)
        yield from _slice(state, var, value)
    elif op in (machine_ops.SHAPE_OF, machine_ops.SHAPE_FUNC, machine_ops.SIZES):
        pass
    else:
        for atom in operands(value):
            yield from _wrong(state, atom, f"%{var.name}")
        if isinstance(value, (Tuple, TupleGetItem)) or not isinstance(op, Op) or op in _HOLDING:
            state.regions[var] = tuple(r for atom in operands(value) for r in state.regions.get(atom, ()))


def _slice(state: State, var: Var, call: Call) -> Iterator[str]:
    """A view: its source's write, or a write that is still to come."""
    data, shape, offset = call.args
    for whole in state.regions.get(data, ()):
        assert isinstance(data.ty, TensorType)
        nbytes = math.prod(state.vectors[shape]) * ITEMSIZE[data.ty.dtype]
        first = state.vectors[offset][0] * ITEMSIZE[data.ty.dtype] if nbytes else 0
        if first + nbytes > whole.nbytes:
            yield f"%{var.name} is not inside of %{data.name}"  # type: ignore[attr-defined]
        state.regions[var] = (Region(whole.storage, whole.offset + first, whole.writes[first : first + nbytes]),)
        state.within[var] = data, first


_HOLDING = (
    machine_ops.RESHAPE_TENSOR,
    machine_ops.TRIM,
    machine_ops.COPY_BEGIN,
    machine_ops.ALLOC_CLOSURE,
    machine_ops.ASSERT_SHAPE,
)


def _launch(mod: IRModule, state: State, call: Call) -> Iterator[str]:
    callee, *args = call.args
    assert isinstance(callee, GlobalVar)
    n = len(args) - call.attrs.n_outputs
    ins, outs = args[:n], args[n:]
    group = primitive(mod[callee.name], LoweringContext()).group
    for number, (value, read) in enumerate(zip(ins, primitive(mod[callee.name], LoweringContext()).reads, strict=True)):
        if read:
            yield from _wrong(state, value, f"@{callee.name}")
        for position, out in enumerate(outs):
            meet = [(a, b) for a in state.regions.get(value, ()) for b in state.regions[out] if _meet(a, b)]
            if read and meet and (number, position) not in group.in_place:
                yield f"@{callee.name} writes %{out.name} over %{value.name}, which it was not told"  # type: ignore[attr-defined]
            if read and any(a.offset != b.offset for a, b in meet):
                yield f"@{callee.name} writes %{out.name} over %{value.name}, not from its first byte on"  # type: ignore[attr-defined]
    for k, out in enumerate(outs):
        if any(_meet(a, b) for other in outs[:k] for a in state.regions[other] for b in state.regions[out]):
            yield f"@{callee.name} writes two results to one place"
    for out in outs:
        assert isinstance(out.ty, TensorType)
        state.writes += 1
        (r,) = state.regions[out]
        assert r.nbytes == math.prod(const(d) or 0 for d in out.ty.shape) * ITEMSIZE[out.ty.dtype]
        state.filled[r.storage][r.offset : r.offset + r.nbytes] = [state.writes] * r.nbytes
        state.regions[out] = (Region(r.storage, r.offset, (state.writes,) * r.nbytes),)
        _tell_wholes(state, out, (state.writes,) * r.nbytes)


def _tell_wholes(state: State, part: Expr, writes: tuple[int, ...]) -> None:
    """Propagate the writes of views to their sources."""
    at = 0
    while part in state.within:
        part, first = state.within[part]
        at += first
        (r,) = state.regions[part]
        state.regions[part] = (Region(r.storage, r.offset, (*r.writes[:at], *writes, *r.writes[at + len(writes) :])),)


def _meet(a: Region, b: Region) -> bool:
    return a.storage is b.storage and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
