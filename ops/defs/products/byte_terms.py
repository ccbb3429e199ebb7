"""Products of bytes without their zero points, by the product of the bytes as they are, as terms.

``sum((a - x) * (b - y)) = sum(a * b) - x * sum(b) - y * sum(a - x)``: all sums are int32 modulo 2**32, as the result is.
"""

from __future__ import annotations

from typing import Any

from ....shape_funcs.symbolic.dim import const
from ...composition.composite import Term, call, cast, number, table
from ...core.dtype_rules import BYTES
from ...core.op import Op, get
from ..axes.reduce import SUM, ReduceAttrs
from ..movement.transform import TransposeAttrs

#: The number by which unsigned bytes are larger than the signed ones that they become.
EXCESS = 128


def are_bytes(dtypes: tuple[Any, ...], attrs: Any) -> bool:
    """Whether a call multiplies bytes to int32, the first matrix stored by rows: tiles take unsigned and signed ones together."""
    return {*dtypes} <= {*BYTES} and attrs.out_dtype == "int32" and not getattr(attrs, "transpose_a", False)


def signed(x: Term) -> Term:
    """Unsigned bytes as signed ones, ``EXCESS`` less."""
    return cast(call(get("bitwise_xor"), x, number(EXCESS, "uint8")), "int8")


def row_sums(x: Term) -> Term:
    """The sums along the last axis, ``[..., 1]``."""
    sums: Term = call(SUM, cast(x, "int32"), attrs=ReduceAttrs(-1, keepdims=True))
    return sums


def less_zero_points(op: Op, a: Term, b: Term, zeros: tuple[Term, Term], attrs: Any) -> Term:
    """The product ``op`` of bytes ``a - x`` and ``b - y``; ``b`` is stored by columns.

    ``zeros``: x, a scalar, and y, a scalar or a vector with a number for each column of the result.
    """
    x, y = (cast(zero, "int32") for zero in zeros)
    if b.dtype == "uint8":
        b, y = signed(b), y - EXCESS
    product: Term = call(op, a, b, attrs=attrs)
    return product - _column_sums(op, b, attrs) * x - row_sums(cast(a, "int32") - x) * y


def _column_sums(op: Op, b: Term, attrs: Any) -> Term:
    """The sums of the columns of the second matrix, in a row: a product with ones, which is folded for a constant."""
    inner = const(b.shape[-1])
    if not inner:  # unknown, or no element
        order = (0, 2, 1) if b.rank == 3 else (1, 0)
        in_a_row: Term = call(get("transpose"), row_sums(b), attrs=TransposeAttrs(order))
        return in_a_row
    ones = table(((1,) * inner,) if b.rank == 2 else (((1,) * inner,),), "uint8")
    sums: Term = call(op, ones, b, attrs=attrs)
    return sums
