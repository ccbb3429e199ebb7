"""Recipes of operators on sparse tensors and matrices, against the dense ones that they stand for."""

from __future__ import annotations

import itertools
import math

import numpy as np

from .drawing import Draw, ints, wide
from .recipe import Call, call, recipe

Sparse = tuple[np.ndarray, np.ndarray, np.ndarray]


def sparse_matrix(d: Draw, rows: int, columns: int, block: tuple[int, ...] = ()) -> Sparse:
    """Values or blocks, their columns in any order, the begins of the rows; ``rows`` and ``columns`` count blocks."""
    lists = [d.rng.permutation(columns)[: d.rng.integers(0, columns + 1)] for _ in range(rows)]
    starts = np.cumsum([0, *map(len, lists)]).astype("int32")
    indices = np.concatenate([*lists, np.zeros(0)]).astype("int32")
    return d.array((len(indices), *block)), indices, starts


def as_dense(matrix: Sparse, columns: int) -> np.ndarray:
    """The matrix with its zeros; ``columns`` counts blocks."""
    data, indices, starts = matrix
    height, width = data.shape[1:] if data.ndim == 3 else (1, 1)
    out = np.zeros((len(starts) - 1, height, columns, width))
    for row, (begin, end) in enumerate(itertools.pairwise(starts)):
        for at in range(begin, end):
            out[row, :, indices[at]] = wide(data[at])
    return out.reshape((len(starts) - 1) * height, columns * width)


@recipe("nn.sparse_dense", by_width=True)
def sparse_dense(d: Draw, name: str) -> Call:
    count, rows = d.dims(2)
    columns, block, left = d.pick(5, 1, 0), d.pick((2, 3), ()), d.pick(False, True)
    matrix = sparse_matrix(d, rows, columns, block)
    dense = d.array((count, columns * (block[1] if block else 1)))

    def wanted() -> np.ndarray:
        product = wide(dense) @ as_dense(matrix, columns).T
        return product.T if left else product

    return call([dense, *matrix], wanted, sparse_lhs=left, tolerance=20)


@recipe("nn.sparse_conv2d", by_width=True)
def sparse_conv2d(d: Draw, name: str) -> Call:
    batch, rows, columns = d.dims(3)
    window, layout, narrow = d.pick((1, 1), (3, 3), (1, 3)), d.pick("NHWC", "NCHW"), d.pick(False, True)
    positions, height, width = 3, 2, 1 if narrow else 2
    matrix = sparse_matrix(d, 2, positions * math.prod(window), (height, width))
    image = d.array((batch, rows, columns, positions * width))

    def wanted() -> np.ndarray:
        weight = as_dense(matrix, positions * math.prod(window)).reshape(-1, *window, positions * width)
        around = [(0, 0), *((n // 2, n // 2) for n in window), (0, 0)]
        if not image.size:
            return np.zeros((batch, 4, rows, columns) if layout == "NCHW" else (batch, rows, columns, 4))
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(wide(image), around), window, axis=(1, 2))
        found = np.einsum("bhwcyx,oyxc->bhwo", windows, weight)
        return np.moveaxis(found, -1, 1) if layout == "NCHW" else found

    given = np.ascontiguousarray(np.moveaxis(image, -1, 1)) if layout == "NCHW" else image
    data = matrix[0][..., 0] if narrow else matrix[0]
    return call([given, data, *matrix[1:]], wanted, layout=layout, kernel_size=window, tolerance=20)


@recipe("nn.sparse_add", by_width=True)
def sparse_add(d: Draw, name: str) -> Call:
    dense = d.array(d.dims(2))
    matrix = sparse_matrix(d, *dense.shape)

    def wanted() -> np.ndarray:
        return (wide(dense) + as_dense(matrix, dense.shape[1])).astype(wide(dense).dtype)

    return call([dense, *matrix], wanted)


@recipe("nn.sparse_transpose", by_width=True)
def sparse_transpose(d: Draw, name: str) -> Call:
    size = d.dims(1)[0] % 50
    matrix = sparse_matrix(d, size, size)

    def wanted() -> list[np.ndarray]:
        data, columns, starts = matrix
        rows = np.repeat(np.arange(size), np.diff(starts))
        order = np.argsort(columns, kind="stable")
        return [data[order], rows[order], np.searchsorted(columns[order], np.arange(size + 1))]

    return call(list(matrix), wanted)


@recipe("sparse_reshape")
def sparse_reshape(d: Draw, name: str) -> Call:
    before, after = d.pick(((4, 6), (3, 8)), ((4, 6), (-1, 2, 3)), ((2, 3, 4), (24,)), ((0, 3), (0, 5)), ((24,), (2, -1)))
    count = 0 if 0 in before else min(d.dims(1)[0], 20)
    dtype = d.array(()).dtype
    at = np.stack([d.rng.integers(0, max(n, 1), count) for n in before], -1).astype(dtype)
    sizes = [n if n >= 0 else math.prod(before) // -math.prod(after) for n in after]

    def wanted() -> list[np.ndarray]:
        positions = np.ravel_multi_index(tuple(at.T), before) if count else np.zeros(0, int)
        rows = np.stack(np.unravel_index(positions, sizes), -1) if count else np.zeros((0, len(after)))
        return [rows, np.array(sizes)]

    return call([at, ints(*before), ints(*after)], wanted)
