"""Grey-scale dilation: the maximum over a window of element + weight."""

from __future__ import annotations

import math

import numpy as np

from ...native.memory import Array, Axes, generic
from ...native.status import OK
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, ROW, sizes_of, strides_of


@generic
def largest_sum(
    data: Array, at: int, weight: Array, w_at: int, y: int, x: int, sizes: Axes, steps: Axes, window: Axes, taps: Axes,
    dilation: Axes,
) -> float:  # fmt: skip
    """The maximum over the window whose first element is at row ``y``, column ``x`` of the channel that starts at ``at``; NaN if
    an element is NaN, -inf for a window without elements."""
    best = -math.inf
    for ky in range(window[0]):
        row = y + ky * dilation[0]
        if not 0 <= row < sizes[ROW]:
            continue
        for kx in range(window[1]):
            column = x + kx * dilation[1]
            if 0 <= column < sizes[COLUMN]:
                element = np.float64(data[at + row * steps[ROW] + column * steps[COLUMN]])
                value = element + np.float64(weight[w_at + ky * taps[1] + kx * taps[2]])
                if value != value:
                    return value
                best = max(best, value)
    return best


@generic
def dilate(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, stride: Axes, before: Axes,
    dilation: Axes, channels_last: bool, weights_last: bool,
) -> int:  # fmt: skip
    """Dilate each channel with its own weights; ``weights_last``: the channels of the weight are its last axis."""
    sizes, out_sizes = sizes_of(data_dims, channels_last), sizes_of(out_dims, channels_last)
    steps, out_steps = strides_of(sizes, channels_last), strides_of(out_sizes, channels_last)
    channels = sizes[CHANNEL]
    if weights_last:
        window, taps = (weight_dims[0], weight_dims[1]), (1, weight_dims[1] * channels, channels)
    else:
        window, taps = (weight_dims[1], weight_dims[2]), (weight_dims[1] * weight_dims[2], weight_dims[2], 1)
    for b in range(out_sizes[BATCH]):
        for c in range(channels):
            at = b * steps[BATCH] + c * steps[CHANNEL]
            for i in range(out_sizes[ROW]):
                for j in range(out_sizes[COLUMN]):
                    y, x = i * stride[0] - before[0], j * stride[1] - before[1]
                    to = b * out_steps[BATCH] + c * out_steps[CHANNEL] + i * out_steps[ROW] + j * out_steps[COLUMN]
                    out[to] = largest_sum(data, at, weight, c * taps[0], y, x, sizes, steps, window, taps, dilation)
    return OK
