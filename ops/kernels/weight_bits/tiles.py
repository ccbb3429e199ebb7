"""Products of many rows with panels of few bits, by the tiles of ``native/jit/products``.

A group of panels is unpacked at a time, to float32.  The loops are those of ``kernels.matmul.tiles``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...native.jit.products.operands import Panels, Rows
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES
from ...native.memory import Array, generic
from ...native.static_values import static_range
from ...native.status import OK
from ...native.vectors import load, store
from ..matmul.panels import INNER, ROWS
from ..matmul.tiles import multiply_band
from .digits import lanes_of_words
from .row_products import Panel
from .weight_layout import COLUMNS, lines_of, parts_of


@generic
def unpack(panel: Panel, to: Array, at: int, bits: int, block: int) -> None:
    """The numbers of a panel as float32, a row of 16 for each step along the inner axis, from element ``at`` on."""
    lanes, parts, lines = lanes_of_words(), parts_of(bits), lines_of(bits, block)
    for number in range(panel.blocks):
        for first in static_range(0, COLUMNS, lanes):
            scale = load(panel.scales, number * COLUMNS + first, lanes)
            zero = load(panel.zeros, number * panel.apart + first, lanes).astype(np.float32)
            for line in range(number * lines, (number + 1) * lines):
                packed = load(panel.weight, line * PANEL_BYTES + 4 * first, 4 * lanes).view(np.uint32)
                for k in static_range(4 * parts):
                    own = ((packed >> (k % 4 * 8 + k // 4 * bits)) & ((1 << bits) - 1)).view(np.int32).astype(np.float32)
                    store(to, at + (line * parts * 4 + k) * COLUMNS + first, (own - zero) * scale)


@generic
def dense_bits_tiles(
    data: Array, weight: Array, scales: Array, zeros: Array, out: Array, low: int, high: int, panels: Array,
    finish: Callable[..., None], argv: int, bits: int, block: int,
) -> int:  # fmt: skip
    """The blocks ``low`` to ``high`` (exclusive) of ``out[m, n] = data[m, k] @ W[n, k]^T``.

    A block is a group of panels by a band of rows, finished by the epilogue (see ``codegen.cpu.epilogue``).
    """
    (m, k), n, blocks = data.shape, out.shape[1], weight.shape[1]
    group, bands, number = GROUP_PANELS * COLUMNS, (m + ROWS - 1) // ROWS, low
    of_lines, of_scales, of_zeros = weight.reshape(-1), scales.reshape(-1), zeros.reshape(-1)
    apart = COLUMNS if zeros.size > COLUMNS else 0
    while number < high:
        column = number // bands * group
        following = min(high, (number // bands + 1) * bands)
        begin, end = number % bands * m // bands, ((following - 1) % bands + 1) * m // bands
        columns = min(group, n - column)
        for first in range(0, max(k, 1), INNER):
            inner = min(INNER, k - first)
            count = (inner + block - 1) // block
            # not a multiple of 4 KiB, which would place rows of all panels in one set of the first cache
            step = (count * block + 1) * COLUMNS
            for panel in range((columns + COLUMNS - 1) // COLUMNS):
                at = (column // COLUMNS + panel) * blocks + first // block
                lines = of_lines[at * lines_of(bits, block) * PANEL_BYTES :]
                unpack(
                    Panel(lines, of_scales[at * COLUMNS :], of_zeros[at * apart :], apart, count),
                    panels,
                    panel * step,
                    bits,
                    block,
                )
            to = Rows(out, begin * n + column, n)
            multiply_band(
                Rows(data, begin * k + first, k), Panels(panels, 0, step, COLUMNS), to, end - begin, inner, columns, first
            )
        finish(argv, begin * n + column, end - begin, columns)
        number = following
    return OK
