"""Constants that begin with a cache line: a row of a panel that crosses lines is two of them to load."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ....ops.native.jit.products.register_tile import PANEL_BYTES


def in_lines(shape: tuple[int, ...], dtype: np.dtype, fill: Callable[[np.ndarray], None]) -> np.ndarray:
    """An array whose first element begins a cache line, after ``fill`` has written all elements."""
    nbytes = math.prod(shape) * dtype.itemsize
    memory = np.empty(nbytes + PANEL_BYTES, np.uint8)
    first = -memory.ctypes.data % PANEL_BYTES

    def elements() -> np.ndarray:
        return memory[first : first + nbytes].view(dtype).reshape(shape)

    fill(elements())
    memory.flags.writeable = False  # a constant is a copy of memory that could be written
    return elements()
