"""Start copies to the host right after the producer of the copied value, so that the host waits for that value only.

::

    let %_ = vm.invoke_op(@f, %x, %n);         let %_ = vm.invoke_op(@f, %x, %n);
    let %_1 = vm.invoke_op(@g, %x, %y);   ->   let %n_pending = vm.copy_begin(%n, ...);
    let %n_host = device_copy(%n, ...);        let %_1 = vm.invoke_op(@g, %x, %y);
                                               let %n_host = vm.copy_wait(%n_pending);

A copy moves up to the producer of its value within its own chain of lets: never out of a branch, which may not run.  Where
nothing is launched in between, the copy stays one instruction.

Requires: explicit allocation, no lifetimes yet.
Ensures: the same; every ``vm.copy_begin`` has its one ``vm.copy_wait`` in the same chain.
"""

from __future__ import annotations

from ...ops.core.effect import Role
from ...ops.core.implementation import HOST
from ...ops.core.op import Op
from ...ops.defs.machine import machine_ops
from ..ir.anf import inner_chains, rebuild, rebuild_lets, values
from ..ir.effects import effect_of
from ..ir.expr import Call, Expr, Function, IRModule, Var, let_chain, map_functions, replace


def start_copies(mod: IRModule) -> IRModule:
    """``mod`` with asynchronous copies to the host."""
    return map_functions(mod, _function)


def _function(function: Function) -> Function:
    body = _chain(function.body)
    return function if body is function.body else replace(function, body=body)


def _chain(chain: Expr) -> Expr:
    """The chain with its copies split, also in its branches."""
    bindings, result = let_chain(chain)
    launches = [0]  # the number of launches before each binding
    made: dict[Expr, int] = {}  # the number of bindings up to the producer of a value
    begun: list[list[tuple[Var, Expr]]] = [[] for _ in range(len(bindings) + 1)]
    kept: list[tuple[Var, Expr]] = []
    for i, (var, value) in enumerate(bindings):
        start = made.get(value.args[0], 0) if isinstance(value, Call) and _is_copy_to_host(value) else i
        if launches[i] > launches[start]:
            assert isinstance(value, Call)
            copied = value.args[0]
            assert isinstance(copied, Var)
            pending = Var(f"{copied.name}_pending", span=var.span, ty=copied.ty)
            begun[start].append((pending, replace(value, op=machine_ops.COPY_BEGIN)))
            value = Call(machine_ops.COPY_WAIT, (pending,), machine_ops.COPY_WAIT.attrs(), span=value.span, ty=value.ty)
        launches.append(launches[i] + _may_launch(value))
        for filled in (var, *_filled(value)):
            made[filled] = i + 1
        kept.append((var, rebuild(value, lambda atom: atom, _chain)))
    out = [*begun[0]]
    for binding, after in zip(kept, begun[1:], strict=True):
        out += [binding, *after]
    return rebuild_lets(chain, out, result)


def _is_copy_to_host(value: Call) -> bool:
    return Role.COPIED in effect_of(value).roles and value.attrs.dst == HOST


def _filled(value: Expr) -> tuple[Expr, ...]:
    """The tensors, bound before, that a kernel writes; one of several versions is launched in a branch."""
    if not isinstance(value, Call):
        calls = (inner for chain in inner_chains(value) for inner in values(chain) if isinstance(inner, Call))
        return tuple(a for call in calls for a in _filled(call))
    return value.args[len(value.args) - value.attrs.n_outputs :] if effect_of(value).launches else ()


def _may_launch(value: Expr) -> bool:
    """Whether this value launches a kernel, or may launch one through a callee or a branch."""
    if isinstance(value, Call):
        return effect_of(value).launches or not isinstance(value.op, Op)
    return any(_may_launch(inner) for chain in inner_chains(value) for inner in values(chain))
