"""The placement graph of a module: items that may run on either device, and values that may be transferred (see ``cut``).

========================  ============================================================================================
an operator's call        free if it is small (inputs and results of at most ``SMALL_BYTES``) and the host depends on its
                          result; else on the target
the value of an ``if``    free if it is small
a parameter               of a called function: as the value of an ``if``, one device for all calls; of an entry function: it
                          comes from the host, and stays there if the cut says so
a function's result       as its parameters; the result of ``main`` is on the target
``shape_of``              on the host
a constant                everywhere
``if``, shape functions   read on the host
tuples, closures          their fields are on the target if they are results of functions and ``if``
a field of a record       free if it is small in every record of the type (see ``record_fields``)
========================  ============================================================================================
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...ops.analysis.uses import reads
from ...ops.core.adt_types import own_tensors
from ...ops.core.group import Group
from ...ops.core.implementation import HOST
from ...ops.core.op import Op, OpPattern
from ...ops.core.tensor_types import ITEMSIZE, TensorType, TupleType, Type
from ...ops.core.type_relation import Need, build_group, host_reads, shape_program
from ...ops.defs.machine.adt_ops import NO_MATCH, RECORD_OPERATORS
from ...ops.defs.machine.machine_ops import ALLOC_CLOSURE, ASSERT_SAME_SIZE, ASSERT_SHAPE, DEVICE_COPY, ON_DEVICE, STOP_FUSION
from ...ops.defs.movement.transform import ShapeOfAttrs
from ..ir.anf import values
from ..ir.call_graph import mentioned, recursion_groups
from ..ir.expr import Call, Constant, Expr, Function, GlobalVar, If, IRModule, Tuple, TupleGetItem, Var, let_chain
from ..ir.lowering_context import LoweringContext
from ..passes.operator_clusters import single_operator_group
from .cut import ON_HOST, ON_TARGET, CutProblem, Region, Value
from .record_fields import RecordFields, fields_key, stored
from .tensor_bytes import is_small, nbytes_of

#: The value of a tensor; for a tuple, the slots of its fields; None for a constant or a non-tensor.
Slot = Value | tuple[Any, ...] | None


@frozen
class _Signature:
    """The slots of a function's parameters, and the item of its result."""

    params: tuple[Slot, ...]
    result: int


@dataclass
class _Position:
    """A position in a function: ``result`` is the item of the chain's result, ``group`` the functions of the same recursion."""

    region: Region
    result: int
    group: frozenset[str] = frozenset()


