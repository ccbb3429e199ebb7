"""Calls of operators on arrays: by the operator's kernel, or by the expansion that a composite operator declares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.composition.composite import CallTerm, InputTerm, Number, Projection, Term, expansion
from ...ops.core.ndarray import NDArray
from ...ops.core.op import Op, TypeRelError
from ...ops.core.tensor_types import TensorType, numpy_dtype
from ...ops.core.type_relation import dtypes_of, typed_operands
from ...ops.defs.machine.machine_ops import ASSERT_SAME_SIZE, ASSERT_SHAPE, DEVICE_COPY, ON_DEVICE, STOP_FUSION
from ...ops.defs.movement.transform import ShapeOfAttrs
from ...ops.native.status import SHAPE_CHECK, STATUS
from ...shape_funcs.symbolic.registry import ShapeError
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import TypeCheckError, VMError
from ...vm.runtime.evaluate import evaluate
from ...vm.values.adt import ADT
from ..ir.expr import Call
from ..ir.visitor import Steps, run


def call_operator(call: Call, op: Op, args: Sequence[Any]) -> Any:
    """The result of an operator's call on arrays and tuples of arrays: an array or a tuple of arrays.

    Raises TypeCheckError for arguments that the operator does not take, VMError for a failure of its kernel.
    """
    try:
        return _kept(_result(op, args, call.attrs))
    except TypeRelError as error:
        raise TypeCheckError(error.message, call.span, help=error.help, code=codes.Type.OPERANDS) from None
    except ShapeError as error:
        raise VMError(f"{op.name}: {error.message}", call.span, code=codes.of_status(SHAPE_CHECK)) from None
    except VMError as error:
        raise VMError(error.diagnostics[0].message, call.span, code=error.diagnostics[0].code) from None


def _kept(result: Any) -> Any:
    """The result as read-only arrays: several variables may hold one value."""
    if isinstance(result, tuple):
        return tuple(map(_kept, result))
    array = np.asarray(result)
    if array.flags.writeable:
        array.flags.writeable = False
    return array.view(NDArray)


def _result(op: Op, args: Sequence[Any], attrs: Any) -> Any:
    if op in (ON_DEVICE, DEVICE_COPY, STOP_FUSION, ASSERT_SHAPE, ASSERT_SAME_SIZE):
        return _marked(op, args, attrs)
    if isinstance(attrs, ShapeOfAttrs) and len(args) == 1 and isinstance(args[0], np.ndarray):
        return np.array(args[0].shape, numpy_dtype(attrs.dtype))
    if not op.in_language:
        message = f"{op.name} is an instruction of the machine, not an operator of programs"
        raise TypeRelError(message)
    types = [tuple(map(_type, a)) if isinstance(a, tuple) else _type(a) for a in args]
    operands = tuple(typed_operands(op, types, args))
    if op.expand is None and op.is_legal(dtypes_of(operands), attrs):
        return evaluate(op, args, attrs, open_sizes=True)
    expanded = expansion(op, operands, attrs)
    values: dict[Term, Any] = {}
    if isinstance(expanded, tuple):
        return tuple(run(_term(t, args, values)) for t in expanded)
    return run(_term(expanded, args, values))


def _type(array: Any) -> TensorType:
    if not isinstance(array, np.ndarray):
        raise TypeRelError(f"an operator takes tensors, not {kind_of(array)}")
    return TensorType.of(array.shape, array.dtype.name)


def _term(term: Term, args: Sequence[Any], values: dict[Term, Any]) -> Steps[Any]:
    """The value of a term of an expansion; each term is evaluated once."""
    if term in values:
        return values[term]
    match term:
        case InputTerm():
            value = args[term.input] if term.field is None else args[term.input][term.field]
        case Number():
            value = np.array(term.value, numpy_dtype(term.dtype))
        case Projection():
            value = (yield _term(term.of, args, values))[term.field]
        case CallTerm():
            operands: list[Any] = []
            for a in term.args:
                if isinstance(a, tuple):
                    fields = []
                    for t in a:
                        fields.append((yield _term(t, args, values)))
                    operands.append(tuple(fields))
                else:
                    operands.append((yield _term(a, args, values)))
            value = _result(term.op, operands, term.attrs)
    values[term] = value
    return value


def _marked(op: Op, args: Sequence[Any], attrs: Any) -> Any:
    """The first argument, after the check that the operator makes."""
    if len(args) != len(op.inputs) or not all(isinstance(a, np.ndarray) for a in args):
        raise TypeRelError(f"{op.name} takes {len(op.inputs)} tensors")
    first = args[0]
    if op is ASSERT_SHAPE:
        if len(attrs.dims) != first.ndim:
            raise TypeRelError(f"{op.name}: its attributes do not fit the rank {first.ndim}")
        if any(want not in (-1, have) for want, have in zip(attrs.dims, first.shape, strict=True)):
            raise VMError(f"{op.name}: {STATUS[SHAPE_CHECK]}: {first.shape} for {attrs.dims}", code=codes.of_status(SHAPE_CHECK))
    if op is ASSERT_SAME_SIZE:
        if not (0 <= attrs.axis < first.ndim and 0 <= attrs.other_axis < args[1].ndim):
            raise TypeRelError(f"{op.name}: its attributes do not fit the ranks {[a.ndim for a in args]}")
        mine, theirs = first.shape[attrs.axis], args[1].shape[attrs.other_axis]
        if mine != theirs:
            raise VMError(attrs.message.format(mine, theirs), code=codes.of_status(SHAPE_CHECK))
    return first


def kind_of(value: Any) -> str:
    """The kind of a value in a message."""
    if isinstance(value, np.ndarray):
        return str(TensorType.of(value.shape, value.dtype.name))
    if isinstance(value, ADT):
        return f"a value of {value.constructor}"
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a value of kind {type(value).__name__}"
