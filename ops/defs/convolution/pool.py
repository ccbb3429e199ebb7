"""Pooling: the largest element, or the mean, of windows over one, two or three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import data_layouts, per_axis, sides
from ....shape_funcs.symbolic.dim import Dim, product
from ....shape_funcs.symbolic.dim_operations import max_
from ...composition.composite import Term, call, cast, number
from ...composition.legalize import legalized
from ...core.dtype_rules import FLOATS, INTEGERS, NUMBERS, like_inputs
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...core.op import Op, OpPattern
from ...core.tensor_types import ITEMSIZE, is_float
from ...kernels.pool import cpu as bodies
from ...kernels.pool import cuda as cuda
from ...native.static_values import StaticWord
from ..arithmetic.broadcast import WHERE
from ..arithmetic.elementwise import ISFINITE
from ..movement.blocked_layouts import is_blocked, out_layouts, plain, relaid
from .conv import Numbers, three_axes

#: The work for an element of a window, in units of ``ops.codegen.loop_nest.cost``.
_ELEMENT_COST = 4
#: The dtypes of the data of means.
_AVERAGED = FLOATS + tuple(d for d in INTEGERS if ITEMSIZE[d] <= 4)


@frozen
class MaxPool1dAttrs:
    """``pool_size``, ``strides``, ``dilation``: one number, or one per axis; ``padding``: one number, one per axis, or one before
    all axes, then after all axes; ``layout``: one letter per axis, ``out_layout`` "" is the same; ``ceil_mode``: whether the
    number of windows is rounded up."""

    pool_size: Numbers = 1
    strides: Numbers = 1
    dilation: Numbers = 1
    padding: Numbers = 0
    layout: str = data_layouts(1)[0]
    out_layout: str = ""
    ceil_mode: bool = False


@frozen
class MaxPool2dAttrs(MaxPool1dAttrs):
    """As MaxPool1dAttrs, over two axes."""

    layout: str = data_layouts(2)[0]


@frozen
class MaxPool3dAttrs(MaxPool1dAttrs):
    """As MaxPool1dAttrs, over three axes."""

    layout: str = data_layouts(3)[0]


@frozen
class AvgPool1dAttrs(MaxPool1dAttrs):
    """As MaxPool1dAttrs; ``count_include_pad``: whether the mean includes the padding, as zeros."""

    count_include_pad: bool = False


@frozen
class AvgPool2dAttrs(AvgPool1dAttrs):
    """As AvgPool1dAttrs, over two axes."""

    layout: str = data_layouts(2)[0]


@frozen
class AvgPool3dAttrs(AvgPool1dAttrs):
    """As AvgPool1dAttrs, over three axes."""

    layout: str = data_layouts(3)[0]


@frozen
class AdaptivePool1dAttrs:
    """``output_size``: size of the result along each axis, None for the size of the data; layouts as in MaxPool1dAttrs."""

    output_size: Numbers | None = None
    layout: str = data_layouts(1)[0]
    out_layout: str = ""


@frozen
class AdaptivePool2dAttrs(AdaptivePool1dAttrs):
    """As AdaptivePool1dAttrs, over two axes."""

    layout: str = data_layouts(2)[0]


@frozen
class AdaptivePool3dAttrs(AdaptivePool1dAttrs):
    """As AdaptivePool1dAttrs, over three axes."""

    layout: str = data_layouts(3)[0]


@frozen
class GlobalPool2dAttrs:
    """``layout``: one letter per axis; ``out_layout``: layout of the result, "" for the same."""

    layout: str = data_layouts(2)[0]
    out_layout: str = ""


def _layouts(attrs: Any, rank: int) -> dict[str, Any]:
    """Whether the channels are last, in the data and in the result."""
    last = data_layouts(rank)[1]
    return {"layouts": (attrs.layout == last, (attrs.out_layout or attrs.layout) == last)}


def _windows(attrs: Any, rank: int) -> dict[str, Any]:
    """The attributes as keyword arguments of the bodies."""
    return {
        "pool_size": three_axes(per_axis(attrs.pool_size, rank, "pool_size"), 1),
        "stride": three_axes(per_axis(attrs.strides, rank, "strides"), 1),
        "before": three_axes(sides(attrs.padding, rank)[0], 0),
        "dilation": three_axes(per_axis(attrs.dilation, rank, "dilation"), 1),
        **_layouts(attrs, rank),
    }


def _tiled_windows(attrs: Any, rank: int) -> dict[str, Any]:
    """As ``_windows``, with the columns of a window, 0 if they are not neighbours, and from a window to the next."""
    given = _windows(attrs, rank)
    taps = given["pool_size"][2] if given["dilation"][2] == 1 or given["pool_size"][2] == 1 else 0
    return {**given, "taps": StaticWord(taps), "step": StaticWord(given["stride"][2])}


def _average(attrs: Any, rank: int) -> dict[str, Any]:
    return {**_tiled_windows(attrs, rank), "count_include_pad": attrs.count_include_pad}


def _columns(call: OpCall) -> Dim:
    """The number of columns of the result."""
    return _result(call, "W")


def _columns_or_channels(call: OpCall) -> Dim:
    return max_(_result(call, "W"), _result(call, "C"))


def _result(call: OpCall, letter: str) -> Dim:
    """The size of the result along the axis ``letter``."""
    layout: str = call.attrs.out_layout or call.attrs.layout
    return call.outputs[0].shape[layout.index(letter)]


def _padded_columns(call: OpCall) -> Dim:
    """The number of columns of the data, with padding, that windows reach, and an element behind them."""
    windows = _windows(call.attrs, len(call.attrs.layout) - 2)
    size, stride, dilation = (windows[name][-1] for name in ("pool_size", "stride", "dilation"))
    count: Dim = (_columns(call) - 1) * stride + (size - 1) * dilation + 2
    return count


def _blocks_of_largest(call: OpCall) -> Dim:
    """The channels of all elements of the batch, or if channels are last all places of the result."""
    shape, is_last = call.outputs[0].shape, _windows(call.attrs, len(call.attrs.layout) - 2)["layouts"][0]
    return product(shape) // max_(_result(call, "C"), 1) if is_last else shape[0] * _result(call, "C")


def _compared(call: OpCall) -> Dim:
    """The work of all windows: of each element that is compared."""
    windows = _windows(call.attrs, len(call.attrs.layout) - 2)
    work: Dim = product(call.outputs[0].shape) * (_ELEMENT_COST * math.prod(windows["pool_size"]))
    return work


def _in_plain_layout(op: Op, inputs: tuple[Term], attrs: Any) -> Term:
    own = plain(attrs.layout, "layout")
    out, plain_out = out_layouts(attrs, attrs.layout)
    result = call(op, relaid(inputs[0], attrs.layout, own), attrs=replace(attrs, layout=own, out_layout=plain_out))
    return relaid(result, plain_out, out)


#: The bodies of means.
_MEANS = (bodies.avg_pool, bodies.adaptive_avg_pool)


def _whole_means(op: Op, inputs: tuple[Term], attrs: Any) -> Term:
    """Means of integers, rounded towards 0, as Relay divides; 0 for a window without elements.

    A sum of fewer than 2**21 elements of 32 bits is exact in float64, and then so is the rounded quotient.
    """
    (data,) = inputs
    mean = call(op, cast(data, "float64"), attrs=attrs)
    return cast(call(WHERE, call(ISFINITE, mean), mean, number(0, "float64")), data.dtype)


def _largest(attrs: Any, dtypes: tuple[str, ...]) -> Callable[..., int]:
    if is_float(dtypes[0]):
        return bodies.max_pool_floats
    return bodies.max_pool_unsigned if dtypes[0].startswith("u") else bodies.max_pool_signed


def _pool(
    name: str, doc: str, attrs: type, rank: int, body: Callable[..., int], on_cuda: Any, constants: Any, dtypes: Any, **more: Any
) -> Op:
    def of_integers(dtypes: tuple[str, ...]) -> bool:
        return body in _MEANS and not is_float(dtypes[0])

    def applies(dtypes: tuple[Any, ...], attrs: Any) -> bool:
        return is_blocked(attrs.layout, attrs.out_layout) or of_integers(dtypes)

    def expand(op: Op, inputs: tuple[Term], attrs: Any) -> Term:
        return (_in_plain_layout if is_blocked(attrs.layout, attrs.out_layout) else _whole_means)(op, inputs, attrs)

    def given(attrs: Any) -> dict[str, Any]:
        found: dict[str, Any] = constants(attrs, rank)
        return found

    return Op(
        name=name,
        doc=doc,
        inputs=("data",),
        attrs=attrs,
        pattern=OpPattern.OPAQUE,
        dtype=like_inputs(name, ["data"], dtypes),
        kernels=(Kernel(body.__name__, body, attrs=given, views=("dims",), cuda=on_cuda(given), **more),),
        legalization=legalized(applies, expand),
    )


def _pools(rank: int, largest: type, average: type, adaptive: type) -> None:
    axes = f"{rank} spatial {'axis' if rank == 1 else 'axes'}"
    _pool(
        f"nn.max_pool{rank}d",
        f"The largest element of each window over {axes}; NaN if one is; the minimum of the dtype for an empty window.",
        largest, rank, bodies.max_pool_floats, cuda.max_pool, _tiled_windows, NUMBERS, choose=_largest,
        blocks=Blocks(_blocks_of_largest, _compared), scratch=(Scratch(length=_padded_columns),),
    )  # fmt: skip
    _pool(
        f"nn.avg_pool{rank}d",
        f"The mean of each window over {axes}; 0 for a window without elements; of integers, rounded towards 0.",
        average, rank, bodies.avg_pool, cuda.avg_pool, _average, _AVERAGED,
        scratch=(Scratch("float64", length=_columns), Scratch("float64", length=_columns_or_channels)),
    )  # fmt: skip
    shared = f"windows that evenly cover {axes}"
    _pool(
        f"nn.adaptive_max_pool{rank}d",
        f"The largest element of each of `output_size` {shared}.",
        adaptive, rank, bodies.adaptive_max_pool, cuda.adaptive_max_pool, _layouts, NUMBERS,
    )  # fmt: skip
    _pool(
        f"nn.adaptive_avg_pool{rank}d",
        f"The mean of each of `output_size` {shared}; of integers, rounded towards 0.",
        adaptive, rank, bodies.adaptive_avg_pool, cuda.adaptive_avg_pool, _layouts, _AVERAGED,
    )  # fmt: skip


_pools(1, MaxPool1dAttrs, AvgPool1dAttrs, AdaptivePool1dAttrs)
_pools(2, MaxPool2dAttrs, AvgPool2dAttrs, AdaptivePool2dAttrs)
_pools(3, MaxPool3dAttrs, AvgPool3dAttrs, AdaptivePool3dAttrs)
_pool(
    "nn.global_max_pool2d",
    "The largest element of each channel: both spatial axes become 1.",
    GlobalPool2dAttrs, 2, bodies.adaptive_max_pool, cuda.adaptive_max_pool, _layouts, NUMBERS,
)  # fmt: skip
_pool(
    "nn.global_avg_pool2d",
    "The mean of each channel: both spatial axes become 1.",
    GlobalPool2dAttrs, 2, bodies.adaptive_avg_pool, cuda.adaptive_avg_pool, _layouts, _AVERAGED,
)  # fmt: skip
