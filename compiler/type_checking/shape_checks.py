"""Run-time checks in the IR: what makes a tensor of type ``(?, 4)`` one of ``(3, 4)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ops.machine import ASSERT_SAME_SIZE, ASSERT_SHAPE, AssertSameSizeAttrs, AssertShapeAttrs
from ...ops.ty import TensorType, TupleType, Type
from ...shape_funcs.dims import const
from ...vm.source import Span
from ..ir import Call, Expr, Tuple, TupleGetItem, Var
from .naming import is_made_up, said
from .type_match import Demand, Place

#: ``emit(hint, value)`` binds ``value`` (typed) to a new variable, which it returns.
Emit = Callable[[str, Expr], Var]


def enforce(emit: Emit, atom: Expr, ty: Type, demands: Sequence[Demand], span: Span | None, depth: int = 0) -> Expr:
    """``atom`` as a value of type ``ty``, after run-time checks of ``demands``; the last binding emitted is the result."""
    if not demands:
        return atom
    if isinstance(ty, TensorType):
        return _enforce_tensor(emit, atom, ty, demands, span)
    assert isinstance(ty, TupleType) and isinstance(atom.ty, TupleType)
    fields = []
    for i, field_type in enumerate(ty.fields):
        own = [d for d in demands if d.place.path[depth] == i]
        fields.append(enforce(emit, _field(emit, atom, i, span), field_type, own, span, depth + 1))
    return emit(_hint(atom), Tuple(tuple(fields), ty=ty, span=span))


def _enforce_tensor(emit: Emit, atom: Expr, ty: TensorType, demands: Sequence[Demand], span: Span | None) -> Expr:
    constant = {d.place.axis: d for d in demands if d.like is None}
    assert isinstance(atom.ty, TensorType)
    shape = list(atom.ty.shape)
    if constant:
        dims = tuple(_known(constant[i].size) if i in constant else -1 for i in range(ty.rank))
        for axis, demand in constant.items():
            shape[axis] = demand.size
        refined = TensorType(tuple(shape), ty.dtype)
        atom = emit(_hint(atom), Call(ASSERT_SHAPE, (atom,), AssertShapeAttrs(dims), ty=refined, span=span))
    for demand in demands:
        if demand.like is not None:
            shape[demand.place.axis] = demand.size
            attrs = AssertSameSizeAttrs(demand.place.axis, demand.like.axis, **_message(demand.place, demand.like))
            args = (atom, project(emit, demand.like, span))
            refined = TensorType(tuple(shape), ty.dtype)
            atom = emit(_hint(atom), Call(ASSERT_SAME_SIZE, args, attrs, ty=refined, span=span))
    return atom


def _message(place: Place, like: Place) -> dict[str, str]:
    """The message for two sizes that differ, with holes for the names of the values; without names the operator's own words."""
    if any(not isinstance(p.atom, Var) or is_made_up(p.atom) for p in (place, like)):
        return {}
    words = f"{_axis_of(place)} has size {{}}, but {_axis_of(like)}, which must be equal, has {{}}"
    return {"message": words}


def _axis_of(place: Place) -> str:
    fields = "".join(f".{i}" for i in place.path)
    return f"axis {place.axis} of {said(place.atom)}{fields}"


def project(emit: Emit, place: Place, span: Span | None) -> Expr:
    """The tensor at ``place``."""
    atom = place.atom
    for i in place.path:
        atom = _field(emit, atom, i, span)
    return atom


def _field(emit: Emit, atom: Expr, index: int, span: Span | None) -> Expr:
    assert isinstance(atom.ty, TupleType)
    return emit(_hint(atom), TupleGetItem(atom, index, ty=atom.ty.fields[index], span=span))


def _known(size: object) -> int:
    value = const(size)  # type: ignore[arg-type]
    assert value is not None
    return value


def _hint(atom: Expr) -> str:
    name = atom.name if isinstance(atom, Var) else "value"
    return name if name.endswith("_checked") else f"{name}_checked"
