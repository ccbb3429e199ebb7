"""The static forms of calls: operators with attributes in place of tensors whose elements are known.

dyn.reshape(%x, meta[relay.Constant][0])    ->    reshape(%x, newshape=[2, -1])

The elements are numbers, or sizes that the attributes of the static form can express (``newshape``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.core.op import Op, TypeRelError, get
from ...ops.core.tensor_types import TensorType, Type, numpy_dtype
from ...ops.core.type_relation import relate
from ...ops.defs.movement.dynamic import DynReshapeAttrs
from ...ops.defs.movement.transform import RESHAPE, DynSliceAttrs, ReshapeAttrs
from ...shape_funcs.symbolic.dim import Dim, const
from ..ir.expr import Call, Expr, replace, tensor_type
from .elements import ElementTable
from .exchanged_axes import exchanged
from .movement_rules import VIEWS, as_newshape
from .newshape import KEEP, static_newshape, static_slice


def static_form(
    call: Call, elements: ElementTable, data: Callable[[Expr], object], definition: Callable[[Expr], Expr | None]
) -> Call:
    """The static form of a call with its type, or ``call`` itself.

    ``data``: the array of an atom that is a constant, a tuple of arrays for a tuple, None for any other atom.
    ``definition``: the value of a variable; None for any other atom.
    """
    if not isinstance(call.op, Op) or call.op.static is None:
        return call
    form = call.op.static(call.attrs, [_number(a, elements, data) for a in call.args]) or _symbolic(call, elements)
    if form is None:
        other = exchanged(call, elements, definition)
        other = _view_of_source(call, data, definition) if other is None else other
        return call if other is None else other
    name, attrs = form
    op = get(name)
    args = dict(zip(call.op.inputs, call.args, strict=True))
    new = replace(call, op=op, args=tuple(args[i] for i in op.inputs), attrs=attrs)
    found = _related(new, data)
    return call if found is None else replace(new, ty=found[0])


def _view_of_source(call: Call, data: Callable[[Expr], object], definition: Callable[[Expr], Expr | None]) -> Call | None:
    """``dyn.reshape(reshape(x, newshape=[-1]), sizes)`` as a reshape of ``x`` to the sizes of the call's type."""
    inner = definition(call.args[0]) if isinstance(call.attrs, DynReshapeAttrs) else None
    while isinstance(inner, Call) and inner.op in VIEWS and _related(inner, data) == (inner.ty, ()):
        source = inner.args[0]
        newshape = as_newshape(tensor_type(call).shape, tensor_type(source).shape)
        if newshape is not None:
            new = replace(call, op=RESHAPE, args=(source,), attrs=ReshapeAttrs(newshape))
            return new if _related(new, data) == (call.ty, ()) else None
        inner = definition(source)
    return None


def _related(call: Call, data: Callable[[Expr], object]) -> tuple[Type, tuple[Any, ...]] | None:
    """The type of a call's result and its run-time checks; None if the arguments do not fit."""
    assert isinstance(call.op, Op)
    try:
        return relate(call.op, [a.ty for a in call.args], call.attrs, [data(a) for a in call.args])
    except TypeRelError:
        return None


def _number(atom: Expr, elements: ElementTable, data: Callable[[Expr], object]) -> np.ndarray | None:
    """The value of an atom that is a constant, or whose elements are numbers."""
    known = data(atom)
    if isinstance(known, np.ndarray):
        return known
    dims = _dims(atom, elements)
    numbers = [const(e) for e in dims or ()]
    if dims is None or None in numbers:
        return None
    ty = tensor_type(atom)
    return np.array(numbers, numpy_dtype(ty.dtype)).reshape([const(d) or 0 for d in ty.shape])


def _dims(atom: Expr, elements: ElementTable) -> Sequence[Dim] | None:
    """The elements of a tensor, if all are known."""
    found = elements.of(atom)
    return None if found is None or not all(isinstance(e, Dim) for e in found) else found


def _symbolic(call: Call, elements: ElementTable) -> tuple[str, object] | None:
    """The static form of a call with unknown sizes: the operator's name and its attributes."""
    values = [d for a in call.args[1:] if (d := _dims(a, elements)) is not None]
    data = call.args[0].ty
    if len(values) < len(call.args) - 1 or not isinstance(data, TensorType):
        return None
    if isinstance(call.attrs, DynReshapeAttrs):
        newshape = static_newshape(data, values[0], call.attrs.allowzero)
        return None if newshape is None else ("reshape", ReshapeAttrs(newshape))
    if isinstance(call.attrs, DynSliceAttrs):
        bounds = static_slice(data, values[0], values[1], values[2], call.attrs.slice_mode)
        return None if bounds is None else ("strided_slice", bounds)
    if call.op is get("dyn.broadcast_to") and tuple(values[0]) == data.shape and data.rank:
        return "reshape", ReshapeAttrs((KEEP,) * data.rank)
    return None
