"""A module as items and values (see ``crossings``): what may run on either side, and which tensors would cross.

========================  ============================================================================================
an operator's call        on either side if it is small (inputs and results of at most ``SMALL_BYTES``) and the host needs
                          what becomes of it; else on the target
the value of an ``if``    on either side if it is small
a parameter               of a function that is called: as the value of an ``if``, one side for all calls; of one that only
                          the user calls: it comes from the host, where it stays if that is better
a function's result       as its parameters; that of ``main`` is on the target
``shape_of``              on the host
a constant                everywhere
``if``, shape functions   read on the host
tuples, closures          hold what is on the target, where functions and ``if`` give them
========================  ============================================================================================
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...ops.group import Group
from ...ops.kernels.reads import reads
from ...ops.machine import ALLOC_CLOSURE, ASSERT_SAME_SIZE, ASSERT_SHAPE, DEVICE_COPY, ON_DEVICE
from ...ops.op import Op, OpPattern
from ...ops.relate import Need, build_group, data_dependent, shape_program
from ...ops.transform import ShapeOfAttrs
from ...ops.ty import ITEMSIZE, TensorType, TupleType, Type
from ...shape_funcs.dims import MIN, Dim, const
from ...vm.executable import DEVICES
from ..anf import values
from ..call_graph import mentioned, recursion_groups
from ..ir import Call, Constant, Expr, Function, GlobalVar, If, IRModule, Tuple, TupleGetItem, Var, let_chain
from ..passes.fuse_ops import alone
from .crossings import ON_HOST, ON_TARGET, Crossings, Region, Value

#: Only what is at most so large is worth the host's time.
SMALL_BYTES = 1024
#: What a size counts as of which nothing is known.
LARGE = 1 << 20
HOST = DEVICES[0]

#: A tensor's value; of a tuple those of its fields; None for what is everywhere, or is no tensor.
Slot = Value | tuple[Any, ...] | None


@dataclass(frozen=True)
class _Signature:
    """What a function takes and gives: a slot per parameter, and the item that its result is bound to."""

    params: tuple[Slot, ...]
    result: int


@dataclass
class _Place:
    """Where in a function something stands: ``result`` is the item of its result, ``group`` the functions it recurs with."""

    region: Region
    result: int
    group: frozenset[str] = frozenset()


class Dataflow:
    """The items and values of ``mod``.

    ``entries`` may be called by the user; ``free=False``: only what the program itself says is on the host.
    """

    def __init__(self, mod: IRModule, entries: Sequence[str], dependence: str = "input", *, free: bool = True) -> None:
        self.mod, self.dependence, self.free = mod, dependence, free
        self.crossings = Crossings()
        self.items: dict[Var, int] = {}
        self.marked: set[Var] = set()
        self.slots: dict[Expr, Slot] = {}
        self.functions = {name: f for name, f in mod.functions.items() if not f.is_primitive}
        self.called, self.closed = _callees(self.functions)
        self.called |= set(self.functions) - set(entries)
        self.signatures = {name: self._signature(name, f) for name, f in self.functions.items()}
        self._rank: dict[str, int] = {}
        self._entered: dict[Region, Var] = {}
        self._names: dict[Value, tuple[Var, Region]] = {}
        for group in reversed(recursion_groups(mod)):
            self._functions(frozenset(group) & set(self.functions))
        self._bind_what_the_host_never_needs()
        self._host = self.crossings.solve()
        #: Per ``if`` the values that are to be copied before it, each with whether to the host: it needs them inside, and so does
        #: what follows it.
        self.before: dict[Var, list[tuple[Var, bool]]] = {}
        if free:
            for value, (var, region) in self._names.items():
                self._copy_before_branches(value, var, region)

    # ---- the answer --------------------------------------------------------------------------------------------

    def is_moved(self, var: Var) -> bool:
        """Is this binding, of which the program does not say it, to be on the host?"""
        return var in self.items and var not in self.marked and self._host[self.items[var]]

    @property
    def copied_before(self) -> set[Var]:
        """The values in ``before``."""
        return {var for found in self.before.values() for var, _ in found}

    def params_on_host(self, name: str) -> tuple[bool, ...]:
        """Per parameter of a function: is it taken on the host?"""
        from_user = name not in self.called and name not in self.closed
        return tuple(self._is_on_host(p, from_user) for p in self.signatures[name].params)

    def result_on_host(self, name: str) -> bool:
        """Is the result of a function given on the host?"""
        return self._host[self.signatures[name].result]

    def _is_on_host(self, slot: Slot, from_user: bool) -> bool:
        if not self.free or not isinstance(slot, Value):
            return False
        if from_user and not slot.uses:
            # nothing but its shape is used, whatever its size
            return True
        if slot.producer == ON_HOST:
            return any(self._host[item] for _, item in slot.uses)
        return self._host[slot.producer]

    # ---- functions ---------------------------------------------------------------------------------------------

    def _signature(self, name: str, function: Function) -> _Signature:
        bound = name in self.closed
        params = tuple(self._param(p.ty, name in self.called, bound) for p in function.params)
        result = ON_TARGET if bound or name == "main" or name not in self.called else self._given(function.body.ty)
        return _Signature(params, result)

    def _param(self, ty: Type | None, called: bool, bound: bool) -> Slot:
        if not isinstance(ty, TensorType) or bound or not self.free:
            return self._slot(ty, ON_TARGET)
        return self._slot(ty, self._item(ty) if called else ON_HOST if _is_small(ty) else ON_TARGET)

    def _functions(self, group: frozenset[str]) -> None:
        """Walk functions that call each other; who calls them has been walked."""
        recursive = len(group) > 1 or any(name in mentioned(self.functions[name].body) for name in group)
        rank = max((self._rank.get(name, 0) for name in group), default=0) + recursive
        for name in group:
            function, signature = self.functions[name], self.signatures[name]
            self.slots.update(zip(function.params, signature.params, strict=True))
            place = _Place(Region(rank), signature.result, group if recursive else frozenset())
            for p in function.params:
                self._name(p, place.region)
            self._chain(function.body, place, tail=True)

    def _copy_before_branches(self, value: Value, var: Var, defined: Region) -> None:
        """Note where a copy must be made so that a use in a branch and one after it share it."""
        from_host = self._host[value.producer]
        away = [r for r, item in value.uses if self._host[item] != from_host]
        served: set[Region] = set()
        for k, region in enumerate(away):
            inside = around(region)
            if served.intersection(inside):
                continue
            later = [r for r in away[k + 1 :] if r in inside and defined in around(r)]
            outermost = min(later, key=lambda r: len(around(r)), default=region)
            if outermost is not region:
                branch = inside[inside.index(outermost) - 1]
                self.before.setdefault(self._entered[branch], []).append((var, not from_host))
            served.add(outermost)

    def _bind_what_the_host_never_needs(self) -> None:
        """To the target: to bring work back only for its results' being smaller than its inputs would make the host wait."""
        made: dict[int, list[int]] = {}
        for value in self.crossings.values:
            for _, item in value.uses:
                made.setdefault(item, []).append(value.producer)
        for a, b in self.crossings.ties:
            made.setdefault(a, []).append(b)
            made.setdefault(b, []).append(a)
        needed, pending = {ON_HOST}, [ON_HOST]
        while pending:
            for item in made.get(pending.pop(), ()):
                if item not in needed and item != ON_TARGET:
                    needed.add(item)
                    pending.append(item)
        for item in range(self.crossings.n_items):
            if item not in needed:
                self.crossings.tie(item, ON_TARGET)

    # ---- chains ------------------------------------------------------------------------------------------------

    def _chain(self, chain: Expr, place: _Place, *, tail: bool) -> None:
        """Walk a chain whose result is bound to ``place.result``; ``tail``: it is the function's."""
        bindings, result = let_chain(chain)
        marks = dict(self._marks(bindings))
        last = _last(bindings, result) if tail else None
        for var, value in bindings:
            self.slots[var] = self._value(var, value, place, marks.get(var), last is var)
            self._name(var, place.region)
        self._use(result, place.region, place.result)

    def _marks(self, bindings: list[tuple[Var, Expr]]) -> Iterator[tuple[Var, int]]:
        """The bindings of which the program says where they are, with the item of that side."""
        known = dict(bindings)
        for _, value in reversed(bindings):
            if isinstance(value, Call) and value.op is ON_DEVICE and value.args[0] in known:
                var = value.args[0]
                assert isinstance(var, Var)
                if is_placed(known[var]):
                    self.marked.add(var)
                    yield var, _side(value.attrs.device)

    def _value(self, var: Var, value: Expr, place: _Place, mark: int | None, tail: bool) -> Slot:
        match value:
            case Var() | Constant():
                return self._atom(value)
            case Tuple():
                return tuple(map(self._atom, value.fields))
            case TupleGetItem():
                whole = self._atom(value.tuple_value)
                assert isinstance(whole, tuple), value
                field: Slot = whole[value.index]
                return field
            case If():
                return self._if(var, value, place, mark, tail)
            case Call(attrs=ShapeOfAttrs()):
                return self._slot(value.ty, ON_HOST)
            case Call(op=Op() as op) if op.pattern is OpPattern.MACHINE:
                return self._machine_call(value, place, tied=value.args[0] in self.marked)
            case Call(op=Op()):
                return self._operator(var, value, place, mark)
            case Call(op=GlobalVar(name=name)) if name in self.functions:
                return self._call(value, name, place, tail)
        assert isinstance(value, Call), value
        # a closure, or a primitive that the program wrote itself
        for a in value.args:
            self._use(a, place.region, ON_TARGET)
        return self._slot(value.ty, ON_TARGET)

    def _if(self, var: Var, value: If, place: _Place, mark: int | None, tail: bool) -> Slot:
        self._use(value.cond, place.region, ON_HOST)
        if mark is None:
            # in a tail position it is the function's result, and must stay a tail position
            mark = place.result if tail else self._given(value.ty)
        self.items[var] = mark
        for branch in (value.true_branch, value.false_branch):
            again = any(name in place.group for name in mentioned(branch)) if place.group else False
            region = Region(place.region.rank - (not again), place.region)
            self._entered[region] = var
            self._chain(branch, _Place(region, mark, place.group), tail=tail)
        return self._slot(value.ty, mark)

    def _machine_call(self, value: Call, place: _Place, *, tied: bool) -> Slot:
        args = value.args
        if value.op in (ASSERT_SHAPE, ASSERT_SAME_SIZE):
            return self._atom(args[0])
        if value.op is ON_DEVICE:
            if tied:
                return self._atom(args[0])
            self._use(args[0], place.region, _side(value.attrs.device))
            return self._slot(value.ty, _side(value.attrs.device))
        if value.op is DEVICE_COPY:
            self._use(args[0], place.region, _side(value.attrs.src))
            return self._slot(value.ty, _side(value.attrs.dst))
        assert value.op is ALLOC_CLOSURE, value
        for a in args[1:]:
            self._use(a, place.region, ON_TARGET)
        return None

    def _call(self, value: Call, name: str, place: _Place, tail: bool) -> Slot:
        signature = self.signatures[name]
        for a, param in zip(value.args, signature.params, strict=True):
            self._use(a, place.region, param.producer if isinstance(param, Value) else ON_TARGET)
        if name not in place.group:
            self._rank[name] = max(self._rank.get(name, place.region.rank), place.region.rank)
        if tail:
            self.crossings.tie(signature.result, place.result)
        return self._slot(value.ty, signature.result)

    def _operator(self, var: Var, call: Call, place: _Place, mark: int | None) -> Slot:
        op, region = call.op, place.region
        assert isinstance(op, Op)
        args = [self._fields(a) for a in call.args]
        small = not op.stateful and all(_is_small(a.ty) for fields in args for a in fields) and _is_small(call.ty)
        item = mark if mark is not None else self._item(call.ty) if small else ON_TARGET
        self.items[var] = item
        for a in self._read(var, call, args):
            self._use(a, region, item)
        if any(data_dependent(op, self.dependence)) or op.shape_func.upper_bound:
            self._shape_function(var, call, args, place, item)
        return self._slot(call.ty, item)

    def _read(self, var: Var, call: Call, args: list[tuple[Expr, ...]]) -> tuple[Expr, ...]:
        """The tensors whose values the operator's kernel reads; a view has none, but is where its first input is."""
        assert isinstance(call.op, Op)
        if call.op.pattern is OpPattern.RESHAPE:
            return args[0]
        group, params = alone(var, call, args)
        return tuple(a for a, read in zip(params, _reads(group), strict=True) if read)

    def _shape_function(self, var: Var, call: Call, args: list[tuple[Expr, ...]], place: _Place, item: int) -> None:
        """What the shape function of a call reads on the host, and the counts of its kernel."""
        group, params = alone(var, call, args)
        shape = shape_program(group, self.dependence)
        counts = {index for _, index in shape.counts}
        static = all(t.is_static for t in _tensors(call.ty))
        if counts or shape.program.checks or not static:
            for a, need in zip(params, shape.states, strict=True):
                if need & Need.DATA:
                    self._use(a, place.region, ON_HOST)
        if counts:
            self.crossings.value(item, ITEMSIZE["int64"] * (1 + max(counts))).use(place.region, ON_HOST)

    def _name(self, var: Var, region: Region) -> None:
        slot = self.slots[var]
        if isinstance(slot, Value):
            self._names.setdefault(slot, (var, region))

    # ---- slots -------------------------------------------------------------------------------------------------

    def _item(self, ty: Type | None) -> int:
        """An item of its own for what gives a ``ty``, if that may be on either side."""
        return self.crossings.item() if self.free and _is_small(ty) else ON_TARGET

    def _given(self, ty: Type | None) -> int:
        """An item of its own for what a function or an ``if`` gives: a tuple, whoever gives it, is on the target."""
        return self._item(ty) if isinstance(ty, TensorType) else ON_TARGET

    def _slot(self, ty: Type | None, producer: int) -> Slot:
        if isinstance(ty, TupleType):
            return tuple(self._slot(f, producer) for f in ty.fields)
        return self.crossings.value(producer, _nbytes(ty)) if isinstance(ty, TensorType) else None

    def _atom(self, atom: Expr) -> Slot:
        return self.slots.get(atom)

    def _fields(self, arg: Expr) -> tuple[Expr, ...]:
        """The tensors of an operator's argument: itself, or the fields of a tuple (as variables that stand for them)."""
        slot = self._atom(arg)
        if not isinstance(arg.ty, TupleType):
            return (arg,)
        assert isinstance(slot, tuple), arg
        fields = []
        for k, (ty, s) in enumerate(zip(arg.ty.fields, slot, strict=True)):
            fields.append(Var(f"{k}", ty=ty))
            self.slots[fields[-1]] = s
        return tuple(fields)

    def _use(self, atom: Expr, region: Region, item: int) -> None:
        """``item`` uses a value; tuples are on the target."""
        slot = self._atom(atom)
        if isinstance(slot, Value):
            slot.use(region, item)
        pending = list(slot) if isinstance(slot, tuple) else []
        while pending:
            inner = pending.pop()
            if isinstance(inner, Value):
                inner.use(region, ON_TARGET)
            elif isinstance(inner, tuple):
                pending += inner


