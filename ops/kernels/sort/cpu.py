"""Sorting along the middle axis of a 3-D view.  Sorts are stable; NaN is larger than every number.

A column is copied with its positions; the two are permuted together, by merge sort or, for many elements, by radix sort.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...native.memory import Array, Axes, Element, generic
from ...native.status import OK
from .radix import Sortable, sort_by_digits

#: Runs of this length are sorted by insertion before they are merged.
_RUN = 16
#: From DIGITS_FROM elements on, radix sort is faster than merge sort; beyond DIGITS_TO the counters would overflow.
DIGITS_FROM, DIGITS_TO = 192, 2**32 - 1
#: A heap of the k best of n is faster than sorting if n is at least HEAP_SHARE times k, and while at most a quarter of n was
#: inserted into it, which is more than for random elements.
HEAP_SHARE, _HEAP_QUARTER = 32, 4
#: The number of elements compared with the worst of the heap before a branch on whether one of them is better.
_BLOCK = 64


@generic
def comes_before(a: float, b: float, is_ascend: bool) -> bool:
    """Whether key ``a`` must precede key ``b``.  False for equal keys, and for two NaN."""
    if is_ascend:
        return a < b or (b != b and a == a)
    return a > b or (a != a and b == b)


@generic
def insertion_sort(keys: Array, order: Array, start: int, end: int, is_ascend: bool) -> None:
    """Sort positions ``start`` to ``end``, stably."""
    for i in range(start + 1, end):
        key, position, j = keys[i], order[i], i
        while j > start and comes_before(key, keys[j - 1], is_ascend):
            keys[j], order[j] = keys[j - 1], order[j - 1]
            j -= 1
        keys[j], order[j] = key, position


@generic
def merge(keys: Array, order: Array, to_keys: Array, to_order: Array, start: int, middle: int, end: int, is_ascend: bool) -> None:
    """Merge the sorted runs ``start:middle`` and ``middle:end`` into ``to_*``."""
    left, right = start, middle
    in_order = middle >= end or not comes_before(keys[middle], keys[middle - 1], is_ascend)
    for at in range(start, end):
        if left < middle and (in_order or right >= end or not comes_before(keys[right], keys[left], is_ascend)):
            to_keys[at], to_order[at] = keys[left], order[left]
            left += 1
        else:
            to_keys[at], to_order[at] = keys[right], order[right]
            right += 1


@generic
def merge_sort(column: Sortable, n: int, is_ascend: bool) -> None:
    """Sort the first ``n`` keys, and their positions with them, stably."""
    keys, order, spare_keys, spare_order = column
    for start in range(0, n, _RUN):
        insertion_sort(keys, order, start, min(start + _RUN, n), is_ascend)
    run, in_spare = _RUN, False
    while run < n:
        for start in range(0, n, 2 * run):
            middle, end = min(start + run, n), min(start + 2 * run, n)
            if in_spare:
                merge(spare_keys, spare_order, keys, order, start, middle, end, is_ascend)
            else:
                merge(keys, order, spare_keys, spare_order, start, middle, end, is_ascend)
        run, in_spare = 2 * run, not in_spare
    if in_spare:
        for i in range(n):
            keys[i], order[i] = spare_keys[i], spare_order[i]


@generic
def by_merging(column: Sortable, counters: Array, n: int, is_ascend: bool) -> None:
    """``merge_sort``; ``counters`` is unused."""
    merge_sort(column, n, is_ascend)


@generic
def are_in_order(keys: Array, n: int, is_ascend: bool) -> bool:
    """Whether the first ``n`` keys are sorted."""
    i = 1
    while i < n and not comes_before(keys[i], keys[i - 1], is_ascend):
        i += 1
    return i >= n


@generic
def by_digits(column: Sortable, counters: Array, n: int, is_ascend: bool) -> None:
    """``sort_by_digits``, unless the keys are sorted, as the scores of chosen boxes often are."""
    if not are_in_order(column.keys, n, is_ascend):
        sort_by_digits(column, counters, n, is_ascend)


@generic
def sort_positions(column: Sortable, counters: Array, n: int, is_ascend: bool) -> None:
    """Sort the first ``n`` positions by their keys, stably; the keys are lost."""
    if DIGITS_FROM <= n <= DIGITS_TO:
        by_digits(column, counters, n, is_ascend)
    else:
        merge_sort(column, n, is_ascend)


@generic
def sort_column(
    arrange: Callable[..., Any], data: Array, o: int, i: int, column: Sortable, counters: Array, is_ascend: bool
) -> None:
    """The permutation that sorts ``data[o, :, i]``, into ``column.order``; ``arrange`` sorts."""
    n = data.shape[1]
    for j in range(n):
        column.keys[j], column.order[j] = data[o, j, i], j
    arrange(column, counters, n, is_ascend)


@generic
def sort(arrange: Callable[..., Any], data: Array, out: Array, column: Sortable, counters: Array, is_ascend: bool) -> int:
    """The sorted values."""
    outer, n, inner = data.shape
    for o in range(outer):
        for i in range(inner):
            sort_column(arrange, data, o, i, column, counters, is_ascend)
            for j in range(n):
                out[o, j, i] = data[o, column.order[j], i]
    return OK


@generic
def argsort(arrange: Callable[..., Any], data: Array, out: Array, column: Sortable, counters: Array, is_ascend: bool) -> int:
    """The positions that sort the values."""
    outer, n, inner = data.shape
    for o in range(outer):
        for i in range(inner):
            sort_column(arrange, data, o, i, column, counters, is_ascend)
            for j in range(n):
                out[o, j, i] = column.order[j]
    return OK


@generic
def sort_by_radix(data: Array, out: Array, column: Sortable, counters: Array, is_ascend: bool) -> int:
    """``sort`` by radix sort."""
    return sort(by_digits, data, out, column, counters, is_ascend)


@generic
def sort_by_merging(data: Array, out: Array, column: Sortable, is_ascend: bool) -> int:
    """``sort`` by merge sort."""
    return sort(by_merging, data, out, column, column.order, is_ascend)


@generic
def argsort_by_radix(data: Array, out: Array, column: Sortable, counters: Array, is_ascend: bool) -> int:
    """``argsort`` by radix sort."""
    return argsort(by_digits, data, out, column, counters, is_ascend)


@generic
def argsort_by_merging(data: Array, out: Array, column: Sortable, is_ascend: bool) -> int:
    """``argsort`` by merge sort."""
    return argsort(by_merging, data, out, column, column.order, is_ascend)


@generic
def searchsorted(
    sequence: Array, sequence_dims: Axes, values: Array, values_dims: Axes, out: Array, out_dims: Axes, right: bool
) -> int:
    """The insertion index of each value in its row of ``sequence``, or in the single row; after equal elements if ``right``."""
    n = sequence_dims[len(sequence_dims) - 1]
    for at in range(len(values)):
        start = at // values_dims[len(values_dims) - 1] * n if len(sequence_dims) > 1 else 0
        low, high = 0, n
        while low < high:
            middle = (low + high) // 2
            element = sequence[start + middle]
            if comes_before(element, values[at], True) or (right and not comes_before(values[at], element, True)):
                low = middle + 1
            else:
                high = middle
        out[at] = low
    return OK


@generic
def cumulate(data: Array, out: Array, exclusive: bool, is_product: bool) -> int:
    """The sum (or product) of all elements up to each, without itself if ``exclusive``; accumulates in the result's dtype."""
    outer, n, inner = data.shape
    lag = 1 if exclusive else 0
    start = 1 if is_product else 0
    for o in range(outer):
        for j in range(n):
            for i in range(inner):
                # stored first: the store converts the element
                out[o, j, i] = data[o, j - lag, i] if j >= lag else start
                if j > 0 and is_product:
                    out[o, j, i] *= out[o, j - 1, i]
                elif j > 0:
                    out[o, j, i] += out[o, j - 1, i]
    return OK


