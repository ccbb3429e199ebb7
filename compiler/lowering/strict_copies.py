"""Refuse a program with large copies to the host.

Requires: explicit allocation.  Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ops.core.copy_reason import CopyKind
from ...ops.core.effect import Role
from ...ops.core.implementation import HOST
from ...ops.core.tensor_types import TensorType
from ...shape_funcs.symbolic.dim import const
from ...vm.bytecode.size_expressions import nbytes, parameter_sizes, portable, shape_text, size_text
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, TypeCheckError
from ..ir.effects import effect_of
from ..ir.expr import Call, Expr, Function, If, IRModule, let_chain

_HELP = "`relayvm explain` shows what removes a copy; strict_copies=N allows N bytes, strict_copies=off any number"


def strict_copies(mod: IRModule, limit: int) -> IRModule:
    """``mod``, unchanged.

    Raises TypeCheckError that names every copy to the host of more than ``limit`` bytes or of unknown size, except copies that
    the program requests itself (``on_device``).
    """
    found = [d for f in mod.functions.values() if not f.is_primitive for d in _refused(f, limit)]
    if found:
        raise TypeCheckError(found)
    return mod


def _refused(function: Function, limit: int) -> Iterator[Diagnostic]:
    names = parameter_sizes((p.name, p.ty) for p in function.params if p.ty is not None)
    for call in _copies(function.body):
        assert isinstance(call.args[0].ty, TensorType), call
        ty = portable(call.args[0].ty, names)
        size, reason = nbytes(ty), call.attrs.reason
        known = const(size)
        if reason.kind is CopyKind.ON_DEVICE or (known is not None and known <= limit):
            continue
        text = "an unknown number of" if size_text(size) == "?" else size_text(size)
        message = f"{reason}: {text} bytes, {shape_text(ty)}, would be copied to the host, where strict_copies allows {limit}"
        yield Diagnostic(message, call.span, help=_HELP, code=codes.Type.PLACE)


def _copies(chain: Expr) -> Iterator[Call]:
    """The copies to the host in a chain and its branches."""
    for _, value in let_chain(chain)[0]:
        if isinstance(value, If):
            yield from _copies(value.true_branch)
            yield from _copies(value.false_branch)
        elif isinstance(value, Call) and Role.COPIED in effect_of(value).roles and value.attrs.dst == HOST:
            yield value
