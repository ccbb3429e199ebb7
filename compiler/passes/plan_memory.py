"""Decide which storages are one: parts of others (``lying_within``), results written over inputs, storages used again, arenas.

::

    let %a_storage = memory.alloc_storage_reg(%s, dtype="float32", device="cpu");
    let %a = memory.alloc_tensor_reg(%a_storage, %s, dtype="float32");
    let %_ = vm.invoke_op(@exp, %x, %a);
    let %b_storage = memory.alloc_storage_reg(%s, dtype="float32", device="cpu");
    let %b = memory.alloc_tensor_reg(%b_storage, %s, dtype="float32");
    let %_1 = vm.invoke_op(@sin, %a, %b);

becomes, where ``%a`` is not used again::

    let %a_storage = memory.alloc_storage_reg(%s, dtype="float32", device="cpu");
    let %a = memory.alloc_tensor_reg(%a_storage, %s, dtype="float32");
    let %_ = vm.invoke_op(@exp, %x, %a);
    let %b = memory.alloc_tensor_reg(%a_storage, %s, dtype="float32");
    let %_1 = vm.invoke_op(@sin_over_p0, %a, %b);

Requires: the output of ``manifest_alloc``, with every primitive's implementation chosen.
Ensures: no two tensors that are needed at the same time overlap, but a result and an input that its kernel writes it over; what
is not allocated in a function, the caller's memory among it, is never written; what leaves a function holds its own memory only;
the rows of an upper bound, where its memory is theirs alone and they live on, may move out of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...ops import machine
from ...ops.implementation import HOST
from ...ops.in_place import Pair, in_place_pairs
from ...ops.relate import Need
from ...ops.ty import TensorType
from ..anf import Names, operands, uses
from ..ir import Call, Expr, Function, GlobalVar, If, IRModule, TupleGetItem, Var, let_chain, make_lets, replace
from ..memory.arena import Arena, arenas
from ..memory.known_sizes import KnownSizes
from ..memory.lying_within import lying_within
from ..memory.releasing_bounds import released
from ..memory.sharing_storage import share_storages
from ..memory.storage_roots import MAKES_TENSOR, StorageRoots
from ..memory.taking_place import Block, Places, take_places
from ..memory.tensors_within import make_within
from ..primitive import IN_PLACE, machine_of
from ..primitive_shape import Primitive, primitive
from ..sweep import Sweep


def plan_memory(
    mod: IRModule,
    target: str = HOST,
    data_dependence: str = "input",
    blind: bool = False,
    entries: Collection[str] = (),
) -> IRModule:
    """``mod`` with fewer storages, for ``target``; ``data_dependence`` as in ``manifest_alloc``.

    ``blind``: as if nothing were known of the implementations, so that no result can be written over an input.  ``entries``: the
    functions that a user may call, who then holds the arguments.
    """
    plan = _PlanMemory(mod, target, data_dependence, blind, entries)
    planned = {name: f if f.is_primitive else plan.function(f) for name, f in mod.functions.items()}
    return replace(mod, functions={**planned, **plan.over})


class _PlanMemory:
    """The pass over one module.  ``over``: the primitives that write in place, by name."""

    def __init__(self, mod: IRModule, target: str, dependence: str, blind: bool, entries: Collection[str]) -> None:
        self.mod, self.target, self.dependence, self.blind = mod, target, dependence, blind
        called = {a.name for f in mod.functions.values() for a in uses(f.body) if isinstance(a, GlobalVar)}
        #: Whose arguments nobody gives up while they run.
        self.entries = {id(f) for name, f in mod.functions.items() if name in entries and name not in called}
        self.names = Names(set(mod.functions))
        self.over: dict[str, Function] = {}
        self._named: dict[tuple[str, tuple[Pair, ...]], str] = {}

    def function(self, function: Function) -> Function:
        function = self.within(function)
        roots = StorageRoots(function, self.read)
        places = take_places(roots, self.pairs_of)
        found = arenas(roots, places.blocks)
        inside = {id(b) for a in found for b in a.blocks}
        rest = [b for b in places.blocks if id(b) not in inside]
        rest = share_storages(roots, rest, [a.start for a in found])
        return replace(function, body=_Rewriting(self, roots, places, found, rest).chain(function.body))

    def within(self, function: Function) -> Function:
        """``function`` with the tensors that can lie in others as parts of these."""
        roots = StorageRoots(function, self.read)
        sizes = KnownSizes(roots)
        held = {*roots.constants, *(function.params if id(function) in self.entries else ())}
        lying = lying_within(roots, sizes, lambda callee: self.primitive(callee).group, held)
        if not lying:
            return function
        made = make_within(function, roots, sizes, lying)
        return replace(made, body=Sweep(self._is_of_sizes).chain(made.body))

    def _is_of_sizes(self, value: Expr) -> bool:
        """Does it only compute sizes, which nobody may need any more?"""
        match value:
            case Call(op=machine.SHAPE_FUNC, args=(GlobalVar() as callee, *_)):
                return not self.primitive(callee).shape.program.checks
            case Call(op=op):
                return op in (machine.SHAPE_OF, machine.SIZES, machine.LOAD_CONST)
        return isinstance(value, TupleGetItem)

    def read(self, call: Call) -> Sequence[Expr]:
        """The arguments of a call whose elements count."""
        if call.op in (machine.SHAPE_OF, machine.SIZES):
            return ()
        if call.op is machine.SHAPE_FUNC:
            assert isinstance(call.args[0], GlobalVar)
            states = self.primitive(call.args[0]).shape.states
            return [a for a, need in zip(call.args[1:], states, strict=True) if need & Need.DATA]
        return operands(call)

    def primitive(self, callee: GlobalVar) -> Primitive:
        """The primitive that is called."""
        return primitive(self.mod[callee.name], self.dependence, self.target)

    def pairs_of(self, callee: GlobalVar) -> tuple[Pair, ...]:
        """What the kernel of a primitive allows."""
        if self.blind:
            return ()
        return in_place_pairs(self.primitive(callee).group, machine_of(self.mod[callee.name], self.target))

    def in_place(self, callee: GlobalVar, pairs: tuple[Pair, ...]) -> GlobalVar:
        """The primitive ``callee`` told to write its results over its parameters."""
        key = callee.name, pairs
        if key not in self._named:
            function = self.mod[callee.name]
            name = self.names("_".join([callee.name, "over", *(function.params[p].name for p, _ in pairs)]))
            self.over[name] = replace(function, attrs={**function.attrs, IN_PLACE: pairs})
            self._named[key] = name
        return replace(callee, name=self._named[key])


class _Rewriting:
    """One function as planned."""

    def __init__(self, pass_: _PlanMemory, roots: StorageRoots, places: Places, arenas: list[Arena], blocks: list[Block]) -> None:
        self.pass_ = pass_
        self.pairs = {id(launch.call): tuple(sorted(places.pairs.get(launch.at, ()))) for launch in roots.launches}
        names = Names({v.name for v in roots.bound})
        #: Per storage that there was, the one that it has become, and the offset in it.
        self.place: dict[Var, tuple[Var, int]] = {}
        self.whys = {block.base.var: block.why for block in blocks if block.why}
        self.over = {block.base.var: block.over for block in blocks if block.over}
        for block in blocks:
            self.place |= {m.var: (block.base.var, 0) for m in block.members}
        #: Per binding, the storages of arenas that go before it.
        self.before: dict[Var, list[tuple[Var, Expr]]] = {}
        for arena in arenas:
            self._add(arena, roots, names)
        self.released = {id(trim) for trim in released(roots, {v: place for v, (place, _) in self.place.items()})}

    def _add(self, arena: Arena, roots: StorageRoots, names: Names) -> None:
        first = arena.blocks[0].base
        attrs = machine.AllocStorageAttrs(arena.nbytes, first.device)
        ty = TensorType.of((arena.nbytes,), "uint8")
        var = Var(names("arena"), ty=ty, span=first.var.span)
        depth = len(arena.path)
        anchor = first.var if len(first.path) == depth else roots.ifs[first.path[depth][0]]
        self.before.setdefault(anchor, []).append((var, Call(machine.ALLOC_STORAGE, (), attrs, ty=ty, span=first.call.span)))
        for block, offset in zip(arena.blocks, arena.offsets, strict=True):
            self.place |= {m.var: (var, offset) for m in block.members}

    def chain(self, chain: Expr) -> Expr:
        """The chain with the storages that are left."""
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            out += self.before.get(var, ())
            if var not in self.place:
                out.append((var, self._value(value)))
            elif self.place[var][0] is var:
                out.append((var, self._allocation(var, value)))
        return make_lets(out, result)

    def _allocation(self, var: Var, value: Expr) -> Expr:
        assert isinstance(value, Call)
        if var in self.over:
            attrs = machine.TakeStorageAttrs(value.attrs.device)
            return Call(machine.TAKE_STORAGE, (self.over[var],), attrs, span=value.span, ty=value.ty)
        why = self.whys.get(var)
        return replace(value, attrs=replace(value.attrs, why=why)) if why else value

    def _value(self, value: Expr) -> Expr:
        match value:
            case If():
                return replace(value, true_branch=self.chain(value.true_branch), false_branch=self.chain(value.false_branch))
            case Call(op=op, args=(Var() as storage, *rest)) if op in MAKES_TENSOR:
                place, offset = self.place[storage]
                return replace(value, args=(place, *rest), attrs=replace(value.attrs, offset=value.attrs.offset + offset))
            case Call(attrs=machine.TrimAttrs() as attrs) if id(value) in self.released:
                return replace(value, attrs=replace(attrs, release=True))
            case Call(args=(GlobalVar() as callee, *rest)) if self.pairs.get(id(value)):
                return replace(value, args=(self.pass_.in_place(callee, self.pairs[id(value)]), *rest))
        return value
