"""Run-time size checks in the IR, which refine a tensor of type ``(?, 4)`` to ``(3, 4)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ops.core.tensor_types import TensorType, TupleType, Type
from ...ops.defs.machine.machine_ops import ASSERT_SAME_SIZE, ASSERT_SHAPE, AssertSameSizeAttrs, AssertShapeAttrs
from ...shape_funcs.symbolic.dim import IntLike, const
from ...vm.diagnostics.source import Span
from ..ir.expr import Call, Expr, Tuple, TupleGetItem, Var, tensor_type
from .type_match import Place, SizeCheck
from .value_names import is_generated, shown_name

#: ``emit(hint, value)`` binds ``value`` (typed) to a new variable, which it returns.
Emit = Callable[[str, Expr], Var]


def enforce(emit: Emit, atom: Expr, ty: Type, checks: Sequence[SizeCheck], span: Span | None, depth: int = 0) -> Expr:
    """``atom`` as a value of type ``ty``, after the run-time ``checks``; the last binding emitted is the result."""
    if not checks:
        return atom
    if isinstance(ty, TensorType):
        return _enforce_tensor(emit, atom, ty, checks, span)
    assert isinstance(ty, TupleType) and isinstance(atom.ty, TupleType)
    fields = []
    for i, field_type in enumerate(ty.fields):
        own = [d for d in checks if d.place.path[depth] == i]
        fields.append(enforce(emit, _field(emit, atom, i, span), field_type, own, span, depth + 1))
    return emit(_hint(atom), Tuple(tuple(fields), ty=ty, span=span))


def _enforce_tensor(emit: Emit, atom: Expr, ty: TensorType, checks: Sequence[SizeCheck], span: Span | None) -> Expr:
    constant = {d.place.axis: d for d in checks if d.like is None}
    assert isinstance(atom.ty, TensorType)
    shape = list(atom.ty.shape)
    if constant:
        dims = tuple(_known(constant[i].size) if i in constant else -1 for i in range(ty.rank))
        for axis, check in constant.items():
            shape[axis] = check.size
        refined = TensorType(tuple(shape), ty.dtype)
        atom = emit(_hint(atom), Call(ASSERT_SHAPE, (atom,), AssertShapeAttrs(dims), ty=refined, span=span))
    for check in checks:
        if check.like is not None:
            shape[check.place.axis] = check.size
            attrs = AssertSameSizeAttrs(check.place.axis, check.like.axis, **_message(check.place, check.like))
            args = (atom, project(emit, check.like, span))
            refined = TensorType(tuple(shape), ty.dtype)
            atom = emit(_hint(atom), Call(ASSERT_SAME_SIZE, args, attrs, ty=refined, span=span))
    return atom


def _message(place: Place, like: Place) -> dict[str, str]:
    """The message for two different sizes, with holes for the sizes; without names, the operator's default message."""
    if any(not isinstance(p.atom, Var) or is_generated(p.atom) for p in (place, like)):
        return {}
    words = f"{_axis_of(place)} has size {{}}, but {_axis_of(like)}, which must be equal, has {{}}"
    return {"message": words}


def _axis_of(place: Place) -> str:
    fields = "".join(f".{i}" for i in place.path)
    return f"axis {place.axis} of {shown_name(place.atom)}{fields}"


def project(emit: Emit, place: Place, span: Span | None) -> Expr:
    """The tensor at ``place``."""
    atom = place.atom
    for i in place.path:
        atom = _field(emit, atom, i, span)
    return atom


def _field(emit: Emit, atom: Expr, index: int, span: Span | None) -> Expr:
    assert isinstance(atom.ty, TupleType)
    return emit(_hint(atom), TupleGetItem(atom, index, ty=atom.ty.fields[index], span=span))


def _known(size: IntLike) -> int:
    value = const(size)
    assert value is not None
    return value


def _hint(atom: Expr) -> str:
    name = atom.name if isinstance(atom, Var) else "value"
    return name if name.endswith("_checked") else f"{name}_checked"


def never_fails(value: Expr) -> bool:
    """Whether the value is its first operand after a check of two sizes that are equal by the types, if it has types."""
    if (
        not isinstance(value, Call)
        or value.op is not ASSERT_SAME_SIZE
        or not all(isinstance(a.ty, TensorType) for a in value.args)
    ):
        return False
    sizes = [tensor_type(x).shape[axis] for x, axis in zip(value.args, (value.attrs.axis, value.attrs.other_axis), strict=True)]
    return sizes[0] is sizes[1]
