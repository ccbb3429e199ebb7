"""Say where each value dies: ``memory.kill`` after its last use.

::

    let %_ = vm.invoke_op(@exp, %x, %y);      let %_ = vm.invoke_op(@exp, %x, %y);
    let %z = @f(%y);                     ->   let %_1 = memory.kill(%x);
    ...                                       let %z = @f(%y);

Requires: the output of ``manifest_alloc``.
Ensures: a value that is used in one branch of an ``if`` only dies at the start of the other; the result of a chain is never
killed; nothing is killed just before a return or a tail call, where the whole frame is released.

Small values wait for the next kill, as one instruction empties many registers; a storage dies at once, because its
tensor can then take its register; arguments of a call die with it.
"""

from __future__ import annotations

from ...ops import machine
from ...ops.op import Op
from ...ops.ty import ITEMSIZE, TensorType, TupleType
from ...shape_funcs.dims import const, product
from ..anf import operands
from ..ir import Call, Expr, Function, GlobalVar, If, IRModule, Var, let_chain, make_lets, replace
from ..versions import is_launch

#: A value of at most so many bytes may wait for the next kill.
SMALL_BYTES = 4096
#: No more values than this wait.
MAX_WAITING = 8


def manifest_lifetimes(mod: IRModule) -> IRModule:
    """``mod`` with kills."""
    return replace(mod, functions={n: f if f.is_primitive else _function(f) for n, f in mod.functions.items()})


def is_tail_call(var: Var, value: Expr, result: Expr) -> bool:
    """Is ``let var = value; result`` a call of a function that gives the result?"""
    return result is var and isinstance(value, Call) and not isinstance(value.op, Op)


def _function(function: Function) -> Function:
    free = _FreeVars()
    used = free.of(function.body)
    dead = [p for p in function.params if p not in used]
    return replace(function, body=_Chain(free, function.body, set(), dead, tail=True).rewrite())


class _FreeVars:
    """The variables each chain uses and does not bind."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Expr, frozenset[Var]]] = {}

    def of(self, chain: Expr) -> frozenset[Var]:
        known = self._known.get(id(chain))
        if known is None:
            bindings, result = let_chain(chain)
            used = {result} if isinstance(result, Var) else set()
            for var, value in reversed(bindings):
                used.discard(var)
                used |= self.used_by(value)
            known = self._known[id(chain)] = chain, frozenset(used)
        return known[1]

    def used_by(self, value: Expr) -> set[Var]:
        """The variables that a binding's value uses, in its branches too."""
        used = {a for a in operands(value) if isinstance(a, Var)}
        if isinstance(value, If):
            used |= self.of(value.true_branch) | self.of(value.false_branch)
        return used


