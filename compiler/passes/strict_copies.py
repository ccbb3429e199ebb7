"""Refuse a program that copies more to its host than it should.

Requires: explicit allocation.  Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ops import machine
from ...ops.ty import TensorType
from ...shape_funcs.dims import const
from ...vm import codes
from ...vm.copy_reason import CopyKind, CopyReason
from ...vm.sizes import nbytes, parameter_sizes, portable, shape_text, size_text
from ...vm.source import Diagnostic, TypeCheckError
from ..ir import Call, Expr, Function, If, IRModule, let_chain
from ..placement import HOST

_HELP = "`relayvm explain` shows what removes a copy; strict_copies=N allows N bytes, strict_copies=off any number"


def strict_copies(mod: IRModule, limit: int) -> IRModule:
    """``mod`` itself.

    Raises TypeCheckError that names every copy to the host of more than ``limit`` bytes, or of a size that the program does
    not say, except those that it asks for.
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
        size, reason = nbytes(ty), CopyReason(CopyKind.of(call.attrs.reason), call.attrs.op, call.attrs.input)
        known = const(size)
        if reason.kind is CopyKind.ON_DEVICE or (known is not None and known <= limit):
            continue
        text = "an unknown number of" if size_text(size) == "?" else size_text(size)
        message = f"{reason}: {text} bytes, {shape_text(ty)}, would be copied to the host, where strict_copies allows {limit}"
        yield Diagnostic(message, call.span, help=_HELP, code=codes.Type.PLACE)


def _copies(chain: Expr) -> Iterator[Call]:
    """The calls in a chain and its branches that copy to the host."""
    for _, value in let_chain(chain)[0]:
        if isinstance(value, If):
            yield from _copies(value.true_branch)
            yield from _copies(value.false_branch)
        elif isinstance(value, Call) and value.op is machine.DEVICE_COPY and value.attrs.dst == HOST:
            yield value