class PlacementGraph:
    """The items and values of ``mod``.

    ``free=False``: only marks of the program put work on the host.
    """

    def __init__(self, mod: IRModule, context: LoweringContext, *, free: bool = True) -> None:
        self.mod, self.dependence, self.free = mod, context.data_dependence, free
        self.problem = CutProblem()
        self.items: dict[Var, int] = {}
        self.marked: set[Var] = set()
        self.slots: dict[Expr, Slot] = {}
        self.functions = {name: f for name, f in mod.functions.items() if not f.is_primitive}
        self.called, self.closure_bodies = _callees(self.functions)
        self.called |= set(self.functions) - set(context.entries)
        self.fields = RecordFields(self.functions.values(), self._field_item)
        self.signatures = {name: self._signature(name, f) for name, f in self.functions.items()}
        self._rank: dict[str, int] = {}
        self._entered: dict[Region, Var] = {}
        self._names: dict[Value, tuple[Var, Region]] = {}
        for group in reversed(recursion_groups(mod)):
            self._functions(frozenset(group) & set(self.functions))
        self._pin_to_target()
        self._host = self.problem.solve()
        #: Per ``if``, the values to copy before it, since they are used both inside and after it; True for a copy to the host.
        self.before: dict[Var, list[tuple[Var, bool]]] = {}
        if free:
            for value, (var, region) in self._names.items():
                self._copy_before_branches(value, var, region)

    # ---- the placement -----------------------------------------------------------------------------------------

    def is_moved(self, var: Var) -> bool:
        """Whether this binding, unmarked by the program, is placed on the host."""
        return var in self.items and var not in self.marked and self._host[self.items[var]]

    @property
    def copied_before(self) -> set[Var]:
        """The values in ``before``."""
        return {var for found in self.before.values() for var, _ in found}

    def params_on_host(self, name: str) -> tuple[bool, ...]:
        """Per parameter of a function whether it is taken on the host."""
        from_user = name not in self.called and name not in self.closure_bodies
        return tuple(self._is_on_host(p, from_user) for p in self.signatures[name].params)

    def result_on_host(self, name: str) -> bool:
        """Whether the result of a function is on the host."""
        return self._host[self.signatures[name].result]

    def fields_on_host(self, call: Call) -> tuple[bool, ...]:
        """Per tensor in the fields that a call of a record operator stores or reads whether it is on the host."""
        return tuple(self._host[item] for item in self.fields.of[fields_key(call)])

    def _is_on_host(self, slot: Slot, from_user: bool) -> bool:
        if not self.free or not isinstance(slot, Value):
            return False
        if from_user and not slot.uses:
            # only its shape is used, so its size does not matter
            return True
        if slot.producer == ON_HOST:
            return any(self._host[item] for _, item in slot.uses)
        return self._host[slot.producer]

    # ---- functions ---------------------------------------------------------------------------------------------

    def _signature(self, name: str, function: Function) -> _Signature:
        bound = name in self.closure_bodies
        params = tuple(self._param(p.ty, name in self.called, bound) for p in function.params)
        result = ON_TARGET if bound or name == "main" or name not in self.called else self._result_item(function.body.ty)
        return _Signature(params, result)

    def _param(self, ty: Type | None, called: bool, bound: bool) -> Slot:
        if not isinstance(ty, TensorType) or bound or not self.free:
            return self._slot(ty, ON_TARGET)
        return self._slot(ty, self._item(ty) if called else ON_HOST if is_small(ty) else ON_TARGET)

    def _functions(self, group: frozenset[str]) -> None:
        """Walk mutually recursive functions; their callers have been walked."""
        recursive = len(group) > 1 or any(name in mentioned(self.functions[name].body) for name in group)
        rank = max((self._rank.get(name, 0) for name in group), default=0) + recursive
        for name in group:
            function, signature = self.functions[name], self.signatures[name]
            self.slots.update(zip(function.params, signature.params, strict=True))
            position = _Position(Region(rank), signature.result, group if recursive else frozenset())
            for p in function.params:
                self._name(p, position.region)
            self._chain(function.body, position, tail=True)

    def _copy_before_branches(self, value: Value, var: Var, defined: Region) -> None:
        """Record a copy before an ``if`` where a use in a branch and a use after the ``if`` can share it."""
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

    def _pin_to_target(self) -> None:
        """Fix the items that the host does not depend on to the target, unless they take a value on which the host depends.

        Moving work to the host only because its results are smaller than its inputs would make the host wait.  Work that takes
        a value of the host is on the host only if all its inputs are, so that the host waits for none of them.
        """
        made: dict[int, list[int]] = {}
        taken: dict[int, list[int]] = {}
        pairs = [(item, value.producer) for value in self.problem.values for _, item in value.uses]
        for item, producer in (*pairs, *self.problem.ties, *((b, a) for a, b in self.problem.ties)):
            made.setdefault(item, []).append(producer)
            taken.setdefault(producer, []).append(item)
        needed = _reached({ON_HOST}, made)
        with_them = _reached(needed - {ON_HOST}, taken) - needed
        for item in range(self.problem.n_items):
            if item in with_them:
                for producer in made.get(item, ()):
                    self.problem.follow(item, producer)
            elif item not in needed:
                self.problem.tie(item, ON_TARGET)

    # ---- chains ------------------------------------------------------------------------------------------------

    def _chain(self, chain: Expr, position: _Position, *, tail: bool) -> None:
        """Walk a chain whose result is bound to ``position.result``; ``tail``: the chain's result is the function's."""
        bindings, result = let_chain(chain)
        marks = dict(self._marks(bindings))
        last = _last(bindings, result) if tail else None
        for var, value in bindings:
            self.slots[var] = self._value(var, value, position, marks.get(var), last is var)
            self._name(var, position.region)
        self._use(result, position.region, position.result)

    def _marks(self, bindings: list[tuple[Var, Expr]]) -> Iterator[tuple[Var, int]]:
        """The bindings that the program marks with a device, with the item of that device."""
        known = dict(bindings)
        for _, value in reversed(bindings):
            if isinstance(value, Call) and value.op is ON_DEVICE and value.args[0] in known:
                var = value.args[0]
                assert isinstance(var, Var)
                if is_placed(known[var]):
                    self.marked.add(var)
                    yield var, _item_of(value.attrs.device)

    def _value(self, var: Var, value: Expr, position: _Position, mark: int | None, tail: bool) -> Slot:
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
                return self._if(var, value, position, mark, tail)
            case Call(attrs=ShapeOfAttrs()):
                return self._slot(value.ty, ON_HOST)
            case Call(op=Op() as op) if op.pattern is OpPattern.MACHINE:
                return self._machine_call(value, position, tied=not self.marked.isdisjoint(value.args[:1]))
            case Call(op=Op()):
                return self._operator(var, value, position, mark)
            case Call(op=GlobalVar(name=name)) if name in self.functions:
                return self._call(value, name, position, tail)
        assert isinstance(value, Call), value
        # a closure, or a primitive that the program itself contains
        for a in value.args:
            self._use(a, position.region, ON_TARGET)
        return self._slot(value.ty, ON_TARGET)

    def _if(self, var: Var, value: If, position: _Position, mark: int | None, tail: bool) -> Slot:
        self._use(value.cond, position.region, ON_HOST)
        if mark is None:
            # in tail position the value is the function's result, and must remain in tail position
            mark = position.result if tail else self._result_item(value.ty)
        self.items[var] = mark
        branches = (value.true_branch, value.false_branch)
        again = [any(name in position.group for name in mentioned(b)) if position.group else False for b in branches]
        for branch, repeats in zip(branches, again, strict=True):
            # the branch that ends a recursion runs once
            last = not position.group or (not repeats and any(again))
            region = Region(position.region.rank - last, position.region)
            self._entered[region] = var
            self._chain(branch, _Position(region, mark, position.group), tail=tail)
        return self._slot(value.ty, mark)

    def _machine_call(self, value: Call, position: _Position, *, tied: bool) -> Slot:
        args = value.args
        if value.op is NO_MATCH:
            return self._slot(value.ty, self.problem.item() if self.free else ON_TARGET)
        if value.op in RECORD_OPERATORS:
            items = iter(self.fields.of[fields_key(value)])
            for a in stored(value):
                self._store(a.ty, self._atom(a), position.region, items)
            return self._slots(value.ty, items)
        if value.op in (ASSERT_SHAPE, ASSERT_SAME_SIZE, STOP_FUSION):
            return self._atom(args[0])
        if value.op is ON_DEVICE:
            if tied:
                return self._atom(args[0])
            self._use(args[0], position.region, _item_of(value.attrs.device))
            return self._slot(value.ty, _item_of(value.attrs.device))
        if value.op is DEVICE_COPY:
            self._use(args[0], position.region, _item_of(value.attrs.src))
            return self._slot(value.ty, _item_of(value.attrs.dst))
        assert value.op is ALLOC_CLOSURE, value
        for a in args[1:]:
            self._use(a, position.region, ON_TARGET)
        return None

    def _call(self, value: Call, name: str, position: _Position, tail: bool) -> Slot:
        signature = self.signatures[name]
        for a, param in zip(value.args, signature.params, strict=True):
            self._use(a, position.region, param.producer if isinstance(param, Value) else ON_TARGET)
        if name not in position.group:
            self._rank[name] = max(self._rank.get(name, position.region.rank), position.region.rank)
        if tail:
            self.problem.tie(signature.result, position.result)
        return self._slot(value.ty, signature.result)

    def _operator(self, var: Var, call: Call, position: _Position, mark: int | None) -> Slot:
        op, region = call.op, position.region
        assert isinstance(op, Op)
        args = [self._fields(a) for a in call.args]
        small = not op.stateful and all(is_small(a.ty) for fields in args for a in fields) and is_small(call.ty)
        item = mark if mark is not None else self._item(call.ty) if small else ON_TARGET
        self.items[var] = item
        for a in self._read(var, call, args):
            self._use(a, region, item)
        if any(host_reads(op, self.dependence)) or op.shape_func.upper_bound:
            self._shape_function(var, call, args, position, item)
        return self._slot(call.ty, item)

    def _read(self, var: Var, call: Call, args: list[tuple[Expr, ...]]) -> tuple[Expr, ...]:
        """The tensors whose elements the operator's kernel reads; a view reads none, but is on the device of its first input."""
        assert isinstance(call.op, Op)
        if call.op.pattern is OpPattern.RESHAPE:
            return args[0]
        group, params = single_operator_group(var, call, args)
        return tuple(a for a, read in zip(params, _reads(group), strict=True) if read)

    def _shape_function(self, var: Var, call: Call, args: list[tuple[Expr, ...]], position: _Position, item: int) -> None:
        """The inputs that the shape function of a call reads on the host, and the counts of its kernel."""
        group, params = single_operator_group(var, call, args)
        shape = shape_program(group, self.dependence)
        counts = {index for _, index in shape.counts}
        static = all(t.is_static for t in own_tensors(call.ty))
        if counts or shape.program.checks or not static:
            for a, need in zip(params, shape.states, strict=True):
                if need & Need.DATA:
                    self._use(a, position.region, ON_HOST)
        if counts:
            self.problem.value(item, ITEMSIZE["int64"] * (1 + max(counts))).use(position.region, ON_HOST)

    def _name(self, var: Var, region: Region) -> None:
        slot = self.slots[var]
        if isinstance(slot, Value):
            self._names.setdefault(slot, (var, region))

    # ---- slots -------------------------------------------------------------------------------------------------

    def _item(self, ty: Type | None) -> int:
        """A free item for a producer of type ``ty``, if it is small; else the target."""
        return self.problem.item() if self.free and is_small(ty) else ON_TARGET

    def _result_item(self, ty: Type | None) -> int:
        """A free item for the result of a function or an ``if``; a tuple is on the target."""
        return self._item(ty) if isinstance(ty, TensorType) else ON_TARGET

    def _slot(self, ty: Type | None, producer: int) -> Slot:
        if isinstance(ty, TupleType):
            return tuple(self._slot(f, producer) for f in ty.fields)
        return self.problem.value(producer, nbytes_of(ty)) if isinstance(ty, TensorType) else None

    def _slots(self, ty: Type | None, producers: Iterator[int]) -> Slot:
        """As ``_slot``, with a producer for each tensor of the value."""
        if isinstance(ty, TupleType):
            return tuple([self._slots(f, producers) for f in ty.fields])
        return self._slot(ty, next(producers)) if isinstance(ty, TensorType) else None

    def _field_item(self, types: list[TensorType]) -> int:
        """The item of a field: free if the tensors are small in all records."""
        return self.problem.item() if self.free and all(map(is_small, types)) else ON_TARGET

    def _store(self, ty: Type | None, slot: Slot, region: Region, items: Iterator[int]) -> None:
        """Record the use of a value's tensors by the fields ``items``."""
        if isinstance(ty, TupleType):
            for k, field in enumerate(ty.fields):
                self._store(field, slot[k] if isinstance(slot, tuple) else None, region, items)
        elif isinstance(ty, TensorType):
            item = next(items)
            if isinstance(slot, Value):
                slot.use(region, item)

    def _atom(self, atom: Expr) -> Slot:
        return self.slots.get(atom)

    def _fields(self, arg: Expr) -> tuple[Expr, ...]:
        """The tensors of an operator's argument: the argument, or the fields of a tuple, as new variables."""
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
        """Record a use by ``item``; tuples are on the target."""
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


