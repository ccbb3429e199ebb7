"""Scatter elements to the positions of an index tensor.  Updates are applied in the order of the indices.

A *place* is the linear index of an element of the result.  A negative index counts from the end if so documented; an
index out of range stops the kernel before anything is written.
"""

from __future__ import annotations

import numpy as np

from ...native.memory import Array, Axes, generic
from ...native.status import BAD_VALUE, INDEX_OUT_OF_RANGE, OK
from ..shaped import Shaped

UPDATE, ADD, MULTIPLY, MINIMUM, MAXIMUM, MEAN = range(6)
#: By the name of the mode.
MODES = {"update": UPDATE, "add": ADD, "mul": MULTIPLY, "min": MINIMUM, "max": MAXIMUM, "mean": MEAN}


@generic
def from_the_end(index: int, size: int) -> int:
    """An index counted from the front; -1 if it is out of range."""
    if index < 0:
        index += size
    return index if 0 <= index < size else -1


@generic
def are_inside(indices: Array, size: int) -> bool:
    """Whether every index is in range, counted from the front or from the end."""
    low, high = 0, -1
    for at in range(len(indices)):
        index = int(indices[at])
        low = min(low, index)
        high = max(high, index)
    return low >= -size and high < size


@generic
def elements_between(dims: Axes, begin: int, end: int) -> int:
    """The product of the sizes ``begin`` to ``end`` (exclusive)."""
    elements = 1
    for k in range(begin, end):
        elements *= dims[k]
    return elements


@generic
def differs_along_one_axis(dims: Axes, index_dims: Axes, axis: int) -> bool:
    """Whether the sizes of the indices are those of the data, but for ``axis``: their elements are in the same order."""
    differing = 0
    for k in range(len(dims)):
        differing += 1 if k != axis and dims[k] != index_dims[k] else 0
    return differing == 0


@generic
def offsets_of_elements(offsets: Array, dims: Axes, indices: Array, index_dims: Axes, axis: int) -> None:
    """The place of each element of ``indices``: its own index, with the element's value along ``axis``, which is in range."""
    rank = len(dims)
    for at in range(len(indices)):
        rest, place, step = at, 0, 1
        for k in range(rank - 1, -1, -1):
            index = rest % index_dims[k]
            rest //= index_dims[k]
            place += (from_the_end(int(indices[at]), dims[k]) if k == axis else index) * step
            step *= dims[k]
        offsets[at] = place


@generic
def is_one_index(indices: Array, at: int, count: int) -> bool:
    """Whether ``count`` indices from ``at`` on are equal."""
    differing, first = 0, indices[at]
    for i in range(count):
        differing += 1 if indices[np.uint64(at + i)] != first else 0
    return differing == 0


@generic
def write_rows(dims: Axes, indices: Array, index_dims: Axes, updates: Array, out: Array, axis: int) -> None:
    """Write each update to its place, of indices whose sizes differ from those of the data along ``axis`` alone.

    Indices are often those of whole rows, which are copied.
    """
    size, inner = dims[axis], elements_between(dims, axis + 1, len(dims))
    at, rows = 0, index_dims[axis]
    for outer in range(elements_between(dims, 0, axis) if len(indices) > 0 else 0):
        for _ in range(rows):
            if is_one_index(indices, at, inner):
                to = (outer * size + from_the_end(int(indices[at]), size)) * inner
                for i in range(inner):
                    out[np.uint64(to + i)] = updates[np.uint64(at + i)]
            else:
                for i in range(inner):
                    out[(outer * size + from_the_end(int(indices[at + i]), size)) * inner + i] = updates[at + i]
            at += inner


@generic
def offsets_of_tuples(offsets: Array, dims: Axes, indices: Array, coordinates: int, inner: int) -> int:
    """The place of each index tuple; the coordinates of a tuple are along the first axis of ``indices``, and a tuple addresses
    ``inner`` elements."""
    n = len(offsets)
    for at in range(n):
        place = 0
        for k in range(coordinates):
            index = from_the_end(int(indices[k * n + at]), dims[k])
            if index < 0:
                return INDEX_OUT_OF_RANGE
            place = place * dims[k] + index
        offsets[at] = place * inner
    return OK


@generic
def count(to: Array, offsets: Array, inner: int, counts: Array) -> None:
    """Divide each element by the number of its summands; ``counts`` has as many elements."""
    for i in range(len(to)):
        counts[i] = 1
    for u in range(len(offsets)):
        for j in range(inner):
            counts[offsets[u] + j] += 1
    for i in range(len(to)):
        if counts[i] > 1:
            to[i] /= counts[i]