# ---- top k ---------------------------------------------------------------------------------------------------------


@generic
def is_worse(keys: Array, order: Array, a: int, b: int, is_ascend: bool) -> bool:
    """Whether the entry at ``a`` comes after the one at ``b``.  Equal keys are ordered by position."""
    if comes_before(keys[b], keys[a], is_ascend):
        return True
    return not comes_before(keys[a], keys[b], is_ascend) and order[a] > order[b]


@generic
def sift_down(keys: Array, order: Array, root: int, end: int, is_ascend: bool) -> None:
    """Sift the entry at ``root`` down until no child in ``:end`` is worse: the worst entry is at the top of the heap."""
    while True:
        child = 2 * root + 1
        if child >= end:
            return
        if child + 1 < end and is_worse(keys, order, child + 1, child, is_ascend):
            child += 1
        if not is_worse(keys, order, child, root, is_ascend):
            return
        key, position = keys[root], order[root]
        keys[root], order[root] = keys[child], order[child]
        keys[child], order[child] = key, position
        root = child


@generic
def any_before(data: Array, o: int, i: int, begin: int, end: int, key: Element, is_ascend: bool) -> bool:
    """Whether an element of ``data[o, begin:end, i]`` must precede ``key``."""
    found = 0
    for j in range(begin, end):
        found += 1 if comes_before(data[np.uint64(o), np.uint64(j), np.uint64(i)], key, is_ascend) else 0
    return found > 0


