"""Recipes of operators that pick elements by index, search and sort."""

from __future__ import annotations

import numpy as np

from relayvm.ops.kernels.host_functions import numbered

from .drawing import Draw, ints, wide
from .recipe import Call, call, recipe

INDICES = ("int64", "int32")
#: The number of a function that programs call while the tests run.
_CALLABLE = numbered(lambda data: data.any())
_HAS_TRUE = _CALLABLE.__enter__()


def positions(d: Draw, shape: tuple[int, ...], size: int, dtype: str = "int64") -> np.ndarray:
    """Indices of an axis of ``size``; in an empty axis there is only the wrong one 0."""
    return d.rng.integers(0, max(size, 1), shape).astype(dtype)


@recipe("take", by_width=True)
def take(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1, 3))
    axis = d.pick(0, -1, None)
    size = x.size if axis is None else x.shape[axis]
    at = positions(d, (4, 3)[: d.pick(1, 2, 0)], size, d.pick(*INDICES))
    mode = d.pick("clip", "wrap", "fast")
    if not size:
        empty = axis is not None and x.size == 0 and 0 in np.delete(x.shape, axis)
        wanted = np.zeros(0) if empty else "index is out of range"
        if empty:
            shape = list(x.shape)
            shape[axis : axis + 1 if axis != -1 else None] = at.shape
            wanted = np.zeros(shape)
        return call([x, at], wanted, axis=axis, mode=mode)
    return call([x, at], np.take(x, at, axis), axis=axis, mode=mode)


@recipe("weighted_take")
def weighted_take(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1, 3))
    axis, taps = d.axis(x.ndim), d.pick(2, 1, 4)
    size, count = x.shape[axis], d.pick(5, 1, 0)
    at = positions(d, (count, taps), size, d.pick(*INDICES)) + d.pick(0, 0, 2)  # some beyond the last element
    weights = d.rng.uniform(-1, 1, at.shape).astype(d.pick("float32", "float64"))
    shape = list(x.shape)
    shape[axis] = count
    if size:
        parts = np.moveaxis(wide(x), axis, -1)[..., np.minimum(at, size - 1)] * wide(weights)
        wanted = np.moveaxis(parts.sum(-1), -1, axis).astype(weights.dtype)
    else:
        wanted = "index is out of range" if np.prod(shape) else np.zeros(shape, weights.dtype)
    return call([x, at, weights], wanted, fixed=[(1, 1), (2, 1)], axis=axis)


@recipe("gather", by_width=True)
def gather(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1, 3))
    axis = d.axis(x.ndim)
    shape = list(x.shape)
    size, shape[axis] = shape[axis], d.pick(2, 1, 0, 5)
    at = positions(d, tuple(shape), size, d.pick(*INDICES))
    if not size and at.size:
        return call([x, at], "index is out of range", axis=axis)
    wanted = np.take_along_axis(x, at.astype("int64"), axis) if size else np.zeros(shape)
    return call([x, at], wanted, axis=axis)


@recipe("gather_nd", by_width=True)
def gather_nd(d: Draw, name: str) -> Call:
    x = d.array(d.dims(3, least=1))
    count = d.pick(2, 1, 3)
    sizes = d.dims(1)
    at = np.stack([positions(d, sizes, x.shape[k], "int64") for k in range(count)])
    return call([x, at], x[tuple(at)], fixed=[(1, 0)])


@recipe("one_hot", "dyn.one_hot")
def one_hot(d: Draw, name: str) -> Call:
    depth, dtype = d.pick(4, 1, 6), d.dtype
    shape = d.shape(0, 3)
    at = d.rng.integers(-1, depth + 1, shape).astype(d.pick("int32", "int64"))
    axis = d.pick(-1, *range(len(shape) + 1))
    on, off = d.scalar(1), d.scalar(0)
    lifted = np.expand_dims(at, axis % (len(shape) + 1))
    sizes = np.arange(depth).reshape([-1 if k == axis % (len(shape) + 1) else 1 for k in range(len(shape) + 1)])
    wanted = np.where(lifted == sizes, wide(on), wide(off))
    if name == "one_hot":
        return call([at, on, off], wanted, depth=depth, axis=axis, dtype=dtype)
    return call([at, on, off, d.scalar(depth, "int64")], wanted, axis=axis, dtype=dtype)


# ---- searching -----------------------------------------------------------------------------------------------------------


@recipe("argwhere", by_width=True)
def argwhere(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1), low=0, high=2)
    return call([x], np.argwhere(wide(x)).reshape(-1, x.ndim))


