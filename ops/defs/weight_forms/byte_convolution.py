"""Convolution of bytes whose weight is stored in words of 4, as tiles of output channels read them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import BYTE_BLOCK as BLOCK
from ....shape_funcs.defs.convolution.conv import BYTE_ROWS as ROWS
from ....shape_funcs.defs.convolution.conv import BYTE_WORD as WORD
from ....shape_funcs.defs.convolution.conv import per_axis, sides
from ....shape_funcs.symbolic.dim import Dim, dim, product
from ....shape_funcs.symbolic.dim_operations import eq, max_, min_, where
from ...core.dtype_rules import require
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...core.op import Op, OpPattern, TypeRelError
from ...kernels.byte_conv import cpu as bodies
from ...kernels.byte_conv import cuda, geometry
from ...kernels.byte_conv.blocks import SUM_ELEMENTS
from ...kernels.byte_conv.depthwise import OF_VECTOR, ORDER
from ...kernels.byte_conv.limited import NUMBERS, PARTS, TOGETHER
from ...kernels.byte_conv.strips import MOST_LANES, PADDING
from ...kernels.byte_conv.winograd import MOST_COLUMNS, MOST_WORDS, PRODUCTS, RESULTS, TAPS
from ...native.matrix_tiles import CONFIG_BYTES

NAME = "nn.byte_conv2d"
#: The inputs, and their dtypes.
_INPUTS = {"data": "uint8", "words": "int32", "start": "int32", "pad": "uint8"}
#: The numbers of the forms in kernels.
_FORMS = {"channels": geometry.CHANNELS, "columns": geometry.COLUMNS, "blocks": geometry.BLOCKS}
#: The fewest channels of a group that are stored in blocks.
_LEAST_OF_BLOCKS = 16
#: Elements behind buffers that vectors read and write, and the fewest lanes of a vector.
_SLACK, _LANES = 64, 4


@frozen
class ByteConv2dAttrs:
    """``kernel_size``: rows and columns of the window; ``form``: the bytes of a word are of 4 ``channels``, of 4 channels in
    ``blocks`` of words, or of 4 ``columns`` of the window; the others as Conv2dAttrs."""

    kernel_size: tuple[int, int]
    form: str = "channels"
    strides: int | tuple[int, ...] = 1
    padding: int | tuple[int, ...] = 0
    dilation: int | tuple[int, ...] = 1
    groups: int = 1


def _rule(dtypes: tuple[Any, ...], attrs: ByteConv2dAttrs) -> str:
    for n, (name, dtype) in enumerate(_INPUTS.items()):
        require(NAME, dtypes[n], (dtype,), n, name)
    if attrs.form not in _FORMS:
        raise TypeRelError(f"{NAME}: form must be {' or '.join(map(repr, _FORMS))}, not {attrs.form!r}")
    if attrs.form == "columns" and per_axis(attrs.dilation, 2, "dilation")[1] != 1 and attrs.kernel_size[1] > 1:
        raise TypeRelError(f"{NAME}: words of columns take no dilation of columns")
    return "int32"


def _given(attrs: ByteConv2dAttrs) -> dict[str, Any]:
    """The attributes as keyword arguments of the body."""
    return {
        "stride": per_axis(attrs.strides, 2, "strides"),
        "before": sides(attrs.padding, 2)[0],
        "dilation": per_axis(attrs.dilation, 2, "dilation"),
        "taps": per_axis(attrs.kernel_size, 2, "kernel_size"),
        "form": _FORMS[attrs.form],
    }


def words_of(weight: np.ndarray, groups: int, form: str) -> np.ndarray:
    """The weight ``[O, I, rows, columns]`` of int8 as words ``[groups, tiles, steps, rows of a tile]``, int32.

    A tile has ROWS output channels, or one if groups have one; BLOCK in the form ``blocks``, whose steps and rows are blocks
    ``[blocks, rows and columns of the window, BLOCK rows, BLOCK words]``.  The last channels, the last bytes of words and the
    last words of blocks are padded with 0.
    """
    outputs, inputs, height, width = weight.shape
    each = outputs // groups
    rows = BLOCK if form == "blocks" else 1 if each == 1 else ROWS
    whole = weight.reshape(groups, each, inputs, height, width)
    along = 4 if form == "columns" else 2
    whole = _padded(_padded(whole, 1, rows), along, WORD)
    tiled = whole.reshape(groups, whole.shape[1] // rows, rows, *whole.shape[2:])
    if form == "columns":
        parts = tiled.reshape(*tiled.shape[:5], -1, WORD).transpose(0, 1, 3, 4, 5, 2, 6)
    elif form == "channels":
        parts = tiled.reshape(*tiled.shape[:3], -1, WORD, height, width).transpose(0, 1, 3, 5, 6, 2, 4)
    else:
        words = tiled.reshape(*tiled.shape[:3], -1, WORD, height, width)
        depth = geometry.block_depth(words.shape[3])
        blocks = _padded(words, 3, depth).reshape(*words.shape[:3], -1, depth, WORD, height, width)
        parts = _padded(blocks, 4, BLOCK).transpose(0, 1, 3, 6, 7, 2, 4, 5)
    made = np.ascontiguousarray(parts).reshape(groups, tiled.shape[1], -1, rows * WORD)
    return made.view(np.dtype("<i4"))


def _padded(array: np.ndarray, axis: int, multiple: int) -> np.ndarray:
    """The array with zeros at the end of an axis, whose size becomes a multiple of a number."""
    return np.pad(array, [(0, -size % multiple if n == axis else 0) for n, size in enumerate(array.shape)])


def best_form(inputs: int, height: int, width: int, dilation: int) -> str:
    """The form with fewer steps, for ``inputs`` channels of a group and a window; columns if they have as many.

    ``dilation``: of columns; with one, they are no neighbours.  Many channels are stored in blocks.
    """
    by_channels = -(-inputs // WORD) * height * width
    is_shorter = inputs * height * -(-width // WORD) <= by_channels
    if is_shorter and (dilation == 1 or width == 1):
        return "columns"
    return "blocks" if inputs >= _LEAST_OF_BLOCKS else "channels"


# ---- sizes of a call -----------------------------------------------------------------------------------------------------


def _out_sizes(call: OpCall) -> tuple[Dim, Dim]:
    """Rows and columns of the result; of one tap that reads each place of the data, all positions are one row."""
    rows, columns = call.outputs[0].shape[2:]
    given = _given(call.attrs)
    is_flat = given["taps"] == given["stride"] == (1, 1) and not any(sum(sides(call.attrs.padding, 2), ()))
    return (dim(1), rows * columns) if is_flat else (rows, columns)


def _together(columns: Dim) -> Dim:
    """The most rows of a region."""
    return max_(geometry.POSITIONS // max_(columns, 1), 1)


def _plane(call: OpCall) -> Dim:
    """The most words of a plane of a region."""
    given, (rows, columns) = _given(call.attrs), _out_sizes(call)
    (sy, sx), (dy, dx), (ty, tx) = (given[name] for name in ("stride", "dilation", "taps"))
    if given["form"] == geometry.COLUMNS:
        sx = tx = 1
    high, wide = min_(rows, _together(columns)), min_(columns, geometry.MOST_COLUMNS)
    plane: Dim = sy * sx * (high + (ty - 1) * dy // sy) * (wide + (tx - 1) * dx // sx)
    return plane + 2 * geometry.LINE if given["form"] == geometry.BLOCKS else plane  # see apart_for_blocks


def _dense_plane(call: OpCall) -> Dim:
    """The most words of a plane with a phase for each column of the window (see ``byte_conv.dense``)."""
    given, (rows, columns) = _given(call.attrs), _out_sizes(call)
    (sy, _), (dy, _), (ty, tx) = (given[name] for name in ("stride", "dilation", "taps"))
    if given["form"] != geometry.BLOCKS:
        return dim(0)
    high, wide = min_(rows, _together(columns)), min_(columns, geometry.MOST_COLUMNS)
    plane: Dim = sy * tx * (high + (ty - 1) * dy // sy) * wide + 2 * geometry.LINE
    return plane


def _panel_words(call: OpCall) -> Dim:
    """The most words of the planes of a region, and of entries of the weights of a tile (see ``byte_conv.limited``)."""
    # the groups by the shape of the words: kernels of other numbers of groups have the same text
    inputs, columns = call.inputs[0].shape[1] // call.inputs[1].shape[0], _given(call.attrs)["taps"][1]
    count = inputs * -(-columns // WORD) if call.attrs.form == "columns" else (inputs + WORD - 1) // WORD
    if call.attrs.form == "blocks":
        count = (count + BLOCK - 1) // BLOCK * BLOCK
    entries = PARTS * call.inputs[1].shape[2] * TOGETHER + BLOCK
    planes = max_(count * _plane(call), min_(count * _dense_plane(call), geometry.DENSE_WORDS))
    words: Dim = planes + _SLACK + entries + _transformed_words(call) + _strip_words(call)
    return words


def _transformed_words(call: OpCall) -> Dim:
    """The most words of the transforms of a region (see ``byte_conv.winograd``), on any machine."""
    given, (rows, columns) = _given(call.attrs), _out_sizes(call)
    if call.attrs.form != "blocks" or given["taps"] != (TAPS, TAPS) or given["stride"] + given["dilation"] != (1, 1, 1, 1):
        return dim(0)
    high, wide = min_(rows, _together(columns)), min_(columns, MOST_COLUMNS)
    tiles = ((high + 1) // RESULTS) * ((wide + 1) // RESULTS) + 3 * geometry.LINE  # see tiles_of and apart_for_blocks
    blocks = (call.inputs[0].shape[1] // call.inputs[1].shape[0] + BLOCK * WORD - 1) // (BLOCK * WORD)
    pairs = 2 * BLOCK * max_(blocks, 1) + geometry.LINE
    parts: Dim = pairs * tiles + BLOCK * pairs + BLOCK * MOST_WORDS
    return PRODUCTS * parts + 2 * RESULTS * BLOCK * tiles + wide + 2 * _SLACK


def _table_numbers(call: OpCall) -> Dim:
    """The integers of the steps and their entries, and two for each vector of positions; of groups of one channel a mask for each
    and each step."""
    steps, is_apart, (rows, columns) = call.inputs[1].shape[2], eq(call.inputs[1].shape[3], 1), _out_sizes(call)
    of_rows = min_(rows, _together(columns)) * (min_(columns, geometry.MOST_COLUMNS) // _LANES + 1)
    in_place = where(is_apart, ORDER + of_rows * (OF_VECTOR + steps), 0)
    entries = NUMBERS * (steps + 1)
    return steps + (_plane(call) // _LANES + 1) * 2 + in_place + entries


def _strip_words(call: OpCall) -> Dim:
    """The words of the strip of a channel, and its pairs of weights (see ``byte_conv.strips``)."""
    given, (rows, columns), of_data = _given(call.attrs), _out_sizes(call), call.inputs[0].shape[3]
    (sy, sx), (_, before), (dy, _), (ty, tx) = (given[name] for name in ("stride", "before", "dilation", "taps"))
    high = max_(min_(rows, _together(columns)) - 1, 0) * sy + (ty - 1) * dy + 1
    wide = (before + of_data + sx - 1) // sx + PADDING
    reached: Dim = columns + tx + 2 * MOST_LANES
    return where(eq(call.inputs[1].shape[3], 1), high * sx * wide + (ty + 1) // 2 * tx + WORD + reached, 0)


def _bytes(call: OpCall) -> Dim:
    """A configuration of registers of tiles, then an order of bytes."""
    return dim(CONFIG_BYTES)


def _sum_elements(call: OpCall) -> Dim:
    """The sums of a tile."""
    return dim(max(SUM_ELEMENTS, ROWS * (max(geometry.POSITIONS, geometry.MOST_COLUMNS) + _SLACK)))


def _tiles(call: OpCall) -> Dim:
    """The blocks of a region."""
    groups, tiles, _, rows = call.inputs[1].shape
    return where(eq(rows, 1), (groups + ROWS - 1) // ROWS, tiles)


def _blocks(call: OpCall) -> Dim:
    """The number of blocks (see ``compute_panels`` and ``compute_channels``)."""
    (rows, columns), (groups, _, _, of_tile) = _out_sizes(call), call.inputs[1].shape
    down = max_((rows + _together(columns) - 1) // _together(columns), 1)
    across = max_((columns + geometry.MOST_COLUMNS - 1) // geometry.MOST_COLUMNS, 1)
    return call.outputs[0].shape[0] * where(eq(of_tile, 1), 1, groups) * down * across * _tiles(call)


def _work(call: OpCall) -> Dim:
    """Products of words, and what the words and the sums take."""
    return product(call.outputs[0].shape) * (call.inputs[1].shape[2] + 4) // 2


Op(
    name=NAME,
    doc="`nn.conv2d` of bytes, plus `start[O]`, in int32; the data is padded with the byte `pad`, and the weight is in `words` "
    "of 4 bytes: `[groups, tiles, steps, rows of a tile]`.  The compiler stores constant weights so.",
    inputs=tuple(_INPUTS),
    attrs=ByteConv2dAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_rule,
    kernels=(
        Kernel(
            "words",
            bodies.byte_products,
            attrs=_given,
            views=("dims",),
            scratch=(
                Scratch("int32", length=_panel_words),
                Scratch("int64", length=_table_numbers),
                Scratch("int32", length=_sum_elements),
                Scratch("uint8", length=_bytes),
            ),
            blocks=Blocks(_blocks, _work, _tiles),
            finishes=2,
            apart="always",
        ),
        Kernel("direct", None, cuda=cuda.convolution(_given)),
    ),
)
