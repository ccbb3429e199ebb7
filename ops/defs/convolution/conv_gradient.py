"""The gradient of a convolution with respect to its weight: a convolution of the data by the gradient of the result."""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import per_axis
from ....shape_funcs.symbolic.argument_checks import need_rank
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, composite
from ...core.dtype_rules import FLOATS, one_of, require, require_same
from ...core.op import get
from ..movement.blocked_layouts import relaid
from ..movement.transform import STRIDED_SLICE, TRANSPOSE, ReshapeAttrs, SliceAttrs, TransposeAttrs
from .conv import Conv2dAttrs, Numbers

_NAME = "nn.conv2d_backward_weight"
_INPUTS = ("grad", "data")


def _rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
    dtype = require_same(_NAME, dtypes, (0, 1), _INPUTS)
    require(_NAME, dtype, FLOATS, 0, _INPUTS[0])
    if attrs.out_dtype:
        one_of(_NAME, "out_dtype", attrs.out_dtype, FLOATS)
    return str(attrs.out_dtype) or dtype


@frozen
class Conv2dBackwardWeightAttrs:
    """The attributes of the convolution; ``channels``: None, or the channels of ``grad``; ``kernel_size``: spatial sizes of the
    weight; layouts of ``grad``, of the data and of the result; ``out_dtype``: "" for the data's."""

    strides: Numbers = 1
    padding: Numbers = 0
    dilation: Numbers = 1
    groups: int = 1
    channels: int | None = None
    kernel_size: Numbers | None = None
    grad_layout: str = "NCHW"
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_dtype: str = ""


def _backward_weight(inputs: tuple[Term, Term], attrs: Conv2dBackwardWeightAttrs) -> Term:
    if attrs.kernel_size is None:
        raise ShapeError("kernel_size must be given: it is the size of the result")
    if attrs.groups < 1:
        raise ShapeError(f"groups must be at least 1, not {attrs.groups}")
    height, width = per_axis(attrs.kernel_size, 2, "kernel_size")
    for position, x in enumerate(inputs):
        need_rank(x.operand, 4, _INPUTS[position], position)
    reshape = get("reshape")
    gradient = relaid(inputs[0], attrs.grad_layout, "NCHW")
    # channels of a group are the batch, and the batch is the channels that are summed
    data = call(reshape, relaid(inputs[1], attrs.data_layout, "NCHW"), attrs=ReshapeAttrs((0, -4, attrs.groups, -1, -2)))
    data = call(reshape, call(TRANSPOSE, data, attrs=TransposeAttrs((2, 1, 0, 3, 4))), attrs=ReshapeAttrs((0, -3, -2)))
    transposed = call(TRANSPOSE, gradient, attrs=TransposeAttrs((1, 0, 2, 3)))
    own = Conv2dAttrs(attrs.dilation, attrs.padding, attrs.strides, attrs.groups, attrs.channels, out_dtype=attrs.out_dtype)
    found = call(get("nn.conv2d"), data, transposed, attrs=own)
    # rows and columns that the strides leave over
    found = call(STRIDED_SLICE, found, attrs=SliceAttrs((0, 0), (height, width), axes=(2, 3)))
    found = call(reshape, found, attrs=ReshapeAttrs((0, 0, height, width)))
    weight: Term = call(TRANSPOSE, found, attrs=TransposeAttrs((1, 0, 2, 3)))
    return relaid(weight, "OIHW", attrs.kernel_layout)


composite(
    name=_NAME,
    doc="The gradient of `nn.conv2d` with respect to the weight, from that of the result: "
    "`nn.conv2d_backward_weight([[[[1.0, 10.0]]]], [[[[1.0, 2.0, 3.0]]]], kernel_size=[1, 2]) = [[[[21.0, 32.0]]]]`.",
    inputs=_INPUTS,
    attrs=Conv2dBackwardWeightAttrs,
    dtype=_rule,
    expand=_backward_weight,
)
