"""Types of a call's inputs, inferred from its other inputs and its attributes, as Relay infers the types of weights.

nn.dense(%data, %weight, units=128)      # data: Tensor[(?, 784), float32] gives weight: Tensor[(128, 784), float32]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...shape_funcs.symbolic.argument_checks import axis_in, need_rank
from ...shape_funcs.symbolic.registry import Operand, ShapeError
from .attrs import check_attrs
from .op import InputRule, Op, TypeRelError
from .tensor_types import TensorType, Type


def infer_inputs(op: Op, types: Sequence[Type | None], attrs: Any) -> tuple[Type | None, ...]:
    """The types of the inputs of a call of ``op``; an unknown type is None, in ``types`` and in the result.

    A known type is never changed or checked.  Raises TypeRelError for attributes that are invalid, or that leave a type open.
    """
    if op.infer_inputs is None or len(types) != len(op.inputs):
        return tuple(types)
    check_attrs(op, attrs)
    try:
        found = op.infer_inputs(attrs, tuple(types))
    except ShapeError as error:
        raise TypeRelError(f"{op.name}: {error.message}", input=error.input) from None
    return tuple(new if old is None else old for old, new in zip(types, found, strict=True))


def from_data(others: Callable[[Any, TensorType], tuple[TensorType, ...]], rank: int = 1, *, at_least: bool = False) -> InputRule:
    """The rule of an operator whose first input determines all others: ``others(attrs, type of the first)``.

    ``rank``: the rank of the data, or with ``at_least`` its lowest rank; any other rank is a ShapeError.
    """

    def rule(attrs: Any, types: tuple[Type | None, ...]) -> tuple[Type | None, ...]:
        data = types[0]
        if not isinstance(data, TensorType):
            return types
        need_rank(Operand(data.shape, data.dtype), rank, "the data", 0, at_least=at_least)
        return (data, *others(attrs, data))

    return rule


def vectors(count: int) -> InputRule:
    """The rule of ``count`` inputs after the data: vectors with one element per index of the data's axis ``attrs.axis``."""

    def others(attrs: Any, data: TensorType) -> tuple[TensorType, ...]:
        size = data.shape[axis_in(attrs.axis, data.rank)]
        return (TensorType((size,), data.dtype),) * count

    return from_data(others, at_least=True)


def stated(op: str, attrs: Any, *names: str) -> None:
    """Raise TypeRelError unless each of these attributes is stated: the type of the weight depends on it."""
    missing = [name for name in names if getattr(attrs, name) is None]
    if missing:
        raise TypeRelError(f"{op} gives the weight a type only with {' and '.join(f'{name}=' for name in missing)}")