class _Chain:
    """One chain: ``live`` are the outer variables used after it, ``dead`` those that die on entry."""

    def __init__(self, free: _FreeVars, chain: Expr, live: set[Var], dead: list[Var], tail: bool) -> None:
        self.free, self.tail = free, tail
        self.bindings, self.result = let_chain(chain)
        self.live_out, self.waiting = live, dead
        self.out: list[tuple[Var, Expr]] = []
        self.deaths: list[list[Var]] = [[] for _ in self.bindings]

    def rewrite(self) -> Expr:
        """The chain with its kills."""
        branch_live = self._analyse()
        n = len(self.bindings)
        for i, (var, value) in enumerate(self.bindings):
            last = self.tail and i == n - 1 and self.result is var
            if last and is_tail_call(var, value, self.result):
                self.waiting = []
            if isinstance(value, If):
                value = self._branches(value, last, branch_live[i])
            elif (isinstance(value, Call) and not isinstance(value.op, Op)) or any(not _is_small(v) for v in self.waiting):
                self._kill()
            self.out.append((var, value))
            self._die(i)
        if not self.tail:
            self._kill()
        return make_lets(self.out, self.result)

    def _analyse(self) -> dict[int, set[Var]]:
        """Backwards: what dies after each binding; for an ``if``, what is used after it."""
        live = set(self.live_out)
        if isinstance(self.result, Var):
            live.add(self.result)
        live_after_if: dict[int, set[Var]] = {}
        bare = {var for var, value in self.bindings if not _has_register(value)}
        for i in reversed(range(len(self.bindings))):
            var, value = self.bindings[i]
            if var not in live and var not in bare:
                self.deaths[i].append(var)
            live.discard(var)
            used = self.free.used_by(value)
            if isinstance(value, If):
                live_after_if[i] = set(live)
            else:
                self.deaths[i] += _in_order(value, used - live - bare)
            live |= used
        return live_after_if

    def _branches(self, value: If, last: bool, live: set[Var]) -> If:
        """Both branches with their kills.  A branch's result from outside dies after the ``if``."""
        if not last:
            self._kill()
        inner = {True: self.free.of(value.true_branch), False: self.free.of(value.false_branch)}
        used = {value.cond, *inner[True], *inner[False]}
        results = {let_chain(b)[1] for b in (value.true_branch, value.false_branch)}
        held = [] if last else sorted((results & used) - live, key=_name)
        dying = sorted(used - live - set(held), key=_name)
        branches = []
        for which, chain in ((True, value.true_branch), (False, value.false_branch)):
            dead = [*(self.waiting if last else []), *(v for v in dying if v not in inner[which])]
            branches.append(_Chain(self.free, chain, live | set(held), dead, last).rewrite())
        if last:
            self.waiting = []
        self.waiting += held
        return replace(value, true_branch=branches[0], false_branch=branches[1])

    def _die(self, i: int) -> None:
        """Kill what dies after binding ``i``, or let it wait."""
        var, value = self.bindings[i]
        leaves = self.tail and i == len(self.bindings) - 1 and is_tail_call(var, value, self.result)
        if isinstance(value, Call) and isinstance(value.op, GlobalVar) and not leaves:
            # next to the call, which can give them up as it begins
            given = [v for v in self.deaths[i] if v in value.args]
            if given:
                self._append_kill(given)
            self.deaths[i] = [v for v in self.deaths[i] if v not in given]
        for v in self.deaths[i]:
            if isinstance(value, Call) and value.op in _TENSOR_OF_STORAGE and v is value.args[0]:
                self._append_kill([v])
            else:
                self.waiting.append(v)

    def _kill(self) -> None:
        if self.waiting:
            self._append_kill(self.waiting)
            self.waiting = []

    def _append_kill(self, dead: list[Var]) -> None:
        self.out.append((Var("_", ty=TupleType(())), kill_call(dead)))


_TENSOR_OF_STORAGE = (machine.ALLOC_TENSOR, machine.ALLOC_TENSOR_REG)


def kill_call(dead: list[Var]) -> Call:
    """``memory.kill(dead)``."""
    return Call(machine.KILL, tuple(dead), machine.KILL.attrs(), ty=TupleType(()))


def _has_register(value: Expr) -> bool:
    """Is there a value to kill?  Kernels and kills give none; what a shape function gives is killed vector by vector; the wait
    for a pending copy takes it."""
    return not (is_launch(value) or (isinstance(value, Call) and value.op in _KILLED_OTHERWISE))


_KILLED_OTHERWISE = (machine.KILL, machine.SHAPE_FUNC, machine.SIZES, machine.COPY_BEGIN)


def _is_small(var: Var) -> bool:
    if not isinstance(var.ty, TensorType):
        return False
    n = const(product(var.ty.shape))
    return n is not None and n * ITEMSIZE[var.ty.dtype] <= SMALL_BYTES


def _in_order(value: Expr, dying: set[Var]) -> list[Var]:
    return list(dict.fromkeys(a for a in operands(value) if a in dying and not isinstance(a, GlobalVar)))  # type: ignore[misc]


def _name(var: Expr) -> str:
    assert isinstance(var, Var)
    return var.name
