"""Types of the operators on values of algebraic data types and on references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ops.core.adt_types import RefType, TypeCall, instantiate_fields
from ...ops.core.op import Op
from ...ops.core.tensor_types import FuncType, TensorType, TupleType, Type
from ...ops.defs.machine.adt_ops import ADT_FIELDS, MAKE_ADT, MAKE_REF, NO_MATCH, READ_REF, WRITE_REF
from ...shape_funcs.symbolic.dim import ANY, fresh
from ...vm.diagnostics import codes
from ..ir.expr import Call, Constructor, Expr, TypeData, replace, type_of
from ..text.parser import parse_type
from .call_rules import mistake, type_note
from .function_signature import declare, reference_to
from .shape_checks import Emit, enforce
from .type_match import Binder, TypeMismatch, map_dims


class AdtTyper:
    """The typer of the operators of ``ops.defs.machine.adt_ops`` in a module with these type definitions."""

    def __init__(self, definitions: Mapping[str, TypeData]) -> None:
        self.definitions = definitions
        self._parsed: dict[str, Type] = {}

    def call(self, call: Call, args: Sequence[Expr], emit: Emit) -> Call:
        """The typed call.  Raises Mistake, as a text may contain the call."""
        if call.op is MAKE_ADT:
            ty = self.declared(call.attrs.adt)
            if not isinstance(ty, TypeCall):
                raise mistake(f"{ty} is no type with constructors", call.span, code=codes.Type.MACHINE)
            wanted = self.fields(ty, call.attrs.constructor, call)
            return replace(call, args=self._passed(call, args, wanted, f"of {call.attrs.constructor}", emit), ty=ty)
        if call.op is NO_MATCH:
            return replace(call, args=(), ty=_values(self.declared(call.attrs.result)))
        if call.op is MAKE_REF:
            self._count(call, args, 1)
            return replace(call, args=tuple(args), ty=reference_to(type_of(args[0])))
        self._count(call, args, 2 if call.op is WRITE_REF else 1)
        whole = args[0].ty
        if call.op is ADT_FIELDS:
            if not isinstance(whole, TypeCall):
                raise mistake(f"a {whole} has no constructor", call.span, type_note(args[0]), code=codes.Type.MACHINE)
            fields = self.fields(whole, call.attrs.constructor, call)
            return replace(call, args=tuple(args), ty=TupleType(tuple(map(_values, fields))))
        if not isinstance(whole, RefType):
            raise mistake(
                f"only a reference is read and written, not {whole}", call.span, type_note(args[0]), code=codes.Type.OPERANDS
            )
        if call.op is READ_REF:
            return replace(call, args=tuple(args), ty=_values(whole.value))
        (value,) = self._passed(call, args[1:], (whole.value,), "of ref_write", emit)
        return replace(call, args=(args[0], value), ty=TupleType(()))

    def declared(self, text: str) -> Type:
        """The type that an attribute names."""
        if text not in self._parsed:
            self._parsed[text] = declare(parse_type(text, self.definitions), {}, None, lambda: ANY)
        return self._parsed[text]

    def constructor(self, ty: Type | None, name: str, call: Expr) -> Constructor:
        """The constructor of a type.  Raises Mistake."""
        data = self.definitions.get(ty.func.name) if isinstance(ty, TypeCall) else None
        for found in data.constructors if data else ():
            if found.name_hint == name:
                return found
        raise mistake(f"the type {ty} has no constructor {name}", call.span, code=codes.Type.MACHINE)

    def fields(self, ty: TypeCall, name: str, call: Expr) -> tuple[Type, ...]:
        """The types of a constructor's fields.  Raises Mistake."""
        constructor = self.constructor(ty, name, call)
        fields = instantiate_fields(constructor.inputs, self.definitions[ty.func.name].type_vars, ty.args)
        return tuple(declare(t, {}, None, lambda: ANY) for t in fields)

    def _passed(self, call: Call, args: Sequence[Expr], wanted: Sequence[Type], whose: str, emit: Emit) -> tuple[Expr, ...]:
        """The arguments, after the run-time checks that their types need."""
        self._count(call, args, len(wanted))
        passed = []
        for i, (arg, want) in enumerate(zip(args, wanted, strict=True)):
            binder = Binder()
            try:
                ty = binder.match(type_of(arg), want, arg)
            except TypeMismatch as mismatch:
                message = f"argument {i + 1} {whose} must be {want}, not {arg.ty}: {mismatch}"
                raise mistake(message, call.span, type_note(arg), code=codes.Type.OPERANDS) from None
            passed.append(enforce(emit, arg, ty, binder.checks, call.span))
        return tuple(passed)

    def _count(self, call: Call, args: Sequence[Expr], count: int) -> None:
        assert isinstance(call.op, Op)
        if len(args) != count:
            name = getattr(call.attrs, "constructor", call.op.name)
            takes = f"{count} argument{'' if count == 1 else 's'}"
            raise mistake(f"{name} takes {takes}, {len(args)} given", call.span, code=codes.Type.ARITY)


def _values(ty: Type) -> Type:
    """The type of a value that is taken out of another one: each ``?`` is a size of its own."""
    match ty:
        case TensorType():
            return map_dims(ty, lambda d: fresh() if d is ANY else d)
        case TupleType():
            return TupleType(tuple(map(_values, ty.fields)))
        case FuncType():
            return declare(ty, {}, None, lambda: ANY)
    return ty
