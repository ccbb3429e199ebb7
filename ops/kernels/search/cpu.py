"""Operators with data-dependent result sizes: a kernel writes the elements, and their number into ``sizes``.

The rest of a result is left uninitialised: it is trimmed off afterwards.
"""

from __future__ import annotations

from ...native.memory import Array, Axes, generic
from ...native.status import OK
from ..sort.cpu import comes_before, merge_sort
from ..sort.radix import Sortable


@generic
def argwhere(data: Array, dims: Axes, out: Array, sizes: Array) -> int:
    """The index of each element that is not 0, in row-major order."""
    found = 0
    rank = len(dims)
    for at in range(len(data)):
        if data[at] != 0:
            rest = at
            for axis in range(rank - 1, 0, -1):
                out[found, axis] = rest % dims[axis]
                rest //= dims[axis]
            if rank > 0:
                out[found, 0] = rest
            found += 1
    sizes[0] = found
    return OK


@generic
def number_groups(data: Array, inverse: Array, column: Sortable, is_sorted: bool) -> int:
    """Number the distinct values, store the number of each element in ``inverse``, and return how many numbers there are.

    Numbers are in order of the values, or, unless ``is_sorted``, of first occurrence.
    """
    n, keys, order, numbers = len(data), column.keys, column.order, column.spare_order
    for i in range(n):
        keys[i], order[i] = data[i], i
    merge_sort(column, n, True)
    groups = 0
    for i in range(n):
        if i == 0 or comes_before(keys[i - 1], keys[i], True):
            groups += 1
        inverse[order[i]] = groups - 1
    if is_sorted:
        return groups
    for group in range(groups):
        numbers[group] = -1
    seen = 0
    for i in range(n):
        group = inverse[i]
        if numbers[group] < 0:
            numbers[group] = seen
            seen += 1
        inverse[i] = numbers[group]
    return groups


@generic
def unique(
    data: Array, values: Array, indices: Array, inverse: Array, number: Array, sizes: Array, column: Sortable, is_sorted: bool
) -> int:
    """The distinct values, the position of their first occurrences, the number of each element's value, and their count."""
    groups = number_groups(data, inverse, column, is_sorted)
    for i in range(len(data) - 1, -1, -1):
        group = inverse[i]
        values[group], indices[group] = data[i], i
    number[0] = groups
    sizes[0] = groups
    return OK


@generic
def unique_with_counts(
    data: Array, values: Array, indices: Array, inverse: Array, number: Array, counts: Array, sizes: Array, column: Sortable,
    is_sorted: bool,
) -> int:  # fmt: skip
    """``unique``, and the number of occurrences of each value."""
    status = unique(data, values, indices, inverse, number, sizes, column, is_sorted)
    for group in range(sizes[0]):
        counts[group] = 0
    for i in range(len(data)):
        counts[inverse[i]] += 1
    return status