def _reached(start: set[int], edges: dict[int, list[int]]) -> set[int]:
    """The free items on paths from ``start``."""
    found, pending = {*start}, [*start]
    while pending:
        for item in edges.get(pending.pop(), ()):
            if item not in found and item not in (ON_HOST, ON_TARGET):
                found.add(item)
                pending.append(item)
    return found


@functools.lru_cache(maxsize=1024)
def _reads(group: Group) -> tuple[bool, ...]:
    """``reads`` of a group whose outputs are still to be derived."""
    return reads(build_group(group.params, group.literals, group.nodes, group.results))


def around(region: Region) -> list[Region]:
    """The region and its enclosing regions, the innermost first."""
    out = [region]
    while out[-1].outer is not None:
        out.append(out[-1].outer)
    return out


def is_placed(value: Expr) -> bool:
    """Whether ``value`` is computed on a device, so that a program can mark it: an operator's call, or an ``if``."""
    if isinstance(value, Call) and isinstance(value.op, Op):
        return value.op.pattern is not OpPattern.MACHINE
    return isinstance(value, If)


def _item_of(device: str) -> int:
    return ON_HOST if device == HOST else ON_TARGET


def _callees(functions: dict[str, Function]) -> tuple[set[str], set[str]]:
    """The functions called by name, and the functions of closures."""
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
