"""Convolution of one tap whose images are small: the columns of several images are one matrix.

An image of 5 x 4 positions alone leaves vectors half empty, and reads all weights for few products.  The columns of a few images
are copied side by side; their products are copied into the result of each image.

Every element of the result is one sum over channels, in order.  The images of a matrix follow from the batch alone, so results
have the same bits for any number of threads.
"""

from __future__ import annotations

import numpy as np

from ...native.jit.convolution.clipped_tile import Clip, clip_of, multiply_clipped
from ...native.jit.convolution.tap_vectors import lanes_of
from ...native.jit.products.operands import Ahead, Panels, Rows
from ...native.jit.products.panel_products import multiply_panels
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS
from ...native.memory import Array, generic
from ...native.vectors import load, splat, store
from ..spatial.cpu import BATCH, CHANNEL
from .epilogue import Epilogue, ScaledLimits, clip_of_channels
from .geometry import Convolution

#: The most rows of a group of panels that are finished at once, or as many elements: a fifth of the first cache.
FINISHED_ROWS = 24
#: The most positions of an image whose columns are multiplied with those of others.  Measured with AVX2: at 20 positions two
#: images take 0.75 to 0.9 of the time, at 9 positions eight images 0.55, and at 16 positions, which fill vectors, three images 1.
FEW_POSITIONS = 24
#: The most input channels for which the workspace has room; their columns stay in the second cache.
MOST_INPUTS = 1024


@generic
def images_together(conv: Convolution, panels: Array, columns: int) -> int:
    """The images of a matrix of at most ``columns`` columns; 1 if images are not small, or ``panels`` has no room."""
    inputs, positions, lanes = conv.weight.sizes[1], conv.out.steps[CHANNEL], lanes_of(panels.itemsize)
    images = min(columns // max(positions, 1), conv.data.sizes[BATCH])
    across = (images * positions + lanes - 1) // lanes * lanes
    is_small = conv.groups == 1 and positions <= FEW_POSITIONS and panels.size >= (inputs + TILE_ROWS) * across
    return images if is_small else 1


@generic
def copy_run(source: Array, at: int, count: int, target: Array, to: int) -> None:
    """Copy ``count`` neighbouring elements; the last vector ends with them."""
    lanes = lanes_of(target.itemsize)
    if count >= lanes:
        for j in range(0, count - lanes + 1, lanes):
            store(target, to + j, load(source, at + j, lanes))
        store(target, to + count - lanes, load(source, at + count - lanes, lanes))
    else:
        for j in range(count):
            target[np.uint64(to + j)] = source[np.uint64(at + j)]


@generic
def copy_columns(conv: Convolution, first: int, images: int, panels: Array, across: int) -> None:
    """Copy the columns of ``images`` images: a row of ``across`` elements for each input channel, which ends with zeros.

    Tiles read whole vectors, and products of subnormal numbers, which may be in a buffer, take many times as long.
    """
    data, positions, lanes = conv.data, conv.out.steps[CHANNEL], lanes_of(panels.itemsize)
    for i in range(conv.weight.sizes[1] if images * positions < across else 0):
        store(panels, (i + 1) * across - lanes, splat(panels.dtype.type(0), lanes))
    for n in range(images):
        at, to = (first + n) * data.steps[BATCH], n * positions
        for _ in range(conv.weight.sizes[1]):
            copy_run(data.data, at, positions, panels, to)
            at += data.steps[CHANNEL]
            to += across


@generic
def multiply_rows(
    weight: Array, first: int, rows: int, end: int, inner: int, panels: Array, columns: int, across: int, clip: Clip,
    is_limited: bool,
) -> None:  # fmt: skip
    """Multiply ``rows`` rows of the weight from ``first`` on by the columns; store the sums behind the columns.

    If ``is_limited``, the sums are limited by ``clip``, which begins with the first row.  Meanwhile fetch the rows of the next
    tile, before the row ``end``; after the last one the first rows.
    """
    tiles, source = (rows + TILE_ROWS - 1) // TILE_ROWS, Panels(panels, 0, PANEL_BYTES // panels.itemsize, across)
    for tile in range(tiles):
        r = tile * rows // tiles
        count = (tile + 1) * rows // tiles - r
        following = first + r + count if first + r + count < end else 0
        own, later = Rows(weight, (first + r) * inner, inner), Rows(weight, following * inner, inner)
        sums = Rows(panels, (inner + r) * across, across)
        if is_limited:
            multiply_clipped(own, source, sums, count, inner, columns, clip_of(clip, r), later)
        else:
            multiply_panels(own, source, sums, count, inner, columns, 0, Ahead(0, GROUP_PANELS, 0, later))


@generic
def finish_rows(
    conv: Convolution, image: int, first: int, rows: int, panels: Array, at: int, across: int, sums: Array, epilogue: Epilogue,
    is_limited: bool,
) -> None:  # fmt: skip
    """Finish ``rows`` output channels of an image from ``first`` on, whose sums are at ``at``; ``sums``: as in ``tiles``.

    If ``is_limited``, the sums are the results.
    """
    out, positions = conv.out, conv.out.steps[CHANNEL]
    to = image * out.steps[BATCH] + first * positions
    if sums.ctypes.data != out.data.ctypes.data:
        epilogue.finish(epilogue.argv, to, rows, positions, panels, at, across)
        return
    for r in range(rows):
        copy_run(panels, at + r * across, positions, out.data, to + r * positions)
    if not is_limited:
        epilogue.finish(epilogue.argv, to, rows, positions, out.data, to, positions)


@generic
def convolve_images(
    conv: Convolution, images: int, panels: Array, sums: Array, epilogue: Epilogue, limits: ScaledLimits, is_limited: bool,
    bands: int, low: int, high: int,
) -> None:  # fmt: skip
    """Compute the blocks ``low`` to ``high`` (exclusive) of ``tiles``: a band of output channels of an image each.

    ``images`` images have as many blocks together as one matrix has.  ``panels``: for the columns of a matrix, and behind them
    for the sums of TILE_ROWS rows or more.  If ``is_limited``, the epilogue is that sums are limited.
    """
    outputs, inputs, positions, batch = (
        conv.weight.sizes[0],
        conv.weight.sizes[1],
        conv.out.steps[CHANNEL],
        conv.data.sizes[BATCH],
    )
    matrices, lanes = (batch + images - 1) // images, lanes_of(panels.itemsize)
    number, end = low * matrices // batch, high * matrices // batch
    while number < end:
        band, first = number % bands, number // bands * images
        end_band, some = min(bands, band + end - number), min(images, batch - first)
        across = (some * positions + lanes - 1) // lanes * lanes
        copy_columns(conv, first, some, panels, across)
        most = min((panels.size // across - inputs) // TILE_ROWS * TILE_ROWS, FINISHED_ROWS)
        bottom = end_band * outputs // bands
        for o in range(band * outputs // bands, bottom, most):
            rows = min(most, bottom - o)
            clip = clip_of_channels(limits, o)
            multiply_rows(conv.weight.data, o, rows, bottom, inputs, panels, some * positions, across, clip, is_limited)
            for n in range(some):
                at = inputs * across + n * positions
                finish_rows(conv, first + n, o, rows, panels, at, across, sums, epilogue, is_limited)
        number += end_band - band