@generic
def select_by_heap(data: Array, o: int, i: int, k: int, keys: Array, order: Array, is_ascend: bool) -> bool:
    """The first ``k`` (at least 1) of ``data[o, :, i]`` in order, into ``order``.  False if that takes too long."""
    n, replaced = data.shape[1], 0
    for j in range(k):
        keys[j], order[j] = data[o, j, i], j
    for root in range(k // 2 - 1, -1, -1):
        sift_down(keys, order, root, k, is_ascend)
    for begin in range(k, n, _BLOCK):
        end = min(begin + _BLOCK, n)
        if not any_before(data, o, i, begin, end, keys[0], is_ascend):
            continue
        for j in range(begin, end):
            if comes_before(data[o, j, i], keys[0], is_ascend):
                keys[0], order[0] = data[o, j, i], j
                sift_down(keys, order, 0, k, is_ascend)
                replaced += 1
        if replaced * _HEAP_QUARTER > n:
            return False
    for end in range(k - 1, 0, -1):
        key, position = keys[0], order[0]
        keys[0], order[0] = keys[end], order[end]
        keys[end], order[end] = key, position
        sift_down(keys, order, 0, end, is_ascend)
    return True


#: Algorithms for the k best.
BY_HEAP, BY_SORTING, BY_EITHER = range(3)


@generic
def select_column(data: Array, o: int, i: int, k: int, column: Sortable, counters: Array, is_ascend: bool, way: int) -> None:
    """``select_by_heap``, or a sort, which is also the fallback if the heap takes too long."""
    by_heap = way == BY_HEAP or (way == BY_EITHER and k * HEAP_SHARE <= data.shape[1])
    if not (by_heap and k > 0 and select_by_heap(data, o, i, k, column.keys, column.order, is_ascend)):
        sort_column(sort_positions, data, o, i, column, counters, is_ascend)


@generic
def topk(data: Array, values: Array, indices: Array, column: Sortable, counters: Array, is_ascend: bool, way: int) -> int:
    """The first k values in order and their positions; k is the result's size."""
    outer, k, inner = values.shape
    for o in range(outer):
        for i in range(inner):
            select_column(data, o, i, k, column, counters, is_ascend, way)
            for j in range(k):
                values[o, j, i], indices[o, j, i] = data[o, column.order[j], i], column.order[j]
    return OK


@generic
def topk_values(data: Array, values: Array, column: Sortable, counters: Array, is_ascend: bool, way: int) -> int:
    """``topk``, values only."""
    outer, k, inner = values.shape
    for o in range(outer):
        for i in range(inner):
            select_column(data, o, i, k, column, counters, is_ascend, way)
            for j in range(k):
                values[o, j, i] = data[o, column.order[j], i]
    return OK


@generic
def topk_indices(data: Array, indices: Array, column: Sortable, counters: Array, is_ascend: bool, way: int) -> int:
    """``topk``, positions only."""
    outer, k, inner = indices.shape
    for o in range(outer):
        for i in range(inner):
            select_column(data, o, i, k, column, counters, is_ascend, way)
            for j in range(k):
                indices[o, j, i] = column.order[j]
    return OK


#: ``ret_type`` of topk -> body.
TOPK_BODIES: dict[str, Any] = {"both": topk, "values": topk_values, "indices": topk_indices}
