"""Refuse a program for a card that calls what has no kernel there.

Requires: explicit allocation.  Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ops import machine
from ...ops.implementation import HOST
from ...ops.kernels.cuda import has_kernel
from ...vm import codes
from ...vm.source import Diagnostic, TypeCheckError
from ..ir import Call, Expr, GlobalVar, If, IRModule, let_chain
from ..primitive import group_of

_HELP = "an operator's kernel says how it runs on a card: `Kernel(..., cuda=...)`"


def check_kernels(mod: IRModule, target: str) -> IRModule:
    """``mod`` itself.  Raises TypeCheckError that names every call for ``target`` of an operator without a kernel there."""
    found = [d for f in mod.functions.values() if not f.is_primitive for d in _refused(mod, f.body, target)]
    if found:
        raise TypeCheckError(found)
    return mod


def _refused(mod: IRModule, chain: Expr, target: str) -> Iterator[Diagnostic]:
    for _, value in let_chain(chain)[0]:
        if isinstance(value, If):
            yield from _refused(mod, value.true_branch, target)
            yield from _refused(mod, value.false_branch, target)
        elif isinstance(value, Call) and value.op is machine.INVOKE_OP:
            callee = value.args[0]
            assert isinstance(callee, GlobalVar)
            function = mod[callee.name]
            group = group_of(function)
            kernel = group.kernel_on(HOST)
            # a kernel in Python over numpy runs on copies, which are counted
            if function.attrs.get("device", target) == target and not has_kernel(group) and not (kernel and kernel.in_python):
                names = ", ".join(n.op for n in group.nodes)
                yield Diagnostic(f"{names} has no kernel for {target}", value.span, help=_HELP, code=codes.Type.PLACE)
