"""Grey-scale dilation of images."""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import data_layouts, per_axis, sides
from ....shape_funcs.defs.sampling.image import dilation_layouts
from ...core.dtype_rules import INTEGERS
from ...core.implementation import Kernel
from ...core.op import Op, OpPattern
from ...core.tensor_types import ITEMSIZE
from ...kernels.dilation import cpu as bodies
from ...kernels.dilation import cuda as cuda
from .conv import Numbers, product_rule

#: The integers that the kernels, whose sums are float32, take without an error.
NARROW = tuple(d for d in INTEGERS if ITEMSIZE[d] <= 2)


@frozen
class Dilation2dAttrs:
    """``strides``, ``dilations``: one number, or one per axis; ``padding`` with -inf: one number, one per axis, or one before
    both axes, then after both axes; layouts: one letter per axis; ``out_dtype``: "" for the data's."""

    strides: Numbers = 1
    padding: Numbers = 0
    dilations: Numbers = 1
    data_layout: str = data_layouts(2)[0]
    kernel_layout: str = dilation_layouts()[0]
    out_dtype: str = ""


def _geometry(attrs: Dilation2dAttrs) -> dict[str, Any]:
    """The attributes as keyword arguments of the body."""
    return {
        "stride": per_axis(attrs.strides, 2, "strides"),
        "before": sides(attrs.padding, 2)[0],
        "dilation": per_axis(attrs.dilations, 2, "dilations"),
        "channels_last": attrs.data_layout == data_layouts(2)[1],
        "weights_last": attrs.kernel_layout == dilation_layouts()[1],
    }


Op(
    name="image.dilation2d",
    doc="The largest of each window's elements plus its weights, per channel: "
    "`image.dilation2d([[[[1.0, 2.0, 0.0]]]], [[[0.0, 5.0]]]) = [[[[7, 5]]]]`; NaN if one is, -inf for an empty window.",
    inputs=("data", "weight"),
    attrs=Dilation2dAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=product_rule("image.dilation2d", NARROW),
    kernels=(Kernel("dilate", bodies.dilate, attrs=_geometry, views=("dims",), cuda=cuda.dilate(_geometry)),),
)
