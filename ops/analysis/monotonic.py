"""Monotonic operators: whether the elements of the result are in the order of an argument's elements, or in the reverse order.

The analysis reads the operator's expression, so it covers every operator that is composed of monotonic scalar functions, of
casts to dtypes that hold at least as much, and of arithmetic with a constant number.  Correctly rounded functions are monotonic:
rounding keeps the order.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..codegen.loop_nest.scalar_functions import SCALAR_FUNCTIONS
from ..core.compute import Apply, Axis, Cast, Literal, Load, Scalar, Value
from ..core.implementation import GPU
from ..core.op import Op
from ..core.tensor_types import TensorType, Type, computed_in, int_range, is_float, is_integer


class Order(enum.IntEnum):
    """Order of the results for arguments that rise.  The result is NaN for NaN alone."""

    REVERSED = -1  # they do not rise
    SAME = 0  # the argument is not read
    KEPT = 1  # they do not fall


def order_of(op: Op, inputs: Sequence[Type | float], attrs: Any, output: TensorType, machine: str) -> Order | None:
    """The order of a call's results on ``machine``; None if the operator is not monotonic.

    ``inputs``: the type of the only tensor, whose element at the same index each result is computed of, and numbers.
    """
    assert op.compute is not None
    (dtype,) = (x.dtype for x in inputs if isinstance(x, TensorType))
    values = tuple(_value(number, x, dtype) for number, x in enumerate(inputs))
    axes = tuple(map(Axis, range(output.rank)))
    order = _order(op.compute(values, axes, attrs, Value(output.dtype, output.shape, len(inputs))), machine)
    return None if order is Order.SAME else order


def _value(number: int, given: Type | float, dtype: str) -> Value:
    """The tensor, or a number in the tensor's ``dtype``."""
    if isinstance(given, TensorType):
        return Value(dtype, given.shape, number, lambda at: Load(number, at, dtype))
    assert not isinstance(given, Type)
    return Value(dtype, (), number, lambda at: Literal(given, dtype))


def _order(scalar: Scalar, machine: str) -> Order | None:
    match scalar:
        case Literal():
            return None if math.isnan(scalar.value) else Order.SAME
        case Load():
            return Order.KEPT
        case Cast():
            return _order(scalar.value, machine) if _keeps_order(scalar.value.dtype, scalar.dtype) else None
        case Apply():
            orders = [_order(arg, machine) for arg in scalar.args]
            return _by_number(scalar, orders) or _by_declaration(scalar, orders, machine)
    return None


def _keeps_order(source: str, result: str) -> bool:
    """Whether a cast never exchanges two numbers."""
    if is_float(result):
        return source != "bool"
    if not is_integer(source) or not is_integer(result):
        return False
    (low, high), (least, most) = int_range(source), int_range(result)
    return least <= low and high <= most


def _by_declaration(scalar: Apply, orders: Sequence[Order | None], machine: str) -> Order | None:
    """The order of a function that is monotonic in every argument."""
    declared = SCALAR_FUNCTIONS[scalar.function].monotonic
    if declared is None or None in orders or any(a.dtype not in declared.dtypes for a in scalar.args):
        return None
    if machine == GPU and not declared.on_gpu:
        return None
    found = {sign * order for sign, order in zip(declared.signs, orders, strict=True) if order}
    return Order(found.pop()) if len(found) == 1 else None


def _by_number(scalar: Apply, orders: Sequence[Order | None]) -> Order | None:
    """The order of arithmetic of floats with a number: finite, so that no infinity becomes NaN."""
    if len(orders) != 2 or None in orders or (Order.SAME in orders) != 1 or not is_float(scalar.dtype):
        return None
    place = orders.index(Order.SAME)
    literal, (order,) = scalar.args[place], [o for o in orders if o]
    number = float(np.dtype(computed_in(scalar.dtype)).type(literal.value)) if isinstance(literal, Literal) else math.nan
    if not math.isfinite(number):
        return None
    match scalar.function, place:
        case ("add", _) | ("subtract", 1):
            return order
        case "subtract", 0:
            return Order(-order)
        case ("multiply", _) | ("divide", 1) if number != 0:
            return Order(order * (1 if number > 0 else -1))
    return None
