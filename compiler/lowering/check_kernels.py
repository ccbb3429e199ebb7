"""Refuse a program for a GPU that calls an operator without a GPU kernel.

Requires: explicit allocation.  Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ops.codegen.cuda import has_kernel
from ...ops.core.implementation import HOST
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, TypeCheckError
from ..ir.effects import effect_of
from ..ir.expr import Call, Expr, GlobalVar, If, IRModule, let_chain
from ..ir.primitive import group_of

_HELP = (
    "an operator's kernel declares its GPU form: `Kernel(..., cuda=...)`; an operator of one's own declares it by "
    "`relay.register_op(..., cuda=...)`, see docs/custom-operators.md"
)


def check_kernels(mod: IRModule, target: str) -> IRModule:
    """``mod``, unchanged.

    Raises TypeCheckError that names every call for ``target`` of an operator without a kernel there.
    """
    found = [d for f in mod.functions.values() if not f.is_primitive for d in _refused(mod, f.body, target)]
    if found:
        raise TypeCheckError(found)
    return mod


def _refused(mod: IRModule, chain: Expr, target: str) -> Iterator[Diagnostic]:
    for _, value in let_chain(chain)[0]:
        if isinstance(value, If):
            yield from _refused(mod, value.true_branch, target)
            yield from _refused(mod, value.false_branch, target)
        elif isinstance(value, Call) and effect_of(value).launches:
            callee = value.args[0]
            assert isinstance(callee, GlobalVar)
            function = mod[callee.name]
            group = group_of(function)
            kernel = group.kernel_on(HOST)
            # a kernel in Python over numpy runs on host copies, which are counted
            if function.attrs.get("device", target) == target and not has_kernel(group) and not (kernel and kernel.in_python):
                names = ", ".join(n.op for n in group.nodes)
                yield Diagnostic(f"{names} has no kernel for {target}", value.span, help=_HELP, code=codes.Type.PLACE)
