"""Grey-scale dilation of pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..shape_funcs.conv import data_layouts, per_axis, sides
from ..shape_funcs.image import dilation_layouts
from .conv import Numbers, product_rule
from .implementation import Kernel
from .kernels import dilation as bodies
from .kernels.cuda import dilation as cuda
from .op import Op, OpPattern


@dataclass(frozen=True)
class Dilation2dAttrs:
    """``strides``, ``dilations``: one number, or one per axis; ``padding``, which never is the largest: one number, one per axis,
    or those of both beginnings, then of both ends; layouts: one letter per axis; ``out_dtype``: "" for the data's."""

    strides: Numbers = 1
    padding: Numbers = 0
    dilations: Numbers = 1
    data_layout: str = data_layouts(2)[0]
    kernel_layout: str = dilation_layouts()[0]
    out_dtype: str = ""


def _geometry(attrs: Dilation2dAttrs) -> dict[str, Any]:
    """The attributes as the body takes them."""
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
    "`image.dilation2d([[[[1.0, 2.0, 0.0]]]], [[[0.0, 5.0]]]) = [[[[7, 5]]]]`; NaN if one is, -inf where a window has none.",
    inputs=("data", "weight"),
    attrs=Dilation2dAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=product_rule("image.dilation2d"),
    kernels=(Kernel("dilate", bodies.dilate, attrs=_geometry, views=("dims",), cuda=cuda.dilate(_geometry)),),
)
