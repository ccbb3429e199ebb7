"""Shapes of window operators over one, two or three spatial axes: convolution and pooling.

A layout has one letter per axis: N batch, C channels, O and I output and input channels of a kernel; the other letters are
spatial axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...symbolic.argument_checks import need_rank, same_size
from ...symbolic.dim import Dim, Shape, dim
from ...symbolic.dim_operations import eq, le, where
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func

#: Transformed elements of a window of 3 x 3 in Winograd's algorithm.
WINOGRAD_FILTERS = 16
#: Inputs of ``nn.expanded_conv2d``, in messages; rows and columns of its window.
EXPANDED_INPUTS, EXPANDED_WINDOW = ("the data", "the weight", "the bias", "the depthwise weight"), 3
#: Inputs of ``nn.byte_conv2d``, in messages; the bytes of a word of its weight, the output channels of a tile, and those of a
#: tile of the form ``blocks``, whose blocks have as many words of each.
BYTE_INPUTS, BYTE_WORD, BYTE_ROWS, BYTE_BLOCK = ("the data", "words", "start", "pad"), 4, 8, 16
#: Letters of the spatial axes, by their number.
SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def data_layouts(rank: int) -> tuple[str, str]:
    """The layouts of data with ``rank`` spatial axes: channels first, channels last."""
    return f"NC{SPATIAL[rank]}", f"N{SPATIAL[rank]}C"


def kernel_layouts(rank: int) -> tuple[str, str, str, str]:
    """The layouts of a convolution's kernel with ``rank`` spatial axes."""
    return f"OI{SPATIAL[rank]}", f"{SPATIAL[rank]}IO", f"O{SPATIAL[rank]}I", f"{SPATIAL[rank]}OI"


def per_axis(value: int | Sequence[int], rank: int, what: str, least: int = 1) -> tuple[int, ...]:
    """One number per spatial axis; a single number holds for all axes.

    Raises ShapeError for any other count, or for a number less than ``least``.
    """
    numbers = (value,) if isinstance(value, int) else tuple(value)
    if len(numbers) not in (1, rank):
        raise ShapeError(f"{what} must have {_counts(sorted({1, rank}))}, not {len(numbers)}")
    _at_least(numbers, what, least)
    return numbers * rank if len(numbers) == 1 else numbers


