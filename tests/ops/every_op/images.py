"""Recipes of operators on pictures: resizing and its relatives, by weights along each axis."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from relayvm.shape_funcs.defs.convolution.conv import data_layouts

from ..images.test_conv import in_layout
from .drawing import Draw, ints, wide
from .recipe import Call, call, recipe

MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")


def place(i: int, n: int, m: int, mode: str) -> Fraction:
    """The position in ``n`` elements of element ``i`` of ``m``."""
    if mode == "align_corners":
        return Fraction(i * (n - 1), max(m - 1, 1))
    if mode == "asymmetric":
        return Fraction(i * n, m)
    if mode == "pytorch_half_pixel" and m == 1:
        return Fraction(0)
    return Fraction((2 * i + 1) * n, 2 * m) - Fraction(1, 2)


def cubic(distance: float) -> float:
    """Keys' kernel with a = -0.5."""
    x = abs(distance)
    if x <= 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def weights(n: int, m: int, method: str, mode: str) -> np.ndarray:
    """The weight of each of ``n`` elements in each of ``m`` elements."""
    out = np.zeros((m, n))
    for i in range(m):
        x = place(i, n, m, mode)
        if method == "nearest_neighbor":
            at = math.floor(x + Fraction(1, 2)) if mode == "align_corners" else math.floor(x)
            out[i, min(max(at, 0), n - 1)] = 1
        elif method == "linear":
            x = min(max(x, Fraction(0)), Fraction(n - 1))
            low = math.floor(x)
            out[i, low] += float(1 - (x - low))
            out[i, min(low + 1, n - 1)] += float(x - low)
        else:
            for at in range(math.floor(x) - 1, math.floor(x) + 3):
                out[i, min(max(at, 0), n - 1)] += cubic(float(x - at))
    return out


def resized(x: np.ndarray, sizes: tuple[int, ...], method: str, mode: str) -> np.ndarray:
    """Channels before space."""
    out = wide(x).astype(np.float64)
    for axis, size in enumerate(sizes, 2):
        matrix = weights(x.shape[axis], size, method, mode)
        out = np.moveaxis(np.tensordot(matrix, out, (1, axis)), 0, axis)
    return out


def image(d: Draw, rank: int) -> np.ndarray:
    """A batch of pictures, channels before space; no spatial axis is empty."""
    batch = {"empty": 0, "one": 1, "odd": 3, "large": 6, None: d.pick(1, 0, 2)}[d.size]
    sizes = {1: (67,), 2: (21, 19), 3: (7, 9, 8)} if d.size == "large" else {1: (5,), 2: (5, 4), 3: (3, 4, 5)}
    spatial = tuple(d.pick(n, 1, 2) for n in sizes[rank]) if d.size is None else sizes[rank]
    return d.array((batch, 3, *spatial))


@recipe("image.resize1d", "image.resize2d", "image.resize3d", "dyn.image.resize2d", by_width=True)
def resize(d: Draw, name: str) -> Call:
    rank = int(name[-2])
    x = image(d, rank)
    sizes = tuple(d.pick(n, 3, 7, 1) for n in (6, 4, 3)[:rank])
    method, mode = d.pick("linear", "nearest_neighbor", "cubic"), d.pick(*MODES)
    layout = d.pick(*data_layouts(rank))
    attrs: dict[str, Any] = {"method": method, "coordinate_transformation_mode": mode, "layout": layout}

    def wanted() -> np.ndarray:
        out = in_layout(resized(x, sizes, method, mode), layout, data_layouts(rank)[0])
        return np.trunc(out) if x.dtype.kind in "iu" else out

    given = in_layout(x, layout, data_layouts(rank)[0])
    if d.dtype == "bool" or x.dtype.kind in "iu":
        # between integers a rounding decides
        attrs["method"] = method = "nearest_neighbor"
    if name.startswith("dyn."):
        return call([given, ints(*sizes), np.zeros(4, "float32")], wanted, tolerance=5, **attrs)
    return call([given], wanted, size=sizes, tolerance=5, **attrs)


@recipe("nn.upsampling", "nn.upsampling3d", "dyn.nn.upsampling", "dyn.nn.upsampling3d", by_width=True)
def upsampling(d: Draw, name: str) -> Call:
    rank = 3 if name.endswith("3d") else 2
    x = image(d, rank)
    scales = tuple(float(d.pick(2, 1, 3)) for _ in range(rank))
    floats = x.dtype.kind not in "iub"
    linear = "trilinear" if rank == 3 else "bilinear"
    method = d.pick("nearest_neighbor", linear) if floats else "nearest_neighbor"
    corners = method == linear and d.pick(False, True)
    layout = d.pick(*data_layouts(rank))
    attrs: dict[str, Any] = {"layout": layout, "method": method}
    mode = "align_corners" if corners else "asymmetric"
    attrs |= {"align_corners": corners} if rank == 2 else {"coordinate_transformation_mode": mode}
    sizes = tuple(int(n * s) for n, s in zip(x.shape[2:], scales, strict=True))

    def wanted() -> np.ndarray:
        out = resized(x, sizes, "linear" if method == linear else method, mode)
        return in_layout(out, layout, data_layouts(rank)[0])

    given = in_layout(x, layout, data_layouts(rank)[0])
    names = ("scale_d", "scale_h", "scale_w")[-rank:]
    if name.startswith("dyn."):
        return call([given, *(d.scalar(s, "float32") for s in scales)], wanted, tolerance=5, **attrs)
    return call([given], wanted, tolerance=5, **dict(zip(names, scales, strict=True)), **attrs)