@recipe("searchsorted", by_width=True)
def searchsorted(d: Draw, name: str) -> Call:
    sequence, values = d.array(d.dims(1)), d.array(d.dims(2))
    sequence = np.sort(wide(sequence)).astype(sequence.dtype)
    right, dtype = d.pick(False, True), d.pick("int32", "int64")
    wanted = np.searchsorted(wide(sequence), wide(values), "right" if right else "left")
    return call([sequence, values], wanted.reshape(values.shape), right=right, dtype=dtype)


@recipe("unique", by_width=True)
def unique(d: Draw, name: str) -> Call:
    x = d.array(d.dims(1))
    if x.dtype.kind not in "iub":
        x = np.round(wide(x)).astype(x.dtype)
    is_sorted, counts = d.pick(True, False), d.pick(False, True)
    values, first, inverse, number = np.unique(wide(x), return_index=True, return_inverse=True, return_counts=True)
    order = np.arange(len(values)) if is_sorted else np.argsort(first)
    where = np.empty(len(values), int)
    where[order] = np.arange(len(values))
    results = [values[order], first[order], where[inverse], ints(len(values)), number[order]]
    return call([x], results if counts else results[:4], is_sorted=is_sorted, return_counts=counts)


# ---- sorting -----------------------------------------------------------------------------------------------------------


def order_of(x: np.ndarray, axis: int, ascend: bool) -> np.ndarray:
    """A stable order."""
    key = wide(x)
    if ascend:
        return np.argsort(key, axis, kind="stable")
    # stable, largest first: from the end of the axis turned round
    transposed = np.argsort(np.flip(key, axis), axis, kind="stable")
    return np.flip(key.shape[axis] - 1 - transposed, axis)


@recipe("sort", "argsort", by_width=True)
def sort(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1))
    axis, ascend = d.axis(x.ndim), d.pick(True, False)
    order = order_of(x, axis, ascend)
    if name == "sort":
        return call([x], np.take_along_axis(x, order, axis), axis=axis, is_ascend=ascend)
    return call([x], order, axis=axis, is_ascend=ascend, dtype=d.pick("int32", "int64", "float32"))


@recipe("topk", "dyn.topk", by_width=True)
def topk(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1))
    axis, ascend = d.axis(x.ndim), d.pick(False, True)
    k = d.pick(1, 0, 2, 3)
    attrs = {"axis": axis, "is_ascend": ascend, "ret_type": d.pick("both", "values", "indices"), "dtype": d.pick(*INDICES)}
    inputs = [x] if name == "topk" else [x, d.scalar(k, "int64")]
    attrs |= {"k": k} if name == "topk" else {}
    if k > x.shape[axis]:
        return call(inputs, f"k is {k}", **attrs)
    order = order_of(x, axis, ascend)
    order = np.take(order, np.arange(k or x.shape[axis]), axis)
    results = {"values": np.take_along_axis(x, order, axis), "indices": order}
    kinds = ("values", "indices") if attrs["ret_type"] == "both" else (attrs["ret_type"],)
    return call(inputs, [results[kind] for kind in kinds], **attrs)


@recipe("cumsum", "cumprod", by_width=True)
def cumulate(d: Draw, name: str) -> Call:
    function = np.cumsum if name == "cumsum" else np.cumprod
    x = d.array(d.shape(1, 3), low=-2, high=2)
    if name == "cumprod":
        x = np.where(d.rng.random(x.shape) < 0.5, 1, 1 if d.dtype.startswith("u") else -1).astype(x.dtype)
    axis, exclusive = d.pick(-1, None, 0), d.pick(False, True)
    wanted = wide(x).reshape(-1) if axis is None else wide(x)
    if exclusive:
        at = axis or 0
        start = np.full_like(np.take(wanted, [0], at) if wanted.shape[at] else wanted, int(name == "cumprod"))
        wanted = np.concatenate([start, np.delete(wanted, -1, at)], at) if wanted.shape[at] else wanted
    return call([x], lambda: function(wanted, axis or 0, dtype=wanted.dtype), axis=axis, exclusive=exclusive, tolerance=20)


@recipe("host_function", by_width=True)
def host_function(d: Draw, name: str) -> Call:
    x, is_called = d.array(d.shape(0), low=0, high=2), d.pick(True, False)
    number = np.array(_HAS_TRUE if is_called else 0)
    return call([number, x], np.array(is_called and bool(wide(x).any())))