@functools.lru_cache(maxsize=1024)
def _reads(group: Group) -> tuple[bool, ...]:
    """``reads`` of a group whose outputs are still to be derived."""
    return reads(build_group(group.params, group.literals, group.nodes, group.results))


def around(region: Region) -> list[Region]:
    """The region and those around it, the innermost first."""
    out = [region]
    while out[-1].outer is not None:
        out.append(out[-1].outer)
    return out


def is_placed(value: Expr) -> bool:
    """Is it computed on a device, so that a program can say on which: an operator's call, or an ``if``?"""
    if isinstance(value, Call) and isinstance(value.op, Op):
        return value.op.pattern is not OpPattern.MACHINE
    return isinstance(value, If)


def _side(device: str) -> int:
    return ON_HOST if device == HOST else ON_TARGET


def _callees(functions: dict[str, Function]) -> tuple[set[str], set[str]]:
    """The functions that are called by name, and those that closures are made of."""
    called: set[str] = set()
    closed: set[str] = set()
    for function in functions.values():
        for value in values(function.body):
            if isinstance(value, Call) and isinstance(value.op, GlobalVar):
                called.add(value.op.name)
            elif isinstance(value, Call) and value.op is ALLOC_CLOSURE:
                assert isinstance(value.args[0], GlobalVar)
                closed.add(value.args[0].name)
    return called, closed


