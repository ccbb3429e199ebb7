"""Rows of an image that are read where they are: zeros stand for the rows outside, masks exclude the columns outside."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...memory import Array, Word, generic
from ...vectors import Vector, splat
from .tap_vectors import lanes_of


class Image(NamedTuple):
    """An image of ``height`` rows and ``width`` columns from element ``at`` on; elements outside are 0.

    ``zeros`` begins with as many zeros as are read of a row: ``data_taps.ZERO_BYTES``.
    """

    data: Array
    at: int
    height: int
    width: int
    zeros: Array


class Weights(NamedTuple):
    """Weights from element ``at`` on, ``step`` elements apart."""

    data: Array
    at: int
    step: int


class Results(NamedTuple):
    """The rows of the result from element ``at`` on, which follow one another."""

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
def every_lane(weights: Weights, number: Word) -> Vector:
    """A weight in all lanes."""
    return splat(weights.data[np.uint64(weights.at + number * weights.step)], lanes_of(weights.data.itemsize))