# ---- grids ---------------------------------------------------------------------------------------------------------------


@recipe("image.affine_grid", by_width=True)
def affine_grid(d: Draw, name: str) -> Call:
    rank = d.pick(2, 3)
    batch, target = d.dims(1)[0] % 100, tuple(d.pick(4, 3, 2, 1) for _ in range(rank))
    corners = d.pick(True, False)
    matrices = d.array((batch, rank, rank + 1))

    def wanted() -> np.ndarray:
        def along(n: int) -> np.ndarray:
            if corners:
                return np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
            return (2 * np.arange(n) + 1) / n - 1

        positions = np.meshgrid(*map(along, target), indexing="ij")[::-1]
        grid = np.stack([*positions, np.ones(target)]).reshape(rank + 1, -1)
        return (wide(matrices) @ grid).reshape(batch, rank, *target)

    return call([matrices], wanted, target_shape=target, align_corners=corners, tolerance=5)


@recipe("image.grid_sample", by_width=True)
def grid_sample(d: Draw, name: str) -> Call:
    x = image(d, 2)
    corners, padding, method = d.pick(True, False), d.pick("zeros", "border"), d.pick("bilinear", "nearest")
    # eighths of an element and a little: no rounding decides which elements are near
    # the dtype of the grid rounds the positions: with float64 data the weights of the taps must be as exact as the data
    dtype = "float64" if x.dtype == np.float64 else "float32"
    grid = (d.rng.integers(-10, 11, (len(x), 2, 3, 4)) / 8 + 0.01).astype(dtype)

    def wanted() -> np.ndarray:
        out = np.zeros((*x.shape[:2], 3, 4))
        for b, i, j in np.ndindex(len(x), 3, 4):
            at = [(float(grid[b, 1 - k, i, j]), n) for k, n in enumerate(x.shape[2:])]
            y, z = ((g + 1) / 2 * (n - 1) if corners else ((g + 1) * n - 1) / 2 for g, n in at)
            out[b, :, i, j] = sampled(wide(x)[b], y, z, padding, method)
        return out

    return call([x, grid], wanted, method=method, padding_mode=padding, align_corners=corners, tolerance=50)


@recipe("nn.deformable_im2col", "nn.deformable_conv2d", "nn.modulated_deformable_conv2d", by_width=True)
def deformable(d: Draw, name: str) -> Call:
    dtype = "float64" if d.dtype == "float64" else "float32"
    groups, stride, pads, distance = d.pick(1, 2), d.pick(1, 2), d.pick(1, 0), d.pick(1, 2)
    batch, *space = d.dims(3, least=0)
    rows, columns = (max(n % 12, 5) for n in space)
    x = d.array((batch % 4, 2 * groups, rows, columns), dtype)
    out = tuple((n + 2 * pads - distance * k - 1) // stride + 1 for n, k in ((rows, 1), (columns, 2)))
    offset = (d.rng.integers(-20, 20, (len(x), groups * 12, *out)) / 8 + 0.01).astype(dtype)
    mask = d.array((len(x), groups * 6, *out), dtype) if name != "nn.deformable_conv2d" else np.ones((), dtype)
    weight = d.array((3, 2 * groups, 2, 3), dtype)

    def wanted() -> np.ndarray:
        found = np.zeros((len(x), 2 * groups, 6, *out))
        for b, g, k, i, j in np.ndindex(len(x), groups, 6, *out):
            near = offset[b, g * 12 + 2 * k : g * 12 + 2 * k + 2, i, j]
            y = float(i * stride - pads + k // 3 * distance + near[0])
            z = float(j * stride - pads + k % 3 * distance + near[1])
            taken = sampled(wide(x)[b, 2 * g : 2 * g + 2], y, z, "zeros", "bilinear")
            found[b, 2 * g : 2 * g + 2, k, i, j] = taken * (mask[b, g * 6 + k, i, j] if mask.ndim else 1)
        if name == "nn.deformable_im2col":
            return found.reshape(len(x), 12 * groups, *out)
        return np.einsum("bckij,ock->boij", found, wide(weight).reshape(3, 2 * groups, 6))

    inputs = {"nn.deformable_im2col": [x, offset, mask], "nn.deformable_conv2d": [x, offset, weight]}
    attrs = {"strides": (stride, stride), "padding": (pads, pads), "dilation": (distance, distance)}
    attrs |= {"kernel_size": (2, 3), "deformable_groups": groups}
    return call(inputs.get(name, [x, offset, mask, weight]), wanted, tolerance=50, **attrs)


def sampled(plane: np.ndarray, y: float, x: float, padding: str, method: str) -> np.ndarray:
    """All channels at one place."""

    def element(i: int, j: int) -> np.ndarray:
        rows, columns = plane.shape[1:]
        if padding == "zeros" and not (0 <= i < rows and 0 <= j < columns):
            return np.zeros(len(plane))
        return plane[:, min(max(i, 0), rows - 1), min(max(j, 0), columns - 1)]

    if method == "nearest":
        return element(round(y), round(x))
    i, j = math.floor(y), math.floor(x)
    upper = (j + 1 - x) * element(i, j) + (x - j) * element(i, j + 1)
    lower = (j + 1 - x) * element(i + 1, j) + (x - j) * element(i + 1, j + 1)
    return (i + 1 - y) * upper + (y - i) * lower
