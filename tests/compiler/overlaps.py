"""What a plan must never do, found by following the bytes: an oracle that knows nothing of how plans are made.

It walks a lowered function of known shapes along every way that its branches allow.  Each byte of each storage remembers which
write filled it; whoever reads a value must find the bytes of that value's own write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from relayvm.compiler.anf import operands
from relayvm.compiler.ir import Call, Expr, Function, GlobalVar, If, IRModule, Let, Tuple, TupleGetItem, Var
from relayvm.compiler.primitive_shape import primitive
from relayvm.ops import machine
from relayvm.ops.op import Op
from relayvm.ops.ty import ITEMSIZE, TensorType
from relayvm.shape_funcs.dims import const


@dataclass(frozen=True)
class Region:
    """``nbytes`` bytes of a storage from ``offset`` on, filled by write number ``write``."""

    storage: Var
    offset: int
    nbytes: int
    write: int


@dataclass
class State:
    """What the variables hold, and which write filled each byte of each storage."""

    regions: dict[Expr, tuple[Region, ...]] = field(default_factory=dict)
    filled: dict[Var, list[int]] = field(default_factory=dict)
    writes: int = 0

    def copy(self) -> State:
        return State(dict(self.regions), {s: list(b) for s, b in self.filled.items()}, self.writes)


def dead_reads(mod: IRModule) -> list[str]:
    """Every read, on some way through some function, of bytes that are not those of the value read."""
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
        if any(w != r.write for w in state.filled[r.storage][r.offset : r.offset + r.nbytes]):
            yield f"{what} reads %{atom.name} after its bytes are another's"  # type: ignore[attr-defined]


def _binding(mod: IRModule, state: State, var: Var, value: Expr) -> Iterator[str]:
    op = value.op if isinstance(value, Call) else None
    if op is machine.ALLOC_STORAGE:
        state.filled[var] = [0] * value.attrs.nbytes  # type: ignore[attr-defined]
    elif op is machine.ALLOC_TENSOR:
        assert isinstance(value, Call) and isinstance(value.args[0], Var)
        nbytes = math.prod(value.attrs.shape) * ITEMSIZE[value.attrs.dtype]
        assert value.attrs.offset + nbytes <= len(state.filled[value.args[0]])
        state.regions[var] = (Region(value.args[0], value.attrs.offset, nbytes, -1),)
    elif op is machine.INVOKE_OP:
        assert isinstance(value, Call)
        yield from _launch(mod, state, value)
    elif op is machine.SHAPE_OF or (op is machine.SHAPE_FUNC):
        pass
    else:
        for atom in operands(value):
            yield from _wrong(state, atom, f"%{var.name}")
        if isinstance(value, (Tuple, TupleGetItem)) or not isinstance(op, Op) or op in _HOLDING:
            state.regions[var] = tuple(r for atom in operands(value) for r in state.regions.get(atom, ()))


_HOLDING = (machine.RESHAPE_TENSOR, machine.TRIM, machine.COPY_BEGIN, machine.ALLOC_CLOSURE, machine.ASSERT_SHAPE)


def _launch(mod: IRModule, state: State, call: Call) -> Iterator[str]:
    callee, *args = call.args
    assert isinstance(callee, GlobalVar)
    n = len(args) - call.attrs.n_outputs
    ins, outs = args[:n], args[n:]
    group = primitive(mod[callee.name]).group
    for number, (value, read) in enumerate(zip(ins, primitive(mod[callee.name]).reads, strict=True)):
        if read:
            yield from _wrong(state, value, f"@{callee.name}")
        for position, out in enumerate(outs):
            meet = [a for a in state.regions.get(value, ()) for b in state.regions[out] if _meet(a, b)]
            if read and meet and (number, position) not in group.in_place:
                yield f"@{callee.name} writes %{out.name} over %{value.name}, which it was not told"  # type: ignore[attr-defined]
    for k, out in enumerate(outs):
        if any(_meet(a, b) for other in outs[:k] for a in state.regions[other] for b in state.regions[out]):
            yield f"@{callee.name} writes two results to one place"
    for out in outs:
        assert isinstance(out.ty, TensorType)
        state.writes += 1
        (r,) = state.regions[out]
        assert r.nbytes == math.prod(const(d) or 0 for d in out.ty.shape) * ITEMSIZE[out.ty.dtype]
        state.filled[r.storage][r.offset : r.offset + r.nbytes] = [state.writes] * r.nbytes
        state.regions[out] = (Region(r.storage, r.offset, r.nbytes, state.writes),)


def _meet(a: Region, b: Region) -> bool:
    return a.storage is b.storage and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
