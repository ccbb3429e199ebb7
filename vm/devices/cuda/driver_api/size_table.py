"""Tables of what a library has chosen for sizes, in machine code: the rows of products, and those of plans of convolutions.

A row begins with its key: a serial number (0: the row is empty), the record of the step, the lowest alignment of the addresses in
bytes, and the sizes.  A table has a power of two of rows and is never full: its owner empties it when half of them are used.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .....ops.native.memory import load_i64, native, record
from .....ops.native.object_layout import Record

#: The most sizes of a key.
_MOST_SIZES = 64
#: A key; a table has the first of the sizes only.
_KEY = np.dtype([("serial", np.int64), ("record", np.int64), ("alignment", np.int64), ("sizes", np.int64, (_MOST_SIZES,))])
_key_at: Callable[[int], Record] = record(_KEY)
_LOW = 0xFFFFFFFF
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)


@native
def row_of(rows: int, row_bytes: int, n_rows: int, step: int, alignment: int, sizes: int, n_sizes: int) -> int:
    """The row with a key, or the empty row for it; ``rows``: the address of the first row, ``sizes``: that of the sizes."""
    h = (step ^ alignment) * _ODD
    for i in range(n_sizes):
        h = (h ^ load_i64(sizes + 8 * i)) * _ODD
    h ^= (h >> 32) & _LOW
    place = h & (n_rows - 1)
    while True:
        row = rows + row_bytes * place
        if _key_at(row).serial == 0:
            return row
        if _key_at(row).record == step and _key_at(row).alignment == alignment:
            i = 0
            while i < n_sizes and _key_at(row).sizes[i] == load_i64(sizes + 8 * i):
                i += 1
            if i == n_sizes:
                return row
        place = (place + 1) & (n_rows - 1)


@native
def store_key(row: int, serial: int, step: int, alignment: int, sizes: int, n_sizes: int) -> None:
    """Store the key of a row."""
    key = _key_at(row)
    key.serial = serial
    key.record = step
    key.alignment = alignment
    for i in range(n_sizes):
        key.sizes[i] = load_i64(sizes + 8 * i)