def _last(bindings: list[tuple[Var, Expr]], result: Expr) -> Expr | None:
    """The binding whose value is the chain's, if nothing is computed after it."""
    for var, value in reversed(bindings):
        if var is not result:
            return None
        if isinstance(value, Call) and value.op is ON_DEVICE:
            result = value.args[0]
        elif isinstance(value, Var):
            result = value
        else:
            return var
    return None


# ---- sizes -----------------------------------------------------------------------------------------------------------


def _tensors(ty: Type | None) -> tuple[TensorType, ...]:
    if isinstance(ty, TupleType):
        return tuple(t for f in ty.fields for t in _tensors(f))
    return (ty,) if isinstance(ty, TensorType) else ()


def _bound(d: Dim) -> int | None:
    """The most that a size can be, where that is known."""
    if d.op == MIN:
        return min((b for b in map(_bound, d.args) if b is not None), default=None)
    return const(d)


def _is_small(ty: Type | None) -> bool:
    total = 0
    if not isinstance(ty, (TensorType, TupleType)):
        return False
    for t in _tensors(ty):
        n = ITEMSIZE[t.dtype]
        for d in t.shape:
            bound = _bound(d)
            if bound is None:
                return False
            n *= bound
        total += n
    return total <= SMALL_BYTES


def _nbytes(ty: TensorType) -> int:
    n = ITEMSIZE[ty.dtype]
    for d in ty.shape:
        bound = _bound(d)
        n *= LARGE if bound is None else bound
    return n
