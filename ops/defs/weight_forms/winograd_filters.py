"""Convolution with a constant weight that is stored twice: as it is, and transformed for Winograd's algorithm.

The transformed weight has 16 elements for 9.  Small results need the weight as it is: tiles of Winograd's algorithm would mostly
be empty.
"""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import SPATIAL
from ...core.dtype_rules import require_same
from ...core.op import Op, OpPattern, get
from ...strategy.convolution.conv_strategy import kernels_with_filters
from ..convolution.conv import Conv2dAttrs, geometry, product_rule

NAME = "nn.winograd_conv2d"


@frozen
class ConvolutionWithFiltersAttrs(Conv2dAttrs):
    """As Conv2dAttrs."""


def _rule(dtypes: tuple[Any, ...], attrs: ConvolutionWithFiltersAttrs) -> str | tuple[str, ...]:
    require_same(NAME, dtypes, (0, 1, 2), ("data", "weight", "filters"))
    return product_rule(NAME, integers=())(dtypes, attrs)


Op(
    name=NAME,
    doc="`nn.conv2d` with the weight, and with `filters`, the weight transformed for Winograd's algorithm: `[16, O, I]`, the "
    "elements of `G w G^T` for its strides by rows first.  The compiler stores constant weights so.",
    inputs=("data", "weight", "filters"),
    attrs=ConvolutionWithFiltersAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_rule,
    kernels=kernels_with_filters(lambda attrs: geometry(attrs, len(SPATIAL[2]))),
    plain=get("nn.conv2d"),
)
