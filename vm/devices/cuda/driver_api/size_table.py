"""Tables of what a library has chosen for sizes, in machine code: the rows of products, and those of plans of convolutions.

A row begins with its key: a serial number (0: the row is empty), the record of the step, the lowest alignment of the addresses in
bytes, and the sizes.  A table has a power of two of rows and is never full: its owner empties it when half of them are used.
"""

from __future__ import annotations

from .....ops.native.memory import load_i64, native, store_i64

#: Words of a key before the sizes.
_SERIAL, _RECORD, _ALIGNMENT, _SIZES = range(4)
_LOW = 0xFFFFFFFF
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)


@native
def row_of(rows: int, row_bytes: int, n_rows: int, record: int, alignment: int, sizes: int, n_sizes: int) -> int:
    """The row with a key, or the empty row for it; ``rows``: the address of the first row, ``sizes``: that of the sizes."""
    h = (record ^ alignment) * _ODD
    for i in range(n_sizes):
        h = (h ^ load_i64(sizes + 8 * i)) * _ODD
    h ^= (h >> 32) & _LOW
    place = h & (n_rows - 1)
    while True:
        row = rows + row_bytes * place
        if load_i64(row + 8 * _SERIAL) == 0:
            return row
        if load_i64(row + 8 * _RECORD) == record and load_i64(row + 8 * _ALIGNMENT) == alignment:
            i = 0
            while i < n_sizes and load_i64(row + 8 * (_SIZES + i)) == load_i64(sizes + 8 * i):
                i += 1
            if i == n_sizes:
                return row
        place = (place + 1) & (n_rows - 1)


@native
def store_key(row: int, serial: int, record: int, alignment: int, sizes: int, n_sizes: int) -> None:
    """Store the key of a row."""
    store_i64(row + 8 * _SERIAL, serial)
    store_i64(row + 8 * _RECORD, record)
    store_i64(row + 8 * _ALIGNMENT, alignment)
    for i in range(n_sizes):
        store_i64(row + 8 * (_SIZES + i), load_i64(sizes + 8 * i))
