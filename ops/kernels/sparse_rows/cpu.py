"""Fill the empty rows of a sparse tensor, given as indices and values."""

from __future__ import annotations

from ...native.memory import Array, Axes, generic
from ...native.status import INDEX_OUT_OF_RANGE, OK


@generic
def count_rows(indices: Array, coordinates: int, positions: Array, rows: int) -> int:
    """Count the values of each of the ``rows`` rows in ``positions``; a status."""
    for row in range(rows):
        positions[row] = 0
    for at in range(len(indices) // coordinates):
        row = int(indices[at * coordinates])
        if row < 0 or row >= rows:
            return INDEX_OUT_OF_RANGE
        positions[row] += 1
    return OK


@generic
def fill_empty_rows(
    indices: Array, index_dims: Axes, values: Array, default: Array, new_indices: Array, new_values: Array, is_empty: Array,
    sizes: Array, positions: Array,
) -> int:  # fmt: skip
    """The values in the order of their rows, and the default in the first column of each row without a value.

    ``positions``: one per row; values of one row keep their order.
    """
    coordinates, rows = index_dims[1], len(is_empty)
    status = count_rows(indices, coordinates, positions, rows)
    if status != OK:
        return status
    end = 0
    for row in range(rows):
        count, place = positions[row], end
        positions[row] = place
        is_empty[row] = 1 if count == 0 else 0
        end += max(count, 1)
        if count == 0:
            new_values[place] = default[0]
            for k in range(coordinates):
                new_indices[place * coordinates + k] = row if k == 0 else 0
    for at in range(index_dims[0]):
        row = int(indices[at * coordinates])
        place = positions[row]
        positions[row] = place + 1
        new_values[place] = values[at]
        for k in range(coordinates):
            new_indices[place * coordinates + k] = indices[at * coordinates + k]
    sizes[0] = end
    return OK
