"""Sparse tensors as three dense ones: the indices of the values, the values, the sizes."""

from __future__ import annotations

from typing import Any

from ....shape_funcs.symbolic.argument_checks import need_rank
from ....shape_funcs.symbolic.dim import const
from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, cast, composite, equal_sizes, number
from ...composition.legalize import indices
from ...core.dtype_rules import INTEGERS, NUMBERS, require, require_same
from ...core.implementation import Kernel, Scratch
from ...core.op import Op, OpPattern, get
from ...kernels.sparse_rows import cpu as bodies
from ...kernels.sparse_rows import cuda as cuda
from ..arithmetic.broadcast import EQUAL, FLOOR_DIVIDE, MAXIMUM, WHERE
from ..arithmetic.creation import FullAttrs
from ..axes.reduce import SUM, ReduceAttrs
from ..axes.sort import CumulativeAttrs
from ..movement.transform import CONCATENATE, STRIDED_SLICE, AxisAttrs, SliceAttrs

_NAME = "sparse_fill_empty_rows"
_INPUTS = ("sparse_indices", "sparse_values", "dense_shape", "default_value")


def _rule(dtypes: tuple[Any, ...], attrs: Any) -> tuple[str, ...]:
    require(_NAME, dtypes[0], INTEGERS, 0, _INPUTS[0])
    require(_NAME, dtypes[2], NUMBERS, 2, _INPUTS[2])
    return "int64", require_same(_NAME, dtypes, (1, 3), _INPUTS), "bool"


Op(
    name=_NAME,
    doc="The values of a sparse matrix in the order of their rows, with `default_value` at the begin of each row that has none: "
    "their indices, the values, and whether each row had none: "
    "`sparse_fill_empty_rows([[0, 1], [2, 0]], [4, 5], [3, 2], 9) = ([[0, 1], [1, 0], [2, 0]], [4, 9, 5], [0, 1, 0])`; a row "
    "out of range is an error.",
    inputs=_INPUTS,
    pattern=OpPattern.OPAQUE,
    dtype=_rule,
    kernels=(
        Kernel(
            "fill_empty_rows",
            bodies.fill_empty_rows,
            attrs=lambda attrs: {},
            views=("dims", "flat", "skip", "flat", "flat", "flat", "flat"),
            scratch=(Scratch("int64", length=lambda call: call.outputs[2].shape[0]),),
            cuda=cuda.fill_empty_rows,
            refuses=True,
        ),
    ),
    legalization=indices(0, 2),
)


# ---- the same values under another shape ---------------------------------------------------------------------------------

_RESHAPE, _RESHAPED = "sparse_reshape", ("sparse_indices", "prev_shape", "new_shape")


def _reshape_rule(dtypes: tuple[Any, ...], attrs: Any) -> tuple[str, str]:
    for position, name in enumerate(_RESHAPED):
        require(_RESHAPE, dtypes[position], INTEGERS, position, name)
    return dtypes[0], dtypes[2]


_EXCLUSIVE = CumulativeAttrs(axis=0, exclusive=True)


def _steps(sizes: Term) -> Term:
    """The number of elements between neighbours along each axis of a tensor of these sizes."""
    backwards = call(get("reverse"), sizes, attrs=AxisAttrs(0))
    steps = call(get("reverse"), call(get("cumprod"), backwards, attrs=_EXCLUSIVE), attrs=AxisAttrs(0))
    at_least_one: Term = call(MAXIMUM, steps, number(1, "int64"))
    return at_least_one


def _reshape(inputs: tuple[Term, Term, Term], attrs: Any) -> tuple[Term, Term]:
    for position, rank in enumerate((2, 1, 1)):
        need_rank(inputs[position].operand, rank, _RESHAPED[position], position)
    if const(inputs[2].shape[0]) == 0:
        raise ShapeError("new_shape has no sizes", input=2)
    message = f"{_RESHAPE}: prev_shape has {{}} sizes, an index has {{}} coordinates"
    before = equal_sizes(inputs[1], 0, inputs[0], 1, message, 1)
    at, before, after = (cast(t, "int64") for t in (inputs[0], before, inputs[2]))
    one = number(1, "int64")
    inferred = call(EQUAL, after, number(-1, "int64"))
    others = call(get("prod"), call(WHERE, inferred, one, after), attrs=ReduceAttrs())
    rest = call(FLOOR_DIVIDE, call(get("prod"), before, attrs=ReduceAttrs()), call(MAXIMUM, others, one))
    after = call(WHERE, inferred, rest, after)
    place = call(SUM, at * _steps(before), attrs=ReduceAttrs(1, keepdims=True))
    steps = _steps(after)
    # the first coordinate is not wrapped: an index outside the tensor stays outside
    rows = call(STRIDED_SLICE, steps, attrs=SliceAttrs((0,), (-1,)))
    whole = call(get("full"), number(INT64_MAX, "int64"), attrs=FullAttrs((1,)))
    rests = call(get("floor_mod"), place, call(CONCATENATE, (whole, rows), attrs=AxisAttrs(0)))
    return cast(call(FLOOR_DIVIDE, rests, steps), inputs[0].dtype), cast(after, inputs[2].dtype)


composite(
    name=_RESHAPE,
    doc="The indices of a sparse tensor's values after a reshape, and the new sizes, in which one -1 stands for what is left: "
    "`sparse_reshape([[0, 1], [1, 2]], [2, 3], [3, -1]) = ([[0, 1], [2, 1]], [3, 2])`; indices are not held against the shape.",
    inputs=_RESHAPED,
    dtype=_reshape_rule,
    expand=_reshape,
)
