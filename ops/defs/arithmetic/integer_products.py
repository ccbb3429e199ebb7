"""Products of integers by an operator whose kernels multiply floats, exact modulo the width of the result.

An integer is a sum of limbs of 16 bits.  Products of two limbs are summed in float64 without an error, up to 2**21 products in
a sum: a result of 32 bits takes three calls of the operator, of 64 bits ten; integers of at most 16 bits take one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...composition.composite import CallTerm, Term, call, cast, number
from ...core.op import Op
from ...core.tensor_types import ITEMSIZE, is_float
from .broadcast import BITWISE_AND, LEFT_SHIFT, RIGHT_SHIFT

#: Bits and bytes of a limb.
BITS, BYTES = 16, 2


def of_integers(dtypes: tuple[Any, ...], attrs: Any) -> bool:
    """Whether a product of these dtypes is one of integers."""
    return not is_float(dtypes[0])


def by_limbs(op: Op, inputs: tuple[Term, Term], attrs: Any) -> Term:
    """The product ``op`` of integers.  ``attrs`` has ``out_dtype``, "" for the dtype of the first input; a float result is the
    rounded sum of 64 bits."""
    dtype = attrs.out_dtype or inputs[0].dtype
    wide = replace(attrs, out_dtype="float64")
    narrow = all(ITEMSIZE[t.dtype] <= BYTES for t in inputs)
    if narrow:
        exact: CallTerm = call(op, *(cast(t, "float64") for t in inputs), attrs=wide)
        return cast(exact if is_float(dtype) else cast(exact, "int64"), dtype)
    count = 4 if is_float(dtype) else -(-ITEMSIZE[dtype] // BYTES)
    data, weight = (_limbs(t, count) for t in inputs)
    total: Term | None = None
    for place in reversed(range(count)):
        for k in range(place + 1):
            if k < len(data) and place - k < len(weight):
                part = cast(call(op, data[k], weight[place - k], attrs=wide), "int64")
                total = part if total is None else total + part
        if total is not None and place:
            total = _shifted(total, "left")
    assert total is not None, "the lowest limbs have a product"
    return cast(total, dtype)


def _limbs(x: Term, count: int) -> list[Term]:
    """At most ``count`` limbs of integers, the lowest first, as float64; the highest limb of all has the sign."""
    own = -(-ITEMSIZE[x.dtype] // BYTES)
    rest, limbs = cast(x, "int64"), []
    for _ in range(min(count, own) - 1):
        limbs.append(_lowest(rest))
        rest = _shifted(rest, "right")
    return [cast(t, "float64") for t in (*limbs, rest if count >= own else _lowest(rest))]


def _lowest(x: Term) -> Term:
    limb: Term = call(BITWISE_AND, x, number(2**BITS - 1, "int64"))
    return limb


def _shifted(x: Term, to: str) -> Term:
    shifted: Term = call(LEFT_SHIFT if to == "left" else RIGHT_SHIFT, x, number(BITS, "int64"))
    return shifted
