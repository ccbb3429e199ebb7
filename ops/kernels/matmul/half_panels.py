"""Products of float32 with a matrix that is stored in panels of halves.

A tile widens the panels where it reads them.  Reading takes half the time of panels of float32, which decides for few rows.
CPUs of Intel widen with the units that multiply: for many rows a block of the panels is widened once, into a buffer that stays in
the L2 cache.  CPUs of AMD widen with other units.  Every element of the result is one sum along the inner axis, in order: the
same bits either way.
"""

from __future__ import annotations

from ...native.front_end.llvm import host
from ...native.jit.products.operands import Panels, Rows
from ...native.jit.products.panel_products import copy_line
from ...native.jit.products.register_tile import GROUP_PANELS
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time
from ...native.status import OK
from .panels import ROWS, dense_panels
from .tiles import multiply_band

#: The most rows for which tiles widen what they read: two tiles.
FEW = 36
#: Elements of the inner axis that are widened at a time: a group of panels of them takes 128 KiB.
WIDENED = 128


@at_compile_time
def widens_in_tiles() -> bool:
    """Whether tiles widen what they read for any number of rows.

    Measured on a Zen 4, products of 37 to 384 rows take 1.00 to 1.05 of float32's time so, and 1.06 to 1.27 with a buffer.
    """
    return host.is_of_amd()


@generic
def dense_half_panels(
    a: Array, panels: Array, out: Array, low: int, high: int, thread_low: int, thread_high: int, wide: Array
) -> int:
    """As ``panels.dense_panels``; ``wide``: room for a row more than WIDENED of a group of panels."""
    if widens_in_tiles():
        return dense_panels(a, panels, out, low, high, thread_low, thread_high)
    if a.shape[0] <= FEW:
        return dense_panels(a, panels, out, low, high, thread_low, thread_high)
    multiply_widened(a, panels, out, low, high, wide)
    return OK


@generic
def multiply_widened(a: Array, panels: Array, out: Array, low: int, high: int, wide: Array) -> None:
    """The blocks ``low`` to ``high`` (exclusive), group after group, of which each has all bands of rows."""
    (m, k), n, width = a.shape, out.shape[1], panels.shape[2]
    group, bands, number = GROUP_PANELS * width, (m + ROWS - 1) // ROWS, low
    while number < high:
        column = number // bands * group
        columns = min(group, n - column)
        following = min(high, (number // bands + 1) * bands)
        begin, end = number % bands * m // bands, ((following - 1) % bands + 1) * m // bands
        for first in range(0, max(k, 1), WIDENED):
            inner = min(WIDENED, k - first)
            # not a multiple of 4 KiB, which would place rows of all panels in one set of the first cache
            step = (inner + 1) * width
            for panel in range((columns + width - 1) // width):
                at = ((column // width + panel) * k + first) * width
                for p in range(inner):
                    copy_line(panels, at + p * width, wide, panel * step + p * width)
            left, to = Rows(a, begin * k + first, k), Rows(out, begin * n + column, n)
            multiply_band(left, Panels(wide, 0, step, width), to, end - begin, inner, columns, first)
        number = following
