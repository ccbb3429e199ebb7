"""A 1x1 convolution with a bias and bounds, and the depthwise convolution of its result, as one operator.

The compiler makes calls of it for the CPU (``compiler/passes/fuse_expansions``).  A call that no kernel takes, of another
dtype, with different strides or with dilation, is two convolutions.
"""

from __future__ import annotations

import math
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import per_axis, sides
from ....shape_funcs.symbolic.dim import Dim, dim, product
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...composition.composite import Term, call
from ...composition.legalize import legalized
from ...core.dtype_rules import FLOATS, require, require_same
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...core.op import Op, OpPattern, TypeRelError, get
from ...core.tensor_types import ITEMSIZE
from ...kernels.conv import tiles
from ...kernels.expanded_conv import cpu as expanded
from ...kernels.expanded_conv import cuda
from ...native.jit.convolution.data_taps import MOST_STEP, ZERO_BYTES
from ...native.jit.convolution.window_taps import WINDOW
from ...native.jit.products.register_tile import TILE_ROWS, panel_width
from ..arithmetic.elementwise import ClipAttrs
from .conv import Conv2dAttrs, Numbers

NAME = "nn.expanded_conv2d"
#: The dtypes that the kernel takes.
DTYPES = ("float32", "float64")
_INPUTS = ("data", "weight", "bias", "depthwise")


@frozen
class ExpandedConv2dAttrs:
    """``channels``: of the expansion and of the result; ``strides``, ``padding``, ``dilation``: of the depthwise convolution, as
    of ``nn.conv2d``; ``a_min``, ``a_max``: inclusive bounds of the expansion."""

    channels: int
    strides: Numbers = 1
    padding: Numbers = 0
    dilation: Numbers = 1
    a_min: float = 0.0
    a_max: float = math.inf


def has_bands(strides: Numbers, dilation: Numbers) -> bool:
    """Whether the kernel takes a depthwise convolution with these attributes."""
    steps = per_axis(strides, 2, "strides")
    return steps[0] == steps[1] <= MOST_STEP and per_axis(dilation, 2, "dilation") == (1, 1)


def _rule(dtypes: tuple[Any, ...], attrs: ExpandedConv2dAttrs) -> str:
    require(NAME, dtypes[0], FLOATS, 0, "data")
    for name, bound in (("a_min", attrs.a_min), ("a_max", attrs.a_max)):
        if math.isnan(bound):
            raise TypeRelError(f"{name} is NaN, which is no bound")
    return require_same(NAME, dtypes, (0, 1, 2, 3), _INPUTS)


def _is_expanded(dtypes: tuple[Any, ...], attrs: ExpandedConv2dAttrs) -> bool:
    return not (dtypes[0] in DTYPES and has_bands(attrs.strides, attrs.dilation))


def _two_convolutions(op: Op, inputs: tuple[Term, Term, Term, Term], attrs: ExpandedConv2dAttrs) -> Term:
    data, weight, bias, depthwise = inputs
    op.shape_func.body(tuple(term.operand for term in inputs), attrs)  # its refusals name this operator's inputs
    wide = call(get("nn.bias_add"), call(get("nn.conv2d"), data, weight), bias)
    limited = call(get("clip"), wide, attrs=ClipAttrs(attrs.a_min, attrs.a_max))
    given = Conv2dAttrs(strides=attrs.strides, padding=attrs.padding, dilation=attrs.dilation, groups=attrs.channels)
    result: Term = call(get("nn.conv2d"), limited, depthwise, attrs=given)
    return result


# ---- sizes of the kernel: the functions of these names in ``kernels/expanded_conv/cpu`` --------------------------------------


def _itemsize(call: OpCall) -> int:
    return ITEMSIZE[call.inputs[0].dtype]


def _step(call: OpCall) -> int:
    return per_axis(call.attrs.strides, 2, "strides")[0]


def _rows(call: OpCall) -> Dim:
    """The rows of the result of a band."""
    _, inputs, _, width = call.inputs[0].shape
    out_rows = call.outputs[0].shape[2]
    most = max_(expanded.PACKED_BYTES // max_(inputs * width * _itemsize(call), 1) // _step(call), expanded.LEAST_ROWS)
    bands = max_((out_rows + most - 1) // most, 1)
    return max_((out_rows + bands - 1) // bands, 1)


def _pitch(call: OpCall) -> Dim:
    """The elements from an expanded channel to the next."""
    width: Dim = call.inputs[0].shape[3]
    return ((_rows(call) - 1) * _step(call) + WINDOW) * width + expanded.GAP_BYTES // _itemsize(call)


def _together(call: OpCall) -> Dim:
    """The expanded channels that are convolved together."""
    count = expanded.EXPANDED_BYTES // (_pitch(call) * _itemsize(call)) // TILE_ROWS
    return min_(max_(count, expanded.LEAST_TILES), expanded.MOST_TILES) * TILE_ROWS


def _tiles(call: OpCall) -> Dim:
    tiles: Dim = (call.inputs[1].shape[0] + TILE_ROWS - 1) // TILE_ROWS
    return tiles


def _blocks(call: OpCall) -> Dim:
    batch, _, out_rows, _ = call.outputs[0].shape
    rows = _rows(call)
    return batch * ((out_rows + rows - 1) // rows) * _tiles(call)


def _work(call: OpCall) -> Dim:
    """Multiplications, each two units of cost; those of windows take twice as long."""
    batch, inputs, height, width = call.inputs[0].shape
    expansion = batch * height * width * inputs * call.inputs[1].shape[0]
    return 2 * expansion + 4 * product(call.outputs[0].shape) * WINDOW * WINDOW


def _packed(call: OpCall) -> Dim:
    """The data of a band, in whole panels."""
    inputs, width = call.inputs[0].shape[1], panel_width(_itemsize(call))
    return inputs * ((_pitch(call) + width - 1) // width * width)


Op(
    name=NAME,
    doc="`nn.conv2d` of `data[N, I, H, W]` by `weight[channels, I, 1, 1]`, `bias[channels]` added, limited to [a_min, a_max]; "
    "then `nn.conv2d` of each channel by a window of `depthwise[channels, 1, 3, 3]`.  The compiler makes it of these calls for "
    "the CPU, where one kernel stores no expanded data.",
    inputs=_INPUTS,
    attrs=ExpandedConv2dAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_rule,
    kernels=(
        Kernel(
            "bands",
            expanded.bands,
            views=("dims", "dims", "flat", "flat", "dims"),
            attrs=lambda attrs: {
                "step": per_axis(attrs.strides, 2, "strides")[0],
                "before": sides(attrs.padding, 2)[0],
                "least": float(attrs.a_min),
                "most": float(attrs.a_max),
            },
            scratch=(
                Scratch(length=_packed),
                Scratch(length=lambda call: tiles.APART * call.inputs[0].shape[1]),
                Scratch(length=lambda call: _together(call) * _pitch(call)),
                Scratch(length=lambda call: call.inputs[1].shape[0] * (WINDOW - _step(call)) * call.inputs[0].shape[3]),
                Scratch(length=lambda call: dim(ZERO_BYTES // _itemsize(call))),
            ),
            blocks=Blocks(_blocks, _work, _tiles),
            finishes=2,
            cuda=cuda.expanded_convolution,
        ),
    ),
    legalization=legalized(_is_expanded, _two_convolutions),
)
