"""Convolution over one, two or three spatial axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import SPATIAL, data_layouts, in_layout, kernel_layouts, layout_in, per_axis, sides
from ....shape_funcs.symbolic.dim import Dim, IntLike
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, composite
from ...composition.legalize import legalized
from ...core.dtype_rules import FLOATS, INTEGERS, NUMBERS, one_of, require, require_same
from ...core.input_types import from_data, stated
from ...core.op import DTypeRule, InputRule, Op, OpPattern, get
from ...core.tensor_types import TensorType
from ...strategy.convolution.conv_strategy import kernels
from ..arithmetic.integer_products import by_limbs, of_integers
from ..movement.blocked_layouts import is_blocked, out_layouts, plain, relaid

Numbers = int | tuple[int, ...]


@frozen
class Conv1dAttrs:
    """``strides``, ``dilation``: one number, or one per axis; ``padding`` with zeros: one number, one per axis, or one before all
    axes, then after all axes; ``groups``: number of groups of channels; ``channels``: output channels, ``kernel_size``: spatial
    sizes of the weight, both None to derive them from the weight; layouts: one letter per axis, perhaps
    with inner axes (``NCHW4c``), ``out_layout`` "" is the data's; ``out_dtype``: "" for the data's."""

    strides: Numbers = 1
    padding: Numbers = 0
    dilation: Numbers = 1
    groups: int = 1
    channels: int | None = None
    kernel_size: Numbers | None = None
    data_layout: str = data_layouts(1)[0]
    kernel_layout: str = kernel_layouts(1)[0]
    out_layout: str = ""
    out_dtype: str = ""


@frozen
class Conv2dAttrs(Conv1dAttrs):
    """As Conv1dAttrs, over two axes."""

    data_layout: str = data_layouts(2)[0]
    kernel_layout: str = kernel_layouts(2)[0]


@frozen
class Conv3dAttrs(Conv1dAttrs):
    """As Conv1dAttrs, over three axes."""

    data_layout: str = data_layouts(3)[0]
    kernel_layout: str = kernel_layouts(3)[0]


def three_axes(numbers: tuple[int, ...], missing: int) -> tuple[int, ...]:
    """``numbers`` of the spatial axes, extended to three axes by leading ``missing``."""
    return (missing,) * (3 - len(numbers)) + numbers


def window(attrs: Any, rank: int) -> dict[str, Any]:
    """The steps of the window as keyword arguments of bodies (``kernels.conv.geometry.Window``)."""
    stride, dilation = (
        three_axes(per_axis(attrs.strides, rank, "strides"), 1),
        three_axes(per_axis(attrs.dilation, rank, "dilation"), 1),
    )
    before = three_axes(sides(attrs.padding, rank)[0], 0)
    return {"stride": stride, "before": before, "dilation": dilation}


def geometry(attrs: Any, rank: int) -> dict[str, Any]:
    """The attributes as keyword arguments of the body."""
    layouts = data_layouts(rank)
    order = kernel_layouts(rank).index(attrs.kernel_layout)  # the body's numbering of layouts
    return {
        "groups": attrs.groups,
        **window(attrs, rank),
        "layouts": (order, attrs.data_layout == layouts[1], (attrs.out_layout or attrs.data_layout) == layouts[1]),
    }


def product_rule(name: str, integers: tuple[str, ...] = INTEGERS) -> DTypeRule:
    """Rule: data and weight have the same float dtype, or are of ``integers``; the result has that of the data, unless
    ``out_dtype`` states its dtype."""

    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
        whole = set(dtypes) <= {*integers}
        own = dtypes[0] if whole else require_same(name, dtypes, (0, 1), ("data", "weight"))
        require(name, own, FLOATS + integers, 0, "data")
        if attrs.out_dtype:
            one_of(name, "out_dtype", attrs.out_dtype, NUMBERS if whole else FLOATS)
        return str(attrs.out_dtype) or str(own)

    return rule


def weight_rule(
    name: str, rank: int, layouts: tuple[str, ...], sizes: Callable[[Any, Dim], tuple[IntLike, IntLike]]
) -> InputRule:
    """The rule of a weight in one of ``layouts``; ``sizes(attrs, channels of the data)``: its sizes along O and I."""

    def weight(attrs: Any, data: TensorType) -> tuple[TensorType, ...]:
        stated(name, attrs, "channels", "kernel_size")
        if attrs.groups < 1:
            raise ShapeError(f"groups must be at least 1, not {attrs.groups}")
        layout = layout_in(attrs.kernel_layout, layouts, "kernel_layout")
        channels = in_layout(data.shape, layout_in(attrs.data_layout, data_layouts(rank), "data_layout"))[1]
        outputs, inputs = sizes(attrs, channels)
        window = per_axis(attrs.kernel_size, rank, "kernel_size")
        size: dict[str, IntLike] = {"O": outputs, "I": inputs, **dict(zip(SPATIAL[rank], window, strict=True))}
        return (TensorType.of([size[letter] for letter in layout], data.dtype),)

    return from_data(weight, rank + 2)


def _blocked(attrs: Any) -> bool:
    return is_blocked(attrs.data_layout, attrs.kernel_layout, attrs.out_layout)


def _in_plain_layouts(op: Op, inputs: tuple[Term, Term], attrs: Any) -> Term:
    data, weight = inputs
    of_data, of_weight = plain(attrs.data_layout, "data_layout"), plain(attrs.kernel_layout, "kernel_layout")
    out, of_result = out_layouts(attrs, attrs.data_layout)
    given = relaid(data, attrs.data_layout, of_data), relaid(weight, attrs.kernel_layout, of_weight)
    plainly = replace(attrs, data_layout=of_data, kernel_layout=of_weight, out_layout=of_result)
    return relaid(call(op, *given, attrs=plainly), of_result, out)


def _convolution(rank: int, attrs: type) -> Op:
    name = f"nn.conv{rank}d"
    return Op(
        name=name,
        doc=f"Convolution over {rank} spatial {'axis' if rank == 1 else 'axes'}: each output channel is the sum, over input "
        f"channels and window, of the padded `data[{', '.join(data_layouts(rank)[0])}]` times "
        f"`weight[{', '.join(kernel_layouts(rank)[0])}]`.",
        inputs=("data", "weight"),
        attrs=attrs,
        pattern=OpPattern.OPAQUE,
        dtype=product_rule(name),
        kernels=kernels(rank, lambda attrs: geometry(attrs, rank)),
        infer_inputs=weight_rule(name, rank, kernel_layouts(rank), lambda attrs, c: (attrs.channels, c // attrs.groups)),
        legalization=legalized(
            lambda dtypes, attrs: _blocked(attrs) or of_integers(dtypes, attrs),
            lambda op, inputs, attrs: (_in_plain_layouts if _blocked(attrs) else by_limbs)(op, inputs, attrs),
        ),
    )


for _rank, _attrs in zip(SPATIAL, (Conv1dAttrs, Conv2dAttrs, Conv3dAttrs), strict=True):
    _convolution(_rank, _attrs)


# ---- Relay's names of convolutions in blocked layouts ---------------------------------------------------------------------


@frozen
class ConvNCHWcAttrs(Conv2dAttrs):
    """As Conv2dAttrs, in a layout with inner axes of channels."""

    data_layout: str = "NCHW8c"


def _conv2d(inputs: tuple[Term, Term], attrs: ConvNCHWcAttrs) -> Term:
    result: Term = call(get("nn.conv2d"), *inputs, attrs=Conv2dAttrs(**vars(attrs)))
    return result


for _name, _groups in (("nn.contrib_conv2d_NCHWc", ""), ("nn.contrib_depthwise_conv2d_NCHWc", ", in `groups` of channels")):
    composite(
        name=_name,
        doc=f"`nn.conv2d` of data in a layout with inner axes, such as `NCHW8c`{_groups}; computed as `nn.conv2d`.",
        inputs=("data", "kernel"),
        attrs=ConvNCHWcAttrs,
        dtype=product_rule(_name),
        expand=_conv2d,
    )