def sides(padding: int | Sequence[int], rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before and after each spatial axis, in elements.

    ``padding``: one number for all axes, one number per axis for both ends, or the numbers before all axes, then after all axes.
    Raises ShapeError for any other count, or for a negative number.
    """
    numbers = (padding,) if isinstance(padding, int) else tuple(padding)
    if len(numbers) not in (1, rank, 2 * rank):
        raise ShapeError(f"padding must have {_counts(sorted({1, rank, 2 * rank}))}, not {len(numbers)}")
    _at_least(numbers, "padding", 0)
    if len(numbers) == 2 * rank:
        return numbers[:rank], numbers[rank:]
    return (numbers * rank, numbers * rank) if len(numbers) == 1 else (numbers, numbers)


def _counts(valid: Sequence[int]) -> str:
    words = [str(n) for n in valid]
    return (", ".join(words[:-1]) + " or " if words[:-1] else "") + f"{words[-1]} number{'' if valid[-1] == 1 else 's'}"


def _at_least(given: Sequence[int], what: str, least: int) -> None:
    for number in given:
        if number < least:
            raise ShapeError(f"{what} must be at least {least}, not {number}")


def layout_in(layout: str, valid: Sequence[str], what: str) -> str:
    """``layout``.  Raises ShapeError if it is not in ``valid``."""
    if layout not in valid:
        raise ShapeError(f"{what} must be {' or '.join(map(repr, valid))}, not {layout!r}")
    return layout


def in_layout(shape: Shape, layout: str) -> tuple[Dim, Dim, Shape]:
    """The two non-spatial sizes (N and C, or O and I) and the spatial sizes of a shape in ``layout``."""
    first, second = (layout.index(letter) for letter in ("NC" if "N" in layout else "OI"))
    return shape[first], shape[second], tuple(d for axis, d in enumerate(shape) if axis not in (first, second))


def shape_in_layout(batch: Dim, channels: Dim, spatial: Shape, layout: str) -> Shape:
    """The shape of data in ``layout``: the inverse of ``in_layout``."""
    return (batch, channels, *spatial) if layout[1] == "C" else (batch, *spatial, channels)


def window_positions(size: Dim, padding: int, window: Dim, dilation: int, stride: int, axis: str, ceil_mode: bool = False) -> Dim:
    """The number of window positions along an axis: ``(size + padding - span) // stride + 1``.

    ``padding``: the sum over both ends; ``span``: the extent of the dilated window.  ``ceil_mode`` rounds the quotient up.
    Data that are shorter than the window by no more than a stride have no position; shorter data have no number of positions.
    """
    span = (window - 1) * dilation + 1
    padded = size + padding
    check(le(1, window), f"the window is empty along {axis}", input=1)
    # the "+ 1" is a stride inside the quotient: more sums are then known to be nonnegative
    reach = padded + stride + (stride - 1 if ceil_mode else 0)
    check(le(span, reach), f"along {axis} the window covers {{}} elements, the padded data has {{}}", span, padded, input=0)
    return (reach - span) // stride


# ---- convolution ---------------------------------------------------------------------------------------------------


def _convolution(rank: int) -> None:
    @register_shape_func(f"nn.conv{rank}d")
    def conv(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
        """Data and kernel in the layouts of ``attrs``; the result in ``out_layout``, by default the layout of the data."""
        return _convolved(*inputs, attrs, rank)


def _convolved(data: Operand, weight: Operand, attrs: Any, rank: int) -> Shape:
    need_rank(data, rank + 2, "the data", 0)
    need_rank(weight, rank + 2, "the weight", 1)
    layouts = data_layouts(rank)
    data_layout = layout_in(attrs.data_layout, layouts, "data_layout")
    kernel_layout = layout_in(attrs.kernel_layout, kernel_layouts(rank), "kernel_layout")
    out_layout = layout_in(attrs.out_layout or data_layout, layouts, "out_layout")
    batch, channels, spatial = in_layout(data.shape, data_layout)
    out_channels, taken, kernel = in_layout(weight.shape, kernel_layout)
    out_channels = _channels(channels, out_channels, taken, attrs)
    if attrs.kernel_size is not None:
        stated = per_axis(attrs.kernel_size, rank, "kernel_size")
        message = "kernel_size says {}, the weight has {}"
        kernel = tuple(same_size(dim(k), own, message, 1) for k, own in zip(stated, kernel, strict=True))
    return shape_in_layout(batch, out_channels, _window_counts(spatial, kernel, attrs, rank), out_layout)


@register_shape_func("nn.winograd_conv2d")
def with_filters(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """The shape of ``nn.conv2d``; ``filters[16, O, I]`` has the channels of the weight."""
    data, weight, filters = inputs
    need_rank(filters, 3, "filters", 2)
    shape = _convolved(data, weight, attrs, 2)
    outputs, taken, _ = in_layout(weight.shape, attrs.kernel_layout)
    wanted = zip(("products", "output channels", "input channels"), (dim(WINOGRAD_FILTERS), outputs, taken), strict=True)
    for axis, (what, size) in enumerate(wanted):
        same_size(filters.shape[axis], size, f"filters has {{}} {what}, the convolution needs {{}}", 2, axis)
    return shape


@register_shape_func("nn.expanded_conv2d")
def expanded(inputs: tuple[Operand, Operand, Operand, Operand], attrs: Any) -> Shape:
    """``data[N, I, H, W]`` expanded by ``weight[C, I, 1, 1]`` and ``bias[C]``, then a window of ``depthwise[C, 1, 3, 3]``."""
    data, weight, bias, depthwise = inputs
    for position, (operand, rank, what) in enumerate(zip(inputs, (4, 4, 1, 4), EXPANDED_INPUTS, strict=True)):
        need_rank(operand, rank, what, position)
    channels = same_size(dim(attrs.channels), weight.shape[0], "channels says {}, the weight gives {}", 1)
    check(
        eq(data.shape[1], weight.shape[1]),
        "the data has {} channels, the weight takes {}",
        *(data.shape[1], weight.shape[1]),
        input=1,
    )
    wanted = (
        (weight, 1, (None, None, 1, 1)),
        (bias, 2, (channels,)),
        (depthwise, 3, (channels, 1, EXPANDED_WINDOW, EXPANDED_WINDOW)),
    )
    for operand, position, sizes in wanted:
        for axis, size in enumerate(sizes):
            if size is not None:
                message = f"axis {axis} of {EXPANDED_INPUTS[position]} has {{}} elements, not {{}}"
                same_size(operand.shape[axis], dim(size), message, position, axis)
    window = (dim(EXPANDED_WINDOW),) * 2
    return (data.shape[0], channels, *_window_counts(data.shape[2:], window, attrs, 2))


@register_shape_func("nn.byte_conv2d")
def of_words(inputs: tuple[Operand, Operand, Operand, Operand], attrs: Any) -> Shape:
    """``data[N, C, H, W]`` by ``words[groups, tiles, steps, rows]`` of a window of ``kernel_size``; ``start[O]``, one ``pad``."""
    data, words, start, pad = inputs
    for position, (operand, rank, what) in enumerate(zip(inputs, (4, 4, 1, 1), BYTE_INPUTS, strict=True)):
        need_rank(operand, rank, what, position)
    batch, channels, *spatial = data.shape
    groups, taps = attrs.groups, per_axis(attrs.kernel_size, 2, "kernel_size")
    outputs = _channels(channels, start.shape[0], channels // max(groups, 1), attrs)
    inner, each = channels // groups, outputs // groups
    rows = dim(BYTE_BLOCK) if attrs.form == "blocks" else where(eq(each, 1), 1, BYTE_ROWS)
    height, width = taps
    deep = BYTE_WORD if attrs.form == "channels" else BYTE_WORD * BYTE_BLOCK
    steps = (inner + deep - 1) // deep * (deep // BYTE_WORD * height * width)
    if attrs.form == "columns":
        steps = inner * (height * -(-width // BYTE_WORD))
    wanted = (("groups", dim(groups)), ("tiles", (each + rows - 1) // rows), ("steps", steps), ("rows of a tile", rows))
    for axis, (what, size) in enumerate(wanted):
        same_size(words.shape[axis], size, f"words has {{}} {what}, the convolution needs {{}}", 1, axis)
    same_size(pad.shape[0], dim(1), "pad has {} elements, not {}", 3, 0)
    return (batch, outputs, *_window_counts(tuple(spatial), tuple(map(dim, taps)), attrs, 2))


def _channels(channels: Dim, out_channels: Dim, taken: Dim, attrs: Any) -> Dim:
    """The number of output channels, after the checks of channels and groups."""
    groups = attrs.groups
    if groups < 1:
        raise ShapeError(f"groups must be at least 1, not {groups}")
    each = f"{{}} in each of {groups} groups" if groups > 1 else "{}"
    check(eq(channels, taken * groups), f"the data has {{}} channels, the weight takes {each}", channels, taken, input=1)
    if getattr(attrs, "channels", None) is not None:
        out_channels = same_size(dim(attrs.channels), out_channels, "channels says {}, the weight gives {}", 1)
    check(eq(out_channels % groups, 0), f"{{}} channels of the result do not make {groups} groups", out_channels, input=1)
    return out_channels


def _window_counts(spatial: Shape, window: Shape, attrs: Any, rank: int, ceil_mode: bool = False) -> Shape:
    strides = per_axis(attrs.strides, rank, "strides")
    dilation = per_axis(attrs.dilation, rank, "dilation")
    before, after = sides(attrs.padding, rank)
    return tuple(
        window_positions(size, before[k] + after[k], window[k], dilation[k], strides[k], SPATIAL[rank][k], ceil_mode)
        for k, size in enumerate(spatial)
    )


# ---- pooling -------------------------------------------------------------------------------------------------------


def _data(x: Operand, attrs: Any, rank: int) -> tuple[Dim, Dim, Shape, str]:
    """Batch, channels and spatial sizes of the data, and the layout of the result."""
    need_rank(x, rank + 2, "the data", 0)
    layouts = data_layouts(rank)
    layout = layout_in(attrs.layout, layouts, "layout")
    return *in_layout(x.shape, layout), layout_in(attrs.out_layout or layout, layouts, "out_layout")


def _pool(name: str, rank: int) -> None:
    @register_shape_func(name)
    def pool(inputs: tuple[Operand], attrs: Any) -> Shape:
        """The number of window positions along each spatial axis."""
        batch, channels, spatial, layout = _data(inputs[0], attrs, rank)
        window = tuple(map(dim, per_axis(attrs.pool_size, rank, "pool_size")))
        return shape_in_layout(batch, channels, _window_counts(spatial, window, attrs, rank, attrs.ceil_mode), layout)


def _adaptive_pool(name: str, rank: int) -> None:
    @register_shape_func(name)
    def adaptive_pool(inputs: tuple[Operand], attrs: Any) -> Shape:
        """``output_size`` windows along each spatial axis; None: the size of the axis."""
        batch, channels, spatial, layout = _data(inputs[0], attrs, rank)
        if attrs.output_size is not None:
            spatial = tuple(map(dim, per_axis(attrs.output_size, rank, "output_size")))
        return shape_in_layout(batch, channels, spatial, layout)


def _global_pool(name: str) -> None:
    @register_shape_func(name)
    def global_pool(inputs: tuple[Operand], attrs: Any) -> Shape:
        """Every spatial axis of size 1."""
        batch, channels, spatial, layout = _data(inputs[0], attrs, 2)
        return shape_in_layout(batch, channels, (dim(1),) * len(spatial), layout)


for _rank in SPATIAL:
    _convolution(_rank)
    for _kind in ("max", "avg"):
        _pool(f"nn.{_kind}_pool{_rank}d", _rank)
        _adaptive_pool(f"nn.adaptive_{_kind}_pool{_rank}d", _rank)
for _kind in ("max", "avg"):
    _global_pool(f"nn.global_{_kind}_pool2d")


# ---- weights ---------------------------------------------------------------------------------------------------------


@register_shape_func("nn.contrib_conv2d_gemm_weight_transform")
def gemm_tiles(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The numbers of tiles along the outputs and along the rows of the weight's matrix, rounded up, and the shape of a tile."""
    (weights,) = inputs
    need_rank(weights, 4, "the weight", 0)
    for what in ("tile_rows", "tile_cols"):
        if getattr(attrs, what) < 1:
            raise ShapeError(f"{what} must be at least 1, not {getattr(attrs, what)}")
    height, width, channels, outputs = weights.shape
    tile = dim(attrs.tile_rows), dim(attrs.tile_cols)
    counts = ((size + part - 1) // part for size, part in zip((outputs, height * width * channels), tile, strict=True))
    return (*counts, *tile)
