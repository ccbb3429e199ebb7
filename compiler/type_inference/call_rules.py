"""Types of calls: of an operator, of a global function, of a function value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ops.core.op import Op, TypeRelError
from ...ops.core.tensor_types import FuncType, TensorType, TupleType, Type
from ...ops.core.type_relation import relate
from ...ops.defs.machine.machine_ops import (
    ALLOC_CLOSURE,
    ASSERT_SAME_SIZE,
    ASSERT_SHAPE,
    DEVICE_COPY,
    ON_DEVICE,
    STOP_FUSION,
)
from ...shape_funcs.symbolic.dim import dim
from ...vm.diagnostics import codes
from ...vm.diagnostics.codes import Code
from ...vm.diagnostics.source import Diagnostic, Span
from ..ir.expr import Call, Constant, Expr
from ..rules.elements import ElementTable
from .function_signature import BOTTOM, FAILED, Signature
from .literal_help import literal_help
from .shape_checks import Emit, enforce
from .type_match import Binder, TypeMismatch, generalize, instantiate, symbols_of
from .value_names import shown_name

#: The most tensors of an operator's call: its kernel has a loop for each.
MAX_INPUTS = 256


class Mistake(Exception):
    """A diagnostic raised to the binding at fault."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic


def mistake(
    message: str, span: Span | None, *notes: tuple[str, Span | None], help: str | None = None, code: Code | None = None
) -> Mistake:
    """The exception with a diagnostic of these parts."""
    return Mistake(Diagnostic(message, span, notes, help, code))


def type_note(atom: Expr) -> tuple[str, Span | None]:
    """``%a is Tensor[(?, 4), float32]``, at the definition of ``%a``."""
    return f"{shown_name(atom)} is {atom.ty}", atom.span


def mark_of(atoms: Sequence[Expr]) -> Type | None:
    """FAILED or BOTTOM if one of ``atoms`` has no type, else None."""
    marks = [a.ty for a in atoms if a.ty is FAILED or a.ty is BOTTOM]
    return None if not marks else FAILED if FAILED in marks else BOTTOM


# ---- operators -----------------------------------------------------------------------------------------------------


def operator_type(
    call: Call, args: Sequence[Expr], known: Sequence[Any], signature: Signature | None = None,
    elements: ElementTable | None = None,
) -> Type:  # fmt: skip
    """The result type of an operator's call on typed ``args``; ``known`` has the value of each constant argument.

    ``elements``: the known elements of the other arguments, such as the sizes in shapes.  ``signature`` belongs to the global
    function that is the first argument, if it is one.  Raises Mistake.
    """
    op = call.op
    assert isinstance(op, Op)
    if op is ALLOC_CLOSURE:
        return _closure_type(call, args, signature)
    if op in (ASSERT_SHAPE, ASSERT_SAME_SIZE):
        return _asserted_type(call, args)
    if op in (ON_DEVICE, DEVICE_COPY, STOP_FUSION):
        return _placed_type(call, args)
    if not op.in_language:
        raise mistake(
            f"{op.name} is an instruction of the machine, not an operator of programs", call.span, code=codes.Type.MACHINE
        )
    inputs = sum(len(a.ty.fields) if isinstance(a.ty, TupleType) else 1 for a in args)
    if inputs > MAX_INPUTS:
        message = f"{op.name} has {inputs} inputs; at most {MAX_INPUTS} are possible"
        raise mistake(message, call.span, help="do it in several steps", code=codes.Type.SIZE)
    try:
        found = relate(op, [a.ty for a in args], call.attrs, known)[0]
    except TypeRelError as error:
        notes = dict.fromkeys(type_note(a) for a in args if not isinstance(a, Constant))
        help = literal_help(op, args, call.attrs, known) or error.help
        raise mistake(error.message, call.span, *notes, help=help, code=codes.Type.OPERANDS) from None
    return found if elements is None else _with_known_sizes(found, op, call.attrs, args, known, elements)


def _with_known_sizes(
    found: Type, op: Op, attrs: Any, args: Sequence[Expr], known: Sequence[Any], elements: ElementTable
) -> Type:
    """The type ``found`` of a result, with the sizes that follow from known elements of the inputs that decide the shape.

    Sizes that do not fit are refused by the check at run time.
    """
    if not any(op.data_dependent):
        return found
    more = [elements.of(a) if flag and k is None else k for a, k, flag in zip(args, known, op.data_dependent, strict=True)]
    if all(a is b for a, b in zip(more, known, strict=True)):
        return found
    try:
        return relate(op, [a.ty for a in args], attrs, more)[0]
    except TypeRelError:
        return found


