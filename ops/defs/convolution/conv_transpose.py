"""Transposed convolution over one, two or three spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import SPATIAL, data_layouts
from ....shape_funcs.defs.convolution.conv_transpose import transposed_layouts
from ....shape_funcs.symbolic.dim import Dim, dim, product
from ....shape_funcs.symbolic.dim_operations import le, max_, min_, where
from ...composition.legalize import legalized
from ...core.implementation import Kernel, OpCall, Scratch
from ...core.op import Op, OpPattern
from ...kernels.conv import cudnn
from ...kernels.conv_transpose import cpu as bodies
from ...kernels.conv_transpose import cuda as cuda
from ...strategy.products.matmul_strategy import GEMM, is_one_float
from ..arithmetic.integer_products import by_limbs, of_integers
from .conv import Numbers, product_rule, weight_rule, window


@frozen
class Conv1dTransposeAttrs:
    """``strides``, ``dilation``: one number, or one per axis; ``padding``, cropped from the result: one number, one per axis, or
    one before all axes, then after all axes; ``output_padding``: additional elements at the end of each axis; ``groups``: number
    of groups of channels; ``channels``: output channels, ``kernel_size``: spatial sizes of the weight, both None to derive them
    from the weight; layouts: one letter per axis, the kernel's I is the channels of the data and O the output channels of a
    group, ``out_layout`` "" is the data's; ``out_dtype``: "" for the data's."""

    strides: Numbers = 1
    padding: Numbers = 0
    dilation: Numbers = 1
    groups: int = 1
    channels: int | None = None
    kernel_size: Numbers | None = None
    data_layout: str = data_layouts(1)[0]
    kernel_layout: str = transposed_layouts(1)[0]
    out_layout: str = ""
    output_padding: Numbers = 0
    out_dtype: str = ""


@frozen
class Conv2dTransposeAttrs(Conv1dTransposeAttrs):
    """As Conv1dTransposeAttrs, over two axes."""

    data_layout: str = data_layouts(2)[0]
    kernel_layout: str = transposed_layouts(2)[0]


@frozen
class Conv3dTransposeAttrs(Conv1dTransposeAttrs):
    """As Conv1dTransposeAttrs, over three axes."""

    data_layout: str = data_layouts(3)[0]
    kernel_layout: str = transposed_layouts(3)[0]


def _geometry(attrs: Any, rank: int) -> dict[str, Any]:
    """The attributes as keyword arguments of the body."""
    last = data_layouts(rank)[1]
    return {
        "groups": attrs.groups,
        **window(attrs, rank),
        "layouts": (
            attrs.kernel_layout == transposed_layouts(rank)[1],
            attrs.data_layout == last,
            (attrs.out_layout or attrs.data_layout) == last,
        ),
    }


def _space(shape: Sequence[Dim], layout: str) -> tuple[Dim, ...]:
    """The spatial sizes of data, result or weight in ``layout``."""
    return tuple(d for d, letter in zip(shape, layout, strict=True) if letter not in "NCIO")


def _bytes_of_products(call: OpCall) -> Dim:
    """The number of elements of a tile of products; 0 if the direct method is certain."""
    (data, weight), attrs = (t.shape for t in call.inputs), call.attrs
    inputs, outputs = (weight[attrs.kernel_layout.index(letter)] for letter in "IO")
    terms, positions = outputs * product(_space(weight, attrs.kernel_layout)), product(_space(data, attrs.data_layout))
    tile = terms * min_(positions, max_(bodies.LEAST_POSITIONS, bodies.COLUMNS // max_(terms, 1)))
    return where(le(attrs.groups * bodies.LEAST_CHANNELS, inputs), tile, 0) if is_one_float(call) else dim(0)


def _bytes_of_a_row(call: OpCall) -> Dim:
    """The number of columns of the result."""
    return _space(call.outputs[0].shape, call.attrs.out_layout or call.attrs.data_layout)[-1]


def _transposed(rank: int, attrs: type) -> Op:
    name = f"nn.conv{rank}d_transpose"

    def constants(attrs: Any) -> dict[str, Any]:
        return _geometry(attrs, rank)

    def by_cudnn(call: OpCall) -> bool:
        """Whether cuDNN may have engines for these layouts and dtypes."""
        data, weight, out = call.inputs[0].dtype, call.inputs[1].dtype, call.outputs[0].dtype
        return cudnn.supports_transposed(constants(call.attrs), data, weight, out)

    return Op(
        name=name,
        doc=f"Transposed convolution over {rank} spatial {'axis' if rank == 1 else 'axes'}: each element of "
        f"`data[{', '.join(data_layouts(rank)[0])}]` adds `weight[{', '.join(transposed_layouts(rank)[0])}]` times itself to the "
        "result, from `strides` times its index on.",
        inputs=("data", "weight"),
        attrs=attrs,
        pattern=OpPattern.OPAQUE,
        dtype=product_rule(name),
        legalization=legalized(of_integers, by_limbs),
        kernels=(
            Kernel(
                "cudnn",
                None,
                attrs=constants,
                views=("dims",),
                cuda=cuda.transposed_convolution(constants, by_cudnn=True),
                takes=by_cudnn,
            ),
            Kernel(
                "transposed_convolution",
                bodies.transposed_directly,
                attrs=constants,
                views=("dims",),
                libraries=GEMM,
                scratch=(Scratch(length=_bytes_of_products), Scratch("float64", length=_bytes_of_a_row)),
                choose=lambda attrs, dtypes: (
                    bodies.transposed if len({*dtypes}) == 1 and dtypes[0] in GEMM else bodies.transposed_directly
                ),
                cuda=cuda.transposed_convolution(constants),
            ),
        ),
        infer_inputs=weight_rule(name, rank, transposed_layouts(rank), lambda attrs, c: (attrs.channels // attrs.groups, c)),
    )


for _rank, _attrs in zip(SPATIAL, (Conv1dTransposeAttrs, Conv2dTransposeAttrs, Conv3dTransposeAttrs), strict=True):
    _transposed(_rank, _attrs)
