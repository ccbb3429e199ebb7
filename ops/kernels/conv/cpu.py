"""Convolution: by tiles (``tiles``, ``by_shifts``), by matrix products over gathered columns (im2col), by planes, or directly.

Tiles and planes accumulate in the dtype of the data, in order; im2col as the BLAS does; the direct algorithm in float64.
``ops.strategy.convolution.conv_strategy`` chooses.

``window`` and ``layouts`` (kernel layout, whether the channels of the data are last, whether those of the result are last) are
constants of the compiled code.  Sizes and the number of groups are not: convolutions of one network share their code.
"""

from __future__ import annotations

from collections.abc import Callable

from ...native.inlining import apart
from ...native.memory import Array, Axes, generic
from ...native.status import OK
from ..shaped import Shaped
from .by_channels import convolve_channels
from .by_plane import convolve_planes
from .by_positions import convolve_positions
from .by_rows import convolve_rows
from .by_shifts import convolve_shifts
from .by_taps import TapBuffers, convolve_taps
from .by_winograd import BAND, WinogradBuffers, convolve_winograd, transform_weight
from .depthwise import convolve_depthwise, is_by_channels, is_depthwise
from .direct import convolve_directly
from .epilogue import Epilogue, Limits, ScaledLimits, is_finished, is_finished_apart, is_trivial
from .geometry import Convolution, Window, convolution
from .matrices import multiply_columns
from .tiles import convolve_tiles
from .weight_layout import OUT_IN_SPACE, SPACE_IN_OUT, Layouts

#: The window of a convolution of one tap, and the layouts of bodies with vectors.
UNIT_WINDOW = Window((1, 1, 1), (0, 0, 0), (1, 1, 1))
CHANNELS_FIRST = (OUT_IN_SPACE, False, False)


@generic
def pointwise(data: Shaped, weight: Shaped, out: Shaped, gemm: int, layouts: Layouts) -> int:
    """Pointwise convolution by matrix products without gathering: each result position reads one data position."""
    conv = convolution(data, weight, out, UNIT_WINDOW, layouts)
    if not is_trivial(conv, out.data):
        multiply_columns(conv, data.data, False, gemm, layouts)
    return OK


