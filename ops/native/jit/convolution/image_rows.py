"""Image, weights and results of a convolution that reads the rows of an image in place, without a padded copy.

A row outside the image is read from an array of zeros, or left out (``window_taps``).  Columns outside are
excluded by masks (see ``tap_vectors``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...memory import Array, Word, generic
from ...vectors import Vector, splat


class Image(NamedTuple):
    """An image of ``height`` rows and ``width`` columns, contiguous in ``data`` from element ``at`` on.

    ``zeros`` is read in place of a row outside.  It begins with as many zeros as are read of a row: ``data_taps.ZERO_BYTES``.
    """

    data: Array
    at: int
    height: int
    width: int
    zeros: Array


class Weights(NamedTuple):
    """Weights of a filter: number ``n`` is element ``at + n * step`` of ``data``."""

    data: Array
    at: int
    step: int


class Results(NamedTuple):
    """A result of ``rows`` rows and ``columns`` columns, contiguous in ``data`` from element ``at`` on."""

    data: Array
    at: int
    rows: int
    columns: int


@generic
def flat_image(image: Image) -> Image:
    """The image in an array of one axis."""
    return Image(image.data.reshape(-1), image.at, image.height, image.width, image.zeros.reshape(-1))


@generic
def flat_weights(weights: Weights) -> Weights:
    """The weights in an array of one axis."""
    return Weights(weights.data.reshape(-1), weights.at, weights.step)


@generic
def flat_results(out: Results) -> Results:
    """The result in an array of one axis."""
    return Results(out.data.reshape(-1), out.at, out.rows, out.columns)


@generic
def every_lane(weights: Weights, number: Word, lanes: int) -> Vector:
    """Weight ``number`` in all lanes of a vector."""
    return splat(weights.data[np.uint64(weights.at + number * weights.step)], lanes)
