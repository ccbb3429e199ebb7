"""Resizing and grid sampling by their definitions, in float64: a matrix of weights for each axis."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

ROUNDING = {
    "round": lambda x: math.floor(x + 0.5) if x >= 0 else math.ceil(x - 0.5),  # exact at the places that are tried
    "round_prefer_floor": lambda x: math.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: math.floor(x + 0.5),
    "floor": math.floor,
    "ceil": math.ceil,
}


def source(i: int, n: int, m: int, mode: str, scale: float | None, region: tuple[float, float] | None) -> float:
    """The coordinate of element ``i`` of ``m`` in an axis of ``n`` elements."""
    ratio = m / n if scale is None else scale
    match mode:
        case "half_pixel":
            return (i + 0.5) / ratio - 0.5
        case "half_pixel_symmetric":
            return n / 2 * (1 - m / (ratio * n)) + (i + 0.5) / ratio - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / ratio - 0.5 if m > 1 else 0.0
        case "align_corners":
            return i * (n - 1) / (ratio * n - 1) if m > 1 else 0.0
        case "asymmetric":
            return i / ratio
        case "tf_half_pixel_for_nn":
            return (i + 0.5) / ratio
    assert mode == "tf_crop_and_resize" and region is not None
    begin, end = region
    return begin * (n - 1) + i * (end - begin) * (n - 1) / (m - 1) if m > 1 else (begin + end) / 2 * (n - 1)


def cubic(d: float, a: float) -> float:
    d = abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def weights(x: float, n: int, attrs: dict[str, Any]) -> np.ndarray:
    """The weight of each of the ``n`` elements at ``x``."""
    out = np.zeros(n)
    method = attrs.get("method", "linear")
    if method == "nearest_neighbor":
        mode = attrs.get("coordinate_transformation_mode")
        how = attrs.get("rounding_method") or ("round" if mode == "align_corners" else "floor")
        out[min(max(ROUNDING[how](x), 0), n - 1)] = 1
        return out
    reach = 1 if method == "linear" else 2
    pairs = []
    for k in range(math.floor(x) - reach + 1, math.floor(x) + reach + 1):
        weight = 1 - abs(x - k) if method == "linear" else cubic(x - k, attrs.get("cubic_alpha", -0.5))
        if method == "linear" or not attrs.get("cubic_exclude") or 0 <= k < n:
            pairs.append((min(max(k, 0), n - 1), weight))
    for k, weight in pairs:
        out[k] += weight / (sum(w for _, w in pairs) if attrs.get("cubic_exclude") and method == "cubic" else 1)
    return out


def resized(data: np.ndarray, size: tuple[int, ...], attrs: dict[str, Any]) -> np.ndarray:
    """Channels before space."""
    out, rank, roi = data.astype(np.float64), len(size), attrs.get("roi")
    mode, crops = attrs.get("coordinate_transformation_mode", "half_pixel"), None
    for k, m in enumerate(size):
        n = data.shape[2 + k]
        scale = attrs["scales"][k] if attrs.get("scales") else None
        positions = [source(i, n, m, mode, scale, (roi[k], roi[rank + k]) if roi else None) for i in range(m)]
        matrix = np.array([weights(x, n, attrs) for x in positions]).reshape(m, n)
        out = np.moveaxis(np.tensordot(matrix, out, (1, 2 + k)), 0, 2 + k)
        outside = np.array([not 0 <= x <= n - 1 for x in positions], bool).reshape([-1 if k == j else 1 for j in range(rank)])
        crops = outside if crops is None else crops | outside
    if mode == "tf_crop_and_resize":
        out = np.where(crops, attrs.get("extrapolation_value", 0.0), out)
    return out


# ---- grids -----------------------------------------------------------------------------------------------------------


def affine(matrices: np.ndarray, target: tuple[int, ...], aligned: bool) -> np.ndarray:
    """The places of a grid."""

    def along(n: int) -> np.ndarray:
        if not aligned:
            return (2 * np.arange(n) + 1) / n - 1
        return np.linspace(-1, 1, n) if n > 1 else np.zeros(n)

    axes = np.meshgrid(*map(along, target), indexing="ij")
    base = np.stack([*reversed(axes), np.ones(target)])  # x first
    return np.tensordot(matrices.astype(np.float64), base, (2, 0))


def mirrored(x: float, low: float, high: float) -> float:
    """``x`` mirrored at both ends until it is between them."""
    while high > low and not low <= x <= high:
        x = 2 * low - x if x < low else 2 * high - x
    return x if high > low else low


def grid_weights(x: float, n: int, method: str, padding: str, aligned: bool) -> dict[int, float]:
    """Indices and weights of the contributing elements of an axis; index -1 is outside."""
    at = (x + 1) / 2 * (n - 1) if aligned else ((x + 1) * n - 1) / 2
    ends = (0, n - 1) if aligned else (-0.5, n - 0.5)
    if padding == "border" and method != "bicubic":
        at = min(max(at, 0), n - 1)
    elif padding == "reflection" and method != "bicubic":
        at = min(max(mirrored(at, *ends), 0), n - 1)
    if method == "nearest":
        parts = [(round(at), 1.0)]
    elif method == "bilinear":
        parts = [(math.floor(at), 1 - at + math.floor(at)), (math.floor(at) + 1, at - math.floor(at))]
    else:
        parts = [(k, cubic(at - k, -0.75)) for k in range(math.floor(at) - 1, math.floor(at) + 3)]
    out: dict[int, float] = {}
    for k, weight in parts:
        if padding == "reflection":
            k = round(mirrored(k, *ends))
        if padding != "zeros":
            k = min(max(k, 0), n - 1)
        key = k if 0 <= k < n else -1
        out[key] = out.get(key, 0) + weight
    return out


def sampled(data: np.ndarray, grid: np.ndarray, method: str, padding: str, aligned: bool) -> np.ndarray:
    """Channels before space, x of a place first."""
    rank = data.ndim - 2
    out = np.zeros((*data.shape[:2], *grid.shape[2:]))
    for b, *at in np.ndindex(len(data), *grid.shape[2:]):
        place = [float(grid[(b, rank - 1 - k, *at)]) for k in range(rank)]
        taps = [grid_weights(x, n, method, padding, aligned) for x, n in zip(place, data.shape[2:], strict=True)]
        for chosen in itertools.product(*(t.items() for t in taps)):
            if all(k >= 0 for k, _ in chosen):
                element = data[(b, slice(None), *(k for k, _ in chosen))].astype(np.float64)
                out[(b, slice(None), *at)] += element * math.prod(w for _, w in chosen)
    return out
