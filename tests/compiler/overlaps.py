"""What a plan must never do, found by following the bytes: an oracle that knows nothing of how plans are made.

It walks a lowered function of known shapes along every way that its branches allow.  Each byte of each storage remembers which
write filled it; whoever reads a value must find the bytes of that value's own write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from relayvm.compiler.anf import operands
from relayvm.compiler.ir import Call, Constant, Expr, Function, GlobalVar, If, IRModule, Let, Tuple, TupleGetItem, Var
from relayvm.compiler.primitive_shape import primitive
from relayvm.ops import machine
from relayvm.ops.op import Op
from relayvm.ops.ty import ITEMSIZE, TensorType
from relayvm.shape_funcs.dims import const

#: The write of bytes that nobody has written yet.
NONE = -1


@dataclass(frozen=True)
class Region:
    """Bytes of a storage from ``offset`` on; ``writes``: by which write each one was filled."""

    storage: Var
    offset: int
    writes: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return len(self.writes)


@dataclass
class State:
    """What the variables hold, which write filled each byte of each storage, the numbers in vectors that are constants, and of
    what a value is a part, from which byte on."""

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
        if NONE in r.writes or state.filled[r.storage][r.offset : r.offset + r.nbytes] != list(r.writes):
            yield f"{what} reads %{atom.name} after its bytes are another's"  # type: ignore[attr-defined]


def _binding(mod: IRModule, state: State, var: Var, value: Expr) -> Iterator[str]:
    op = value.op if isinstance(value, Call) else None
    if op is machine.ALLOC_STORAGE:
        state.filled[var] = [0] * value.attrs.nbytes  # type: ignore[attr-defined]
    elif op is machine.ALLOC_TENSOR:
        assert isinstance(value, Call) and isinstance(value.args[0], Var)
        nbytes = math.prod(value.attrs.shape) * ITEMSIZE[value.attrs.dtype]
        assert value.attrs.offset + nbytes <= len(state.filled[value.args[0]])
        state.regions[var] = (Region(value.args[0], value.attrs.offset, (NONE,) * nbytes),)
    elif op is machine.INVOKE_OP:
        assert isinstance(value, Call)
        yield from _launch(mod, state, value)
    elif op is machine.LOAD_CONST:
        assert isinstance(value, Call) and isinstance(value.args[0], Constant)
        state.vectors[var] = tuple(value.args[0].data.reshape(-1).tolist())
    elif op is machine.SLICE_TENSOR:
        assert isinstance(value, Call)
        yield from _slice(state, var, value)
    elif op in (machine.SHAPE_OF, machine.SHAPE_FUNC, machine.SIZES):
        pass
    else:
        for atom in operands(value):
            yield from _wrong(state, atom, f"%{var.name}")
        if isinstance(value, (Tuple, TupleGetItem)) or not isinstance(op, Op) or op in _HOLDING:
            state.regions[var] = tuple(r for atom in operands(value) for r in state.regions.get(atom, ()))


def _slice(state: State, var: Var, call: Call) -> Iterator[str]:
    """A part of a value: that of the value's write, or where a write is still to come."""
    data, shape, offset = call.args
    for whole in state.regions.get(data, ()):
        assert isinstance(data.ty, TensorType)
        nbytes = math.prod(state.vectors[shape]) * ITEMSIZE[data.ty.dtype]
        first = state.vectors[offset][0] * ITEMSIZE[data.ty.dtype] if nbytes else 0
        if first + nbytes > whole.nbytes:
            yield f"%{var.name} is not inside of %{data.name}"  # type: ignore[attr-defined]
        state.regions[var] = (Region(whole.storage, whole.offset + first, whole.writes[first : first + nbytes]),)
        state.within[var] = data, first


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
    """What a part is part of has been written there."""
    at = 0
    while part in state.within:
        part, first = state.within[part]
        at += first
        (r,) = state.regions[part]
        state.regions[part] = (Region(r.storage, r.offset, (*r.writes[:at], *writes, *r.writes[at + len(writes) :])),)


def _meet(a: Region, b: Region) -> bool:
    return a.storage is b.storage and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
