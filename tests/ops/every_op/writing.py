"""Recipes of operators that write elements to places, and of products of any form."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.shape_funcs.defs.convolution.conv import data_layouts

from ..images.test_conv import in_layout
from .drawing import Draw, ints, wide
from .networks import batch_and_channels
from .picking import positions
from .recipe import Call, call, recipe

#: By Relay's name, how an element and what is written to its place become one.
MODES = {"update": lambda old, new: new, "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def written(x: np.ndarray, targets: list[tuple[Any, ...]], updates: np.ndarray, mode: str) -> np.ndarray:
    """One after the other, in the order of the indices."""
    out = wide(x).copy()
    for place, value in zip(targets, updates, strict=True):
        out[place] = MODES[mode](out[place], wide(value))
    return out


@recipe("scatter_elements", by_width=True)
def scatter_elements(d: Draw, name: str) -> Call:
    x = d.array(d.dims(2), low=1, high=3)
    axis, mode = d.pick(0, 1, -1), d.pick("update", "min", "max", "add")
    mode = "update" if d.dtype == "bool" else mode
    shape = list(x.shape)
    shape[axis] = min(3, x.shape[axis])
    at = positions(d, tuple(shape), x.shape[axis], d.pick("int64", "int32"))
    updates = d.array(shape, low=1, high=3)

    def wanted() -> np.ndarray:
        targets = []
        for place in np.ndindex(*shape):
            moved = list(place)
            moved[axis] = at[place]
            targets.append(tuple(moved))
        return written(x, targets, updates.reshape(-1), mode)

    return call([x, at, updates], wanted, axis=axis, reduction=mode, tolerance=10)


@recipe("scatter_nd", by_width=True)
def scatter_nd(d: Draw, name: str) -> Call:
    x = d.array(d.dims(3, least=1), low=1, high=3)
    count, mode = d.pick(2, 1, 3), d.pick("update", "add", "min", "max")
    n = min(d.dims(1)[0], 40)
    at = np.stack([positions(d, (n,), x.shape[k]) for k in range(count)])
    updates = d.array((n, *x.shape[count:]), low=1, high=3)
    mode = "update" if d.dtype == "bool" else mode
    return call(
        [x, at, updates], lambda: written(x, list(map(tuple, at.T)), updates, mode), mode=mode, fixed=[(1, 0)], tolerance=40
    )


@recipe("sparse_to_dense", "dyn.sparse_to_dense", by_width=True)
def sparse_to_dense(d: Draw, name: str) -> Call:
    shape = d.dims(2, least=1)
    n = min(d.dims(1)[0], 20)
    at = np.stack([d.rng.integers(0, k, n) for k in shape], -1).astype("int64")
    at = np.unique(at, axis=0)[: max(1, n // 2)] if n else at
    values, default = d.array((len(at),)), d.array(())
    out = np.full(shape, wide(default))
    out[tuple(at.T)] = wide(values)
    if name == "sparse_to_dense":
        return call([at, values, default], out, output_shape=shape)
    return call([at, values, default, ints(*shape)], out)


@recipe("sparse_fill_empty_rows", by_width=True)
def sparse_fill_empty_rows(d: Draw, name: str) -> Call:
    shape = d.dims(2, least=1)
    n = min(d.dims(1)[0], 20)
    at = np.stack([d.rng.integers(0, k, n) for k in shape], -1).astype("int64")  # in any order
    values, default = d.array((n,)), d.array(d.pick((), (1,)))
    order = np.argsort(at[:, 0], kind="stable")
    rows = [
        [(at[i], values[i]) for i in order if at[i, 0] == row] or [((row, 0), default.reshape(()))] for row in range(shape[0])
    ]
    entries = [entry for row in rows for entry in row]
    wanted = [
        np.array([i for i, _ in entries]),
        np.array([v for _, v in entries], values.dtype),
        np.array([row not in at[:, 0] for row in range(shape[0])]),
    ]
    return call([at, values, ints(*shape), default], wanted)


@recipe("invert_permutation")
def invert_permutation(d: Draw, name: str) -> Call:
    x = d.rng.permutation(d.dims(1)[0]).astype(d.array(()).dtype)
    return call([x], lambda: np.argsort(x))


@recipe("strided_set", by_width=True)
def strided_set(d: Draw, name: str) -> Call:
    x = d.array(d.dims(2))
    rows = [(d.pick(0, 1, -2), d.pick(100, 2, -1), d.pick(1, 2)) for _ in range(d.pick(2, 1))]
    at = tuple(slice(*row) for row in rows)
    v = d.array(x[at].shape)
    out = x.copy()
    out[at] = v
    return call([x, v, *(ints(*(r[k] for r in rows)) for k in range(3))], out, fixed=[(k, 0) for k in (2, 3, 4)])


# ---- products ----------------------------------------------------------------------------------------------------------


@recipe("einsum", by_width=True)
def einsum(d: Draw, name: str) -> Call:
    a, b, c = d.dims(3) if d.size != "large" else (33, 65, 41)
    equation, shapes = d.pick(
        ("ij,jk->ik", ((a, b), (b, c))),
        ("ij->ji", ((a, b),)),
        ("bij,bkj->bik", ((2, a, b), (2, c, b))),
        ("ii->i", ((a, a),)),
        ("ij,j->", ((a, b), (b,))),
        ("i,j->ij", ((a,), (b,))),
    )
    arrays = [d.array(s, low=-1, high=1) for s in shapes]
    return call([tuple(arrays)], lambda: np.einsum(equation, *map(wide, arrays)), equation=equation, tolerance=20)


@recipe("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose", by_width=True)
def conv_transpose(d: Draw, name: str) -> Call:
    rank = int(name.partition("d_")[0][-1])
    batch, channels = batch_and_channels(d)
    sizes = {1: (301,), 2: (13, 11), 3: (5, 4, 6)} if d.size == "large" else {1: (4,), 2: (3, 4), 3: (2, 3, 2)}
    groups, stride, more = d.pick(1, 2), d.pick(2, 1, 3), d.pick(0, 1)
    padding = d.pick(0, 1)
    data = d.array((batch, channels, *sizes[rank]), low=-1, high=1)
    window = tuple(d.pick(3, 2) for _ in range(rank))
    weight = d.array((channels, d.pick(2, 1), *window), low=-1, high=1)
    layout, out_layout = d.pick(*data_layouts(rank)), d.pick("", *data_layouts(rank))

    def wanted() -> np.ndarray:
        x, w = wide(data), wide(weight)
        each, out = w.shape[1], [(n - 1) * stride + k + more for n, k in zip(data.shape[2:], window, strict=True)]
        full = np.zeros((batch, groups * each, *out))
        for g in range(groups):
            own = slice(g * channels // groups, (g + 1) * channels // groups)
            for at in np.ndindex(*window):
                targets = tuple(slice(a, a + (n - 1) * stride + 1, stride) for a, n in zip(at, data.shape[2:], strict=True))
                part = np.einsum("nc...,co->no...", x[:, own], w[(own, slice(None), *at)])
                full[(slice(None), slice(g * each, (g + 1) * each), *targets)] += part
        inner = full[(slice(None), slice(None), *(slice(padding, n - padding) for n in out))]
        return in_layout(inner, out_layout or layout, data_layouts(rank)[0])

    attrs: dict[str, Any] = {"groups": groups, "strides": stride, "padding": padding, "output_padding": more}
    given = in_layout(data, layout, data_layouts(rank)[0])
    return call([given, weight], wanted, data_layout=layout, out_layout=out_layout, tolerance=10, **attrs)