@generic
def combine(to: Array, offsets: Array, updates: Array, counts: Array, inner: int, mode: int) -> None:
    """Combine the ``inner`` elements at each place with the updates, in their order; only means need ``counts``."""
    for u in range(len(offsets)):
        for j in range(inner):
            at, new = offsets[u] + j, updates[u * inner + j]
            if mode == MULTIPLY:
                to[at] *= new
            elif mode == MINIMUM:
                if new < to[at] or new != new:
                    to[at] = new
            elif mode == MAXIMUM:
                if new > to[at] or new != new:
                    to[at] = new
            else:
                to[at] += new
    if mode == MEAN:
        count(to, offsets, inner, counts)


@generic
def copy(data: Array, out: Array) -> None:
    """Copy ``data``, unless the result is written in its place."""
    if data.ctypes.data != out.ctypes.data:
        for i in range(len(data)):
            out[i] = data[i]


@generic
def write(data: Array, offsets: Array, updates: Array, out: Array, sums: Array, counts: Array, inner: int, mode: int) -> None:
    """``data`` with the updates at their places, into ``out``.  ``sums`` is as long, of the compute dtype; mode ``update`` does
    not need it."""
    if mode == UPDATE:
        copy(data, out)
        for u in range(len(offsets)):
            for j in range(inner):
                out[offsets[u] + j] = updates[u * inner + j]
        return
    for i in range(len(data)):
        sums[i] = data[i]
    combine(sums, offsets, updates, counts, inner, mode)
    for i in range(len(data)):
        out[i] = sums[i]


@generic
def scatter_elements(
    data: Shaped, indices: Shaped, updates: Shaped, out: Shaped, sums: Array, offsets: Array, counts: Array, axis: int, mode: int
) -> int:
    """Scatter each update to the index of the same position, along ``axis``."""
    dims, index_dims, along = data.dims, indices.dims, axis if axis >= 0 else axis + len(data.dims)
    if not are_inside(indices.data, dims[along]):
        return INDEX_OUT_OF_RANGE
    if mode == UPDATE and differs_along_one_axis(dims, index_dims, along):
        copy(data.data, out.data)
        write_rows(dims, indices.data, index_dims, updates.data, out.data, along)
    else:
        offsets_of_elements(offsets, dims, indices.data, index_dims, along)
        write(data.data, offsets, updates.data, out.data, sums, counts, 1, mode)
    return OK


@generic
def scatter_nd(
    data: Shaped, indices: Shaped, updates: Shaped, out: Shaped, sums: Array, offsets: Array, counts: Array, mode: int
) -> int:
    """Scatter each slice of the updates to the index tuple of the same position."""
    inner, coordinates = 1, indices.dims[0]
    for k in range(coordinates, len(data.dims)):
        inner *= data.dims[k]
    status = offsets_of_tuples(offsets, data.dims, indices.data, coordinates, inner)
    if status == OK:
        write(data.data, offsets, updates.data, out.data, sums, counts, inner, mode)
    return status


@generic
def sparse_to_dense(
    indices: Array, index_dims: Axes, values: Array, value_dims: Axes, default: Array, default_dims: Axes, out: Array, dims: Axes
) -> int:
    """``values`` (or a single value) at the points of ``indices``, whose last axis holds coordinates; else the default."""
    coordinates = index_dims[1] if len(index_dims) == 2 else 1
    n = index_dims[0] if len(index_dims) > 0 else 1
    for i in range(len(out)):
        out[i] = default[0]
    for at in range(n):
        place = 0
        for k in range(coordinates):
            index = int(indices[at * coordinates + k])
            if index < 0 or index >= dims[k]:
                return INDEX_OUT_OF_RANGE
            place = place * dims[k] + index
        out[place] = values[at if len(value_dims) > 0 else 0]
    return OK


@generic
def invert_permutation(data: Array, out: Array) -> int:
    """The inverse of the permutation ``data`` of 0 to n - 1."""
    n = len(data)
    for i in range(n):
        out[i] = -1
    for i in range(n):
        at = int(data[i])
        if at < 0 or at >= n:
            return INDEX_OUT_OF_RANGE
        if out[at] >= 0:
            return BAD_VALUE
        out[at] = i
    return OK
