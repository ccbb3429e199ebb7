"""Plan memory: views (``plan_views``), in-place reuse, arenas, slots, coalesced storages, shrunk upper bounds.

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
Ensures: tensors with overlapping live ranges do not overlap in memory, except a result and the input that its kernel overwrites.
Memory that a function did not allocate, such as the caller's, is not written.  A value that escapes holds its own memory only.
The rows of an upper bound may move to a smaller storage where they outlive it and are its only live content.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.analysis.aliasing import Pair, in_place_pairs
from ...ops.core.effect import Role
from ...ops.core.tensor_types import TensorType
from ...ops.core.type_relation import Need
from ...ops.defs.machine import machine_ops
from ..ir.anf import Names, operands, uses
from ..ir.dead_bindings import DeadBindings
from ..ir.effects import effect_of
from ..ir.expr import Call, Expr, Function, GlobalVar, If, IRModule, TupleGetItem, Var, let_chain, make_lets, replace
from ..ir.lowering_context import LoweringContext
from ..ir.primitive import IN_PLACE, machine_of
from ..ir.primitive_shape import Primitive, primitive
from ..memory.arena import Arena, plan_arenas
from ..memory.coalesce import coalesce_storages
from ..memory.in_place_reuse import Block, InPlaceReuse, plan_in_place_reuse
from ..memory.known_sizes import KnownSizes
from ..memory.liveness import Liveness
from ..memory.machine_calls import storage_call, vector_type
from ..memory.materialise_views import materialise_views
from ..memory.shrink_bounds import shrinkable_trims
from ..memory.slots import share_slots
from ..memory.view_plan import plan_views


def plan_memory(mod: IRModule, context: LoweringContext, blind: bool = False) -> IRModule:
    """``mod`` with fewer storages; ``blind``: no in-place reuse, as if the implementations were unknown."""
    planner = _MemoryPlanner(mod, context, blind)
    planned = {name: f if f.is_primitive else planner.function(f) for name, f in mod.functions.items()}
    return replace(mod, functions={**planned, **planner.in_place_primitives})


class _MemoryPlanner:
    """The pass over one module.  ``in_place_primitives``: the primitives that write in place, by name."""

    def __init__(self, mod: IRModule, context: LoweringContext, blind: bool) -> None:
        self.mod, self.context, self.blind = mod, context, blind
        called = {a.name for f in mod.functions.values() for a in uses(f.body) if isinstance(a, GlobalVar)}
        #: The functions whose arguments the caller holds for the whole call.
        self.entries = {id(f) for name, f in mod.functions.items() if name in context.entries and name not in called}
        self.names = Names(set(mod.functions))
        self.in_place_primitives: dict[str, Function] = {}
        self._named: dict[tuple[str, tuple[Pair, ...]], str] = {}

    def function(self, function: Function) -> Function:
        function = self.with_views(function)
        liveness = Liveness(function, self.read)
        reuse = plan_in_place_reuse(liveness, self.pairs_of)
        arenas = plan_arenas(liveness, reuse.blocks)
        inside = {id(b) for a in arenas for b in a.blocks}
        rest = [b for b in reuse.blocks if id(b) not in inside]
        sizes = KnownSizes(liveness)
        rest = coalesce_storages(liveness, share_slots(liveness, sizes, rest), [a.start for a in arenas])
        return replace(function, body=_StorageRewriter(self, liveness, sizes, reuse, arenas, rest).chain(function.body))

    def with_views(self, function: Function) -> Function:
        """``function`` with views for the tensors that can alias others."""
        liveness = Liveness(function, self.read)
        sizes = KnownSizes(liveness)
        held = {*liveness.constants, *(function.params if id(function) in self.entries else ())}
        plan = plan_views(liveness, sizes, lambda callee: self.primitive(callee).group, held)
        if not plan:
            return function
        rewritten = materialise_views(function, liveness, sizes, plan)
        return replace(rewritten, body=DeadBindings(self._only_computes_sizes).chain(rewritten.body))

    def _only_computes_sizes(self, value: Expr) -> bool:
        """Whether ``value`` only computes sizes, which may be unused after the rewrite."""
        match value:
            case Call(args=(GlobalVar() as callee, *_)) if Role.SHAPE_FUNC in effect_of(value).roles:
                return not self.primitive(callee).shape.program.checks
            case Call():
                return not {Role.SIZED, Role.CONST}.isdisjoint(effect_of(value).roles)
        return isinstance(value, TupleGetItem)

    def read(self, call: Call) -> Sequence[Expr]:
        """The arguments of a call whose elements are read."""
        roles = effect_of(call).roles
        if Role.SIZED in roles:
            return ()
        if Role.SHAPE_FUNC in roles:
            assert isinstance(call.args[0], GlobalVar)
            states = self.primitive(call.args[0]).shape.states
            return [a for a, need in zip(call.args[1:], states, strict=True) if need & Need.DATA]
        return operands(call)

    def primitive(self, callee: GlobalVar) -> Primitive:
        """The called primitive."""
        return primitive(self.mod[callee.name], self.context)

    def pairs_of(self, callee: GlobalVar) -> tuple[Pair, ...]:
        """The in-place pairs that the kernel of a primitive allows."""
        if self.blind:
            return ()
        return in_place_pairs(self.primitive(callee).group, machine_of(self.mod[callee.name], self.context.target))

    def in_place(self, callee: GlobalVar, pairs: tuple[Pair, ...]) -> GlobalVar:
        """The primitive ``callee`` with its results written over its parameters."""
        key = callee.name, pairs
        if key not in self._named:
            function = self.mod[callee.name]
            name = self.names("_".join([callee.name, "over", *(function.params[p].name for p, _ in pairs)]))
            self.in_place_primitives[name] = replace(function, attrs={**function.attrs, IN_PLACE: pairs})
            self._named[key] = name
        return replace(callee, name=self._named[key])


class _StorageRewriter:
    """The rewriter of one function."""

    def __init__(
        self,
        pass_: _MemoryPlanner,
        liveness: Liveness,
        sizes: KnownSizes,
        reuse: InPlaceReuse,
        arenas: list[Arena],
        blocks: list[Block],
    ) -> None:
        self.pass_, self.sizes = pass_, sizes
        self.pairs = {id(launch.call): tuple(sorted(reuse.pairs.get(launch.at, ()))) for launch in liveness.launches}
        names = self.names = Names({v.name for v in liveness.bound})
        #: Per original storage, the planned storage and the offset in it.
        self.place: dict[Var, tuple[Var, int]] = {}
        self.whys = {block.base.var: block.why for block in blocks if block.why}
        self.donors = {block.base.var: block.donor for block in blocks if block.donor is not None}
        for block in blocks:
            self.place |= {m.var: (block.base.var, 0) for m in block.members}
        #: Per planned storage, the block that is larger than the first tensor.
        self.larger = {b.base.var: b for b in blocks if b.base.nbytes is not b.nbytes}
        #: Per binding, the storages of arenas that are allocated before it.
        self.before: dict[Var, list[tuple[Var, Expr]]] = {}
        for arena in arenas:
            self._add(arena, liveness, names)
        self.shrunk = {id(trim) for trim in shrinkable_trims(liveness, {v: place for v, (place, _) in self.place.items()})}

    def _add(self, arena: Arena, liveness: Liveness, names: Names) -> None:
        first = arena.blocks[0].base
        call = storage_call(arena.nbytes, first.device, first.call.span)
        var = Var(names("arena"), ty=call.ty, span=first.var.span)
        depth = len(arena.path)
        anchor = first.var if len(first.path) == depth else liveness.ifs[first.path[depth][0]]
        self.before.setdefault(anchor, []).append((var, call))
        for block, offset in zip(arena.blocks, arena.offsets, strict=True):
            self.place |= {m.var: (var, offset) for m in block.members}

    def chain(self, chain: Expr) -> Expr:
        """The chain with the planned storages."""
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            out += self.before.get(var, ())
            if var not in self.place:
                out.append((var, self._value(value)))
            elif var in self.larger:
                out += self._slot(self.larger[var], self._allocation(var, value))
            elif self.place[var][0] is var:
                out.append((var, self._allocation(var, value)))
        return make_lets(out, result)

    def _allocation(self, var: Var, value: Expr) -> Expr:
        assert isinstance(value, Call)
        if var in self.donors:
            attrs = machine_ops.TakeStorageAttrs(value.attrs.device)
            return Call(machine_ops.TAKE_STORAGE, (self.donors[var],), attrs, span=value.span, ty=value.ty)
        why = self.whys.get(var)
        return replace(value, attrs=replace(value.attrs, why=why)) if why else value

    def _slot(self, block: Block, call: Expr) -> list[tuple[Var, Expr]]:
        """The bindings that allocate a block with the size of its largest tensor; ``call`` allocates its first tensor."""
        assert isinstance(call, Call)
        ty = block.largest.ty
        computed = self.sizes.compute([ty.shape], block.start, block.base.path)
        every = Var(self.names("sizes"), ty=computed.ty)
        item = TupleGetItem(every, 0, ty=vector_type(len(ty.shape)))
        shape = Var(self.names("size"), ty=item.ty)
        attrs = replace(call.attrs, dtype=ty.dtype)
        call = replace(call, args=(shape,), attrs=attrs, ty=TensorType((block.nbytes,), "uint8"))
        return [(every, computed), (shape, item), (block.base.var, call)]

    def _value(self, value: Expr) -> Expr:
        match value:
            case If():
                return replace(value, true_branch=self.chain(value.true_branch), false_branch=self.chain(value.false_branch))
            case Call(args=(Var() as storage, *rest)) if effect_of(value).makes_tensor:
                place, offset = self.place[storage]
                return replace(value, args=(place, *rest), attrs=replace(value.attrs, offset=value.attrs.offset + offset))
            case Call() if id(value) in self.shrunk:
                return replace(value, attrs=replace(value.attrs, release=True))
            case Call(args=(GlobalVar() as callee, *rest)) if self.pairs.get(id(value)):
                return replace(value, args=(self.pass_.in_place(callee, self.pairs[id(value)]), *rest))
        return value