@generic
def convolve_groups(
    conv: Convolution, work: Array, numbers: Array, epilogue: Epilogue, limits: Limits, low: int, high: int
) -> None:
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: the groups of each element of the batch, by planes."""
    if is_by_channels(conv):
        convolve_channels(conv, work, epilogue, limits, low, high)
    elif is_depthwise(conv):
        convolve_depthwise(conv, work, numbers, epilogue, limits, low, high)
    else:
        convolve_planes(conv, work, numbers, epilogue, low, high)


@apart("before", "lowest", "highest")
@generic
def planes(
    data: Shaped, weight: Shaped, out: Shaped, low: int, high: int, work: Array, numbers: Array, finish: Callable[..., None],
    argv: int, limits: Limits, window: Window, layouts: Layouts,
) -> int:  # fmt: skip
    """Convolution by planes: the blocks ``low`` to ``high`` (see ``convolve_planes``)."""
    conv, epilogue = convolution(data, weight, out, window, (layouts[0], False, False)), Epilogue(finish, argv)
    if not is_finished(conv, epilogue):
        convolve_groups(conv, work, numbers, epilogue, limits, low, high)
    return OK


@apart("stride", "before", "dilation", "lowest", "highest", "is_limited", "is_scaled", "is_shifted")
@generic
def tiles(
    data: Shaped, weight: Shaped, out: Shaped, low: int, high: int, panels: Array, table: Array, sums: Array,
    finish: Callable[..., None], fetch_operands: Callable[..., None], argv: int, limits: ScaledLimits, window: Window,
) -> int:  # fmt: skip
    """Convolution by tiles of matrix products: the blocks ``low`` to ``high`` (see ``convolve_tiles``)."""
    conv, epilogue = convolution(data, weight, out, window, CHANNELS_FIRST), Epilogue(finish, argv)
    if not is_finished_apart(conv, sums, epilogue, low, high):
        convolve_tiles(conv, panels, table, sums, epilogue, fetch_operands, limits, low, high)
    return OK


@apart()
@generic
def positions(
    data: Shaped, weight: Shaped, out: Shaped, low: int, high: int, panels: Array, sums: Array, results: Array,
    finish: Callable[..., None], fetch_operands: Callable[..., None], argv: int,
) -> int:  # fmt: skip
    """Convolution of one tap by tiles of positions: the blocks ``low`` to ``high`` (see ``convolve_positions``)."""
    conv, epilogue = convolution(data, weight, out, UNIT_WINDOW, CHANNELS_FIRST), Epilogue(finish, argv)
    if not is_finished_apart(conv, results, epilogue, low, high):
        convolve_positions(conv, panels, sums, results, epilogue, fetch_operands, low, high)
    return OK


@apart("stride", "before", "dilation")
@generic
def rows(
    data: Shaped, weight: Shaped, out: Shaped, low: int, high: int, copied: Array, results: Array, finish: Callable[..., None],
    argv: int, window: Window,
) -> int:  # fmt: skip
    """Convolution of few positions by rows: the blocks ``low`` to ``high`` (see ``convolve_rows``)."""
    conv, epilogue = convolution(data, weight, out, window, CHANNELS_FIRST), Epilogue(finish, argv)
    if not is_finished_apart(conv, results, epilogue, low, high):
        convolve_rows(conv, copied, results, epilogue, low, high)
    return OK


@apart()
@generic
def taps(
    data: Shaped, weight: Shaped, out: Shaped, low: int, high: int, buffers: TapBuffers, finish: Callable[..., None],
    fetch_operands: Callable[..., None], argv: int, window: Window,
) -> int:  # fmt: skip
    """Convolution tap by tap: the blocks ``low`` to ``high`` (see ``convolve_taps``)."""
    layouts = (SPACE_IN_OUT, False, False)
    conv, epilogue = convolution(data, weight, out, window, layouts), Epilogue(finish, argv)
    if not is_finished_apart(conv, buffers.results, epilogue, low, high):
        convolve_taps(conv, buffers, epilogue, fetch_operands, low, high)
    return OK


@apart("before", "dilation", "lowest", "highest", "is_limited", "is_scaled", "is_shifted")
@generic
def shifts(
    data: Shaped, weight: Shaped, out: Shaped, low: int, high: int, work: Array, sums: Array, numbers: Array,
    finish: Callable[..., None], argv: int, limits: ScaledLimits, window: Window,
) -> int:  # fmt: skip
    """Convolution by shifts of padded data: the blocks ``low`` to ``high`` (see ``convolve_shifts``)."""
    conv, epilogue = convolution(data, weight, out, window, CHANNELS_FIRST), Epilogue(finish, argv)
    if not is_finished(conv, epilogue):
        convolve_shifts(conv, work, sums, numbers, epilogue, limits, low, high)
    return OK


@apart()
@generic
def winograd(
    data: Shaped, weight: Shaped, out: Shaped, low: int, high: int, filters: Array, buffers: WinogradBuffers,
    finish: Callable[..., None], argv: int, before: Axes, stride: int,
) -> int:  # fmt: skip
    """Convolution by Winograd's algorithm: the blocks ``low`` to ``high`` (see ``convolve_winograd``)."""
    window, epilogue = Window((1, stride, stride), before, (1, 1, 1)), Epilogue(finish, argv)
    conv = convolution(data, Shaped(filters, weight.dims), out, window, CHANNELS_FIRST)
    if not is_finished_apart(conv, buffers.sums, epilogue, low, high):
        outputs, inputs = conv.weight.sizes[0], conv.weight.sizes[1]
        transform_weight(weight.data, filters, outputs * inputs, stride)
        convolve_winograd(conv, buffers, epilogue, low, high, outputs)
    return OK


@apart()
@generic
def winograd_of_filters(
    data: Shaped, filters: Shaped, out: Shaped, low: int, high: int, buffers: WinogradBuffers, finish: Callable[..., None],
    argv: int, before: Axes, stride: int,
) -> int:  # fmt: skip
    """As ``winograd``, of a transformed weight ``[products, O, I]``; a block has some of the output channels."""
    window, epilogue = Window((1, stride, stride), before, (1, 1, 1)), Epilogue(finish, argv)
    conv = convolution(data, Shaped(filters.data, (filters.dims[1], filters.dims[2], 1)), out, window, CHANNELS_FIRST)
    if not is_finished_apart(conv, buffers.sums, epilogue, low, high):
        convolve_winograd(conv, buffers, epilogue, low, high, BAND)
    return OK


@generic
def gathered(data: Shaped, weight: Shaped, out: Shaped, columns: Array, gemm: int, window: Window, layouts: Layouts) -> int:
    """Convolution by matrix products over gathered columns; ``columns`` holds ``tile_length`` positions."""
    conv = convolution(data, weight, out, window, layouts)
    if not is_trivial(conv, out.data):
        multiply_columns(conv, columns, True, gemm, layouts)
    return OK


@generic
def directly(data: Shaped, weight: Shaped, out: Shaped, totals: Array, window: Window, layouts: Layouts) -> int:
    """Direct convolution of any dtypes."""
    convolve_directly(convolution(data, weight, out, window, layouts), totals, layouts[1])
    return OK
