"""Insert ``memory.kill`` after the last use of each value.

::

    let %_ = vm.invoke_op(@exp, %x, %y);      let %_ = vm.invoke_op(@exp, %x, %y);
    let %z = @f(%y);                     ->   let %_1 = memory.kill(%x);
    ...                                       let %z = @f(%y);

Requires: the output of ``manifest_alloc``.
Ensures: a value that is used in only one branch of an ``if`` dies at the start of the other branch; the result of a chain is
never killed; nothing is killed just before a return or a tail call, which release the whole frame.

Small values wait for the next kill, since one instruction kills many registers.  A storage is killed immediately, so that its
tensor can use its register.  Arguments that die at a call are killed beside the call.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ops.core.op import Op
from ...ops.core.tensor_types import TensorType, TupleType, tensor_bytes
from ...ops.defs.machine import machine_ops
from ...shape_funcs.symbolic.dim import const
from ..ir.anf import operands
from ..ir.effects import effect_of
from ..ir.expr import Call, Expr, Function, GlobalVar, If, IRModule, Var, let_chain, make_lets, map_functions, replace
from ..ir.multi_version import is_launch

#: The largest size in bytes of a value that may wait for the next kill.
SMALL_BYTES = 4096


def manifest_lifetimes(mod: IRModule) -> IRModule:
    """``mod`` with explicit kills."""
    return map_functions(mod, _function)


def is_tail_call(var: Var, value: Expr, result: Expr) -> bool:
    """Whether ``let var = value; result`` is a call of a function in tail position."""
    return result is var and isinstance(value, Call) and not isinstance(value.op, Op)


def _function(function: Function) -> Function:
    free = _FreeVars()
    used = free.of(function.body)
    dead = [p for p in function.params if p not in used]
    return replace(function, body=_KillInserter(free, function.body, set(), dead, tail=True).rewrite())


class _FreeVars:
    """The free variables of each chain, and the variables whose values are small."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Expr, frozenset[Var]]] = {}
        self._small: dict[Var, bool] = {}

    def is_small(self, var: Var) -> bool:
        """Whether the value of a variable may wait for the next kill; asked at each binding while it waits."""
        if var not in self._small:
            self._small[var] = _is_small(var)
        return self._small[var]

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
        """The variables that a binding's value uses, including its branches."""
        used = {a for a in operands(value) if isinstance(a, Var)}
        if isinstance(value, If):
            used |= self.of(value.true_branch) | self.of(value.false_branch)
        return used


class _KillInserter:
    """The rewriter of one chain; ``live``: the outer variables used after the chain, ``dead``: the variables that die at its
    entry."""

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
            elif (isinstance(value, Call) and not isinstance(value.op, Op)) or not all(map(self.free.is_small, self.waiting)):
                self._flush()
            self.out.append((var, value))
            self._kill_after(i)
        if not self.tail:
            self._flush()
        return make_lets(self.out, self.result)

    def _analyse(self) -> dict[int, set[Var]]:
        """Backward pass: the variables that die at each binding; for an ``if``, the variables live after it."""
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
        """Both branches with their kills.  A result of a branch that was bound outside dies after the ``if``."""
        if not last:
            self._flush()
        inner = {True: self.free.of(value.true_branch), False: self.free.of(value.false_branch)}
        used = {value.cond, *inner[True], *inner[False]}
        results = {let_chain(b)[1] for b in (value.true_branch, value.false_branch)}
        held = [] if last else sorted(_variables(results & used) - live, key=_name)
        dying = sorted(_variables(used) - live - set(held), key=_name)
        branches = []
        for which, chain in ((True, value.true_branch), (False, value.false_branch)):
            dead = [*(self.waiting if last else []), *(v for v in dying if v not in inner[which])]
            branches.append(_KillInserter(self.free, chain, live | set(held), dead, last).rewrite())
        if last:
            self.waiting = []
        self.waiting += held
        return replace(value, true_branch=branches[0], false_branch=branches[1])

    def _kill_after(self, i: int) -> None:
        """Kill the variables that die at binding ``i``, or let them wait."""
        var, value = self.bindings[i]
        leaves = self.tail and i == len(self.bindings) - 1 and is_tail_call(var, value, self.result)
        if isinstance(value, Call) and isinstance(value.op, GlobalVar) and not leaves:
            # beside the call, which can release them at its start
            given = [v for v in self.deaths[i] if v in value.args]
            if given:
                self._append_kill(given)
            self.deaths[i] = [v for v in self.deaths[i] if v not in given]
        for v in self.deaths[i]:
            if isinstance(value, Call) and effect_of(value).makes_tensor and v is value.args[0]:
                self._append_kill([v])
            else:
                self.waiting.append(v)

    def _flush(self) -> None:
        if self.waiting:
            self._append_kill(self.waiting)
            self.waiting = []

    def _append_kill(self, dead: list[Var]) -> None:
        self.out.append((Var("_", ty=TupleType(())), kill_call(dead)))


def kill_call(dead: list[Var]) -> Call:
    """``memory.kill(dead)``."""
    return Call(machine_ops.KILL, tuple(dead), machine_ops.KILL.attrs(), ty=TupleType(()))


def _has_register(value: Expr) -> bool:
    """Whether a value occupies a register that must be killed.

    Launches and kills have no value; the vectors of a shape function are killed one by one; ``copy_wait`` empties the register of
    a pending copy.
    """
    return effect_of(value).has_register and not is_launch(value)


def _is_small(var: Var) -> bool:
    if not isinstance(var.ty, TensorType):
        return False
    n = const(tensor_bytes(var.ty))
    return n is not None and n <= SMALL_BYTES


def _variables(atoms: Iterable[Expr]) -> set[Var]:
    return {a for a in atoms if isinstance(a, Var)}


def _in_order(value: Expr, dying: set[Var]) -> list[Var]:
    return list(dict.fromkeys(a for a in operands(value) if isinstance(a, Var) and a in dying))


def _name(var: Expr) -> str:
    assert isinstance(var, Var)
    return var.name
