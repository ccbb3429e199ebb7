"""Constants that begin with a cache line: a row of a panel that crosses lines is two of them to load."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ....ops.native.jit.products.register_tile import PANEL_BYTES
from ....ops.native.memory import HAS_HUGE_PAGES
from ....vm.runtime.huge_blocks import new_bytes

#: The least bytes of an array in huge pages.
_LARGE = 1 << 16


def in_lines(shape: tuple[int, ...], dtype: np.dtype, fill: Callable[[np.ndarray], None]) -> np.ndarray:
    """An array whose first element begins a cache line, after ``fill`` has written all elements.  Read-only: a constant is a copy
    of memory that could be written."""
    nbytes = math.prod(shape) * dtype.itemsize
    if HAS_HUGE_PAGES and nbytes >= _LARGE:
        written, memory = new_bytes(nbytes)
        fill(written.view(dtype).reshape(shape))
        return memory.view(dtype).reshape(shape)
    memory = np.empty(nbytes + PANEL_BYTES, np.uint8)
    first = -memory.ctypes.data % PANEL_BYTES

    def elements() -> np.ndarray:
        return memory[first : first + nbytes].view(dtype).reshape(shape)

    fill(elements())
    memory.flags.writeable = False
    return elements()