def _asserted_type(call: Call, args: Sequence[Expr]) -> Type:
    """The type of a tensor whose sizes are checked at run time.

    Raises Mistake: a program's text may contain the check, with wrong attributes.
    """
    assert isinstance(call.op, Op)
    types = [a.ty for a in args if isinstance(a.ty, TensorType)]
    if len(types) != len(args) or len(args) != len(call.op.inputs):
        message = f"{call.op.name} takes {len(call.op.inputs)} tensors, not ({', '.join(str(a.ty) for a in args)})"
        raise mistake(message, call.span, *map(type_note, args), code=codes.Type.MACHINE)
    ranks = [t.rank for t in types]
    if call.op is ASSERT_SHAPE:
        fits = len(call.attrs.dims) == ranks[0]
    else:
        fits = 0 <= call.attrs.axis < ranks[0] and 0 <= call.attrs.other_axis < ranks[1]
    if not fits:
        raise mistake(
            f"{call.op.name}: its attributes do not fit the ranks {ranks}",
            call.span,
            *map(type_note, args),
            code=codes.Type.MACHINE,
        )
    shape = list(types[0].shape)
    if call.op is ASSERT_SHAPE:
        shape = [have if want < 0 else dim(want) for have, want in zip(shape, call.attrs.dims, strict=True)]
    else:
        shape[call.attrs.axis] = types[1].shape[call.attrs.other_axis]
    return TensorType(tuple(shape), types[0].dtype)


def _placed_type(call: Call, args: Sequence[Expr]) -> Type:
    """The type of a marked value, a tensor.  Raises Mistake."""
    assert isinstance(call.op, Op)
    if len(args) != 1:
        raise mistake(f"{call.op.name} takes one tensor, {len(args)} arguments given", call.span, code=codes.Type.MACHINE)
    ty = args[0].ty
    assert ty is not None
    if not isinstance(ty, TensorType):
        raise mistake(f"{call.op.name} takes a tensor, not {ty}", call.span, type_note(args[0]), code=codes.Type.MACHINE)
    return ty


def _closure_type(call: Call, args: Sequence[Expr], signature: Signature | None) -> Type:
    """The type of a closure: the function's without the captured parameters.  Raises Mistake, as a text may contain the call."""
    captured = args[1:]
    if signature is None or len(captured) > len(signature.params):
        message = f"{ALLOC_CLOSURE.name} takes a function of the module and values of its first parameters"
        raise mistake(message, call.span, *map(type_note, args[:1]), code=codes.Type.MACHINE)
    binder = Binder()
    for atom, want in zip(captured, signature.params[: len(captured)], strict=True):
        assert atom.ty is not None
        try:
            binder.match(atom.ty, want, atom)
        except TypeMismatch as mismatch:
            raise mistake(
                f"the captured value must be {want}, not {atom.ty}: {mismatch}",
                call.span,
                type_note(atom),
                code=codes.Type.MACHINE,
            ) from None
    rest = signature.params[len(captured) :]
    known = {*binder.sizes, *symbols_of(*rest)}
    result = generalize(signature.result, known)
    made = instantiate(FuncType(rest, result), binder.sizes, rigid=True)
    assert isinstance(made, FuncType)
    return FuncType(rest, made.result)


# ---- functions -------------------------------------------------------------------------------------------------------


def function_call(call: Call, callee: Expr, args: Sequence[Expr], emit: Emit, signature: Signature | None) -> Call:
    """The typed call of a function; run-time checks of its arguments are emitted before it.  Raises Mistake.

    ``signature`` belongs to a global callee; a function value has its type only.
    """
    if signature is not None:
        params, result, names = signature.params, signature.result, [f"%{p.name}" for p in signature.function.params]
    elif isinstance(callee.ty, FuncType):
        params, result, names = callee.ty.params, callee.ty.result, [f"{i + 1}" for i in range(len(callee.ty.params))]
    else:
        raise mistake(
            f"{shown_name(callee)} is called, but it is {callee.ty}, not a function",
            call.span,
            type_note(callee),
            code=codes.Type.NOT_A_FUNCTION,
        )
    if len(args) != len(params):
        takes = f"{len(params)} argument{'' if len(params) == 1 else 's'}"
        where = (f"{shown_name(callee)} is defined here", _definition(callee, signature))
        raise mistake(f"{shown_name(callee)} takes {takes}, {len(args)} given", call.span, where, code=codes.Type.ARITY)
    binder, passed = Binder(), []
    for name, want, arg in zip(names, params, args, strict=True):
        passed.append(_argument(call, callee, name, want, arg, binder, emit))
    ty = result if result in (BOTTOM, FAILED) else instantiate(result, binder.sizes, rigid=signature is None)
    return Call(callee, tuple(passed), span=call.span, ty=ty)


def _argument(call: Call, callee: Expr, name: str, want: Type, arg: Expr, binder: Binder, emit: Emit) -> Expr:
    if want is FAILED:
        return arg
    assert arg.ty is not None
    binder.checks = []
    try:
        ty = binder.match(arg.ty, want, arg)
    except TypeMismatch as mismatch:
        message = f"argument {name} of {shown_name(callee)} must be {want}, not {arg.ty}: {mismatch}"
        raise mistake(message, call.span, type_note(arg)) from None
    return enforce(emit, arg, ty, binder.checks, call.span)


def _definition(callee: Expr, signature: Signature | None) -> Span | None:
    return callee.span if signature is None else signature.function.span
