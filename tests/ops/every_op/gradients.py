"""Recipes of gradients: of a broadcast, of pooling, of a convolution's weight; and of the correlation of two pictures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .drawing import Draw, ints, wide
from .recipe import Call, call, recipe


def summed(x: np.ndarray, target: tuple[int, ...]) -> np.ndarray:
    """The sum to a shape that a broadcast begins with."""
    leading = x.ndim - len(target)
    ones = tuple(k for k, n in enumerate(target, leading) if n == 1)
    found = wide(x).sum(axis=(*range(leading), *ones), keepdims=True) if x.ndim else wide(x)
    return found.reshape(target).astype(wide(x).dtype)


def _broadcast(d: Draw) -> tuple[np.ndarray, tuple[int, ...]]:
    shape = d.shape(1, 4)
    target = tuple(d.pick(1, n, n) for n in shape)[d.pick(0, 1) :]
    return d.array(shape), target


@recipe("collapse_sum_like")
def collapse_sum_like(d: Draw, name: str) -> Call:
    x, target = _broadcast(d)
    return call([x, d.array(target)], lambda: summed(x, target), tolerance=20)


@recipe("collapse_sum_to")
def collapse_sum_to(d: Draw, name: str) -> Call:
    x, target = _broadcast(d)
    return call([x, ints(*target)], lambda: summed(x, target), tolerance=20)


@recipe("collapse_axes_like", by_width=True)
def collapse_axes_like(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1, 4))
    axes = d.pick((), (x.ndim - 1,))
    wanted = x.reshape(*x.shape[:-1], *([1] * len(axes)), x.shape[-1])
    return call([x, np.zeros(x.shape[-1:], "float32")], wanted, fixed=[(0, x.ndim - 1), (1, 0)], axes=axes)


@recipe("collapse_axes_to", by_width=True)
def collapse_axes_to(d: Draw, name: str) -> Call:
    x = d.array((*d.dims(1), 1))
    axes = d.pick((), (1,))
    return call([x, ints(1)], x.reshape(*x.shape, *([1] * len(axes))), fixed=[(0, 1)], axes=axes)


# ---- pooling -------------------------------------------------------------------------------------------------------------


def _pooling(d: Draw, channels_last: bool = False) -> tuple[tuple[int, ...], dict[str, Any], tuple[int, ...]]:
    """The shape of the data, the attributes, the numbers of windows."""
    batch, channels, rows, columns = d.dims(4) if d.size != "large" else (3, 4, 17, 19)
    window, strides = d.pick((2, 3), (3, 3), (1, 2)), d.pick((1, 2), (2, 1), (3, 3))
    padding, ceil = d.pick((0, 1), (1, 0, 0, 1), (0, 0)), d.pick(False, True)
    rows, columns = rows + 3, columns + 3
    attrs = {"pool_size": window, "strides": strides, "padding": padding, "ceil_mode": ceil}
    pads = _pads(padding)
    counts = []
    for k, size in enumerate((rows, columns)):
        free = size + sum(pads[k]) - window[k]
        counts.append((-(-free // strides[k]) if ceil else free // strides[k]) + 1)
    return (batch, channels, rows, columns), attrs, tuple(counts)


def _pads(padding: tuple[int, ...]) -> list[tuple[int, int]]:
    """Before and after each axis."""
    before, after = (padding[:2], padding[2:]) if len(padding) == 4 else (padding, padding)
    return list(zip(before, after, strict=True))


def _positions(attrs: dict[str, Any], sizes: tuple[int, ...], windows: tuple[int, int]) -> list[tuple[int, int]]:
    """The elements of a window inside the data, row by row."""
    ends = []
    for k, number in enumerate(windows):
        start = number * attrs["strides"][k] - _pads(attrs["padding"])[k][0]
        ends.append(range(max(start, 0), min(start + attrs["pool_size"][k], sizes[k])))
    return [(y, x) for y in ends[0] for x in ends[1]]


def _grad(kind: str, gradient: np.ndarray, data: np.ndarray, attrs: dict[str, Any], include: bool) -> np.ndarray:
    out = np.zeros(data.shape)
    for at in np.ndindex(*gradient.shape[2:]):
        positions = _positions(attrs, data.shape[2:], at)
        if not positions:
            continue
        own = wide(gradient)[:, :, at[0], at[1]]
        if kind == "avg":
            for y, x in positions:
                out[:, :, y, x] += own / (math.prod(attrs["pool_size"]) if include else len(positions))
            continue
        values = np.stack([wide(data)[:, :, y, x] for y, x in positions])
        for b, c in np.ndindex(*data.shape[:2]):
            y, x = positions[int(values[:, b, c].argmax())]
            out[b, c, y, x] += own[b, c]
    return out


@recipe("nn.avg_pool2d_grad", "nn.max_pool2d_grad", by_width=True)
def pool2d_grad(d: Draw, name: str) -> Call:
    shape, attrs, counts = _pooling(d)
    kind, last, include = name[3:6], d.pick(False, True), d.pick(False, True)
    data = d.distinct(shape) / 4 if kind == "max" else d.array(shape)
    data = data.astype(d.array(()).dtype)
    gradient = d.array((*shape[:2], *counts))

    def laid(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x

    more = {"count_include_pad": include} if kind == "avg" else {}
    wanted = lambda: laid(_grad(kind, gradient, data, attrs, include))  # noqa: E731
    return call([laid(gradient), laid(data)], wanted, layout="NHWC" if last else "NCHW", tolerance=20, **attrs, **more)


@recipe("nn.avg_pool2d_portions", "nn.max_pool2d_portions", by_width=True)
def pool2d_portions(d: Draw, name: str) -> Call:
    shape, attrs, counts = _pooling(d)
    is_max, include = name.startswith("nn.max"), d.pick(False, True)
    gradient, data = d.array((*shape[:2], *counts)), d.array(shape)
    length, strides = attrs["pool_size"], attrs["strides"]
    largest = d.rng.integers(0, math.prod(length), gradient.shape).astype("int32")

    def wanted() -> np.ndarray:
        out = np.zeros((*shape, *(-(-n // s) for n, s in zip(length, strides, strict=True))))
        pads = [before for before, _ in _pads(attrs["padding"])]
        for at in np.ndindex(*counts):
            positions = _positions(attrs, shape[2:], at)
            for y, x in positions:
                own = wide(gradient)[:, :, at[0], at[1]]
                if is_max:
                    place = (y - at[0] * strides[0] + pads[0]) * length[1] + x - at[1] * strides[1] + pads[1]
                    own = np.where(largest[:, :, at[0], at[1]] == place, own, 0)
                else:
                    own = own / (math.prod(length) if include else len(positions))
                part = [(n + p) // s - i for n, p, s, i in zip((y, x), pads, strides, at, strict=True)]
                out[:, :, y, x, part[0], part[1]] = own
        return out

    more = {} if is_max else {"count_include_pad": include}
    return call([gradient, data, *([largest] if is_max else [])], wanted, **attrs, **more)


# ---- a convolution's weight ----------------------------------------------------------------------------------------------


@recipe("nn.conv2d_backward_weight", by_width=True)
def conv2d_backward_weight(d: Draw, name: str) -> Call:
    batch = {"empty": 0, "one": 1, "odd": 3, "large": 4, None: d.pick(2, 0, 1)}[d.size]
    rows, columns = (17, 19) if d.size == "large" else (7, 6)
    window, strides, dilation = d.pick((3, 2), (1, 1)), d.pick((1, 2), (3, 1)), d.pick((1, 1), (2, 1))
    padding, groups, last = d.pick((0, 1), (1, 0, 0, 1)), d.pick(2, 1), d.pick(False, True)
    pads = _pads(padding)
    counts = [(n + sum(pads[k]) - (window[k] - 1) * dilation[k] - 1) // strides[k] + 1 for k, n in enumerate((rows, columns))]
    data, gradient = d.array((batch, 2 * groups, rows, columns)), d.array((batch, 3 * groups, *counts))

    def wanted() -> np.ndarray:
        padded = np.pad(wide(data), [(0, 0), (0, 0), *pads])
        out = np.zeros((3 * groups, 2, *window))
        for o, i, y, x in np.ndindex(*out.shape):
            part = padded[:, o // 3 * 2 + i, y * dilation[0] :, x * dilation[1] :][:, :: strides[0], :: strides[1]]
            out[o, i, y, x] = (part[:, : counts[0], : counts[1]] * wide(gradient)[:, o]).sum()
        return out.transpose(2, 3, 1, 0) if last else out

    def laid(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x

    layouts = {"grad_layout": "NHWC", "data_layout": "NHWC", "kernel_layout": "HWIO"} if last else {}
    attrs: dict[str, Any] = {"strides": strides, "padding": padding, "dilation": dilation, "kernel_size": window}
    return call([laid(gradient), laid(data)], wanted, groups=groups, tolerance=100, **attrs, **layouts)


# ---- correlation ---------------------------------------------------------------------------------------------------------


@recipe("nn.correlation", "nn.displaced_products", by_width=True)
def correlation(d: Draw, name: str) -> Call:
    batch, channels = (2, 3) if d.size in ("odd", "large") else (1, 1) if d.size == "one" else (d.pick(0, 2), d.pick(2, 1))
    rows, columns = (9, 11) if d.size == "large" else (4, 5)
    window, most = d.pick(3, 1), d.pick(2, 1, 0)
    stride1, stride2, padding, product = d.pick(1, 2), d.pick(2, 1), d.pick((2, 3), (3, 2, 2, 3)), d.pick(True, False)
    x, y = d.array((batch, channels, rows, columns)), d.array((batch, channels, rows, columns))

    def wanted() -> np.ndarray:
        pads = _pads(padding)
        a, b = (np.pad(wide(p), [(0, 0), (0, 0), *pads]) for p in (x, y))
        radius, border = most // stride2, most + (window - 1) // 2
        counts = [-(-(n - 2 * border) // stride1) for n in a.shape[2:]]
        steps = [k * stride2 for k in range(-radius, radius + 1)]
        out = np.zeros((batch, len(steps) ** 2, *counts, channels, window, window))
        for q, (dy, dx) in enumerate((dy, dx) for dy in steps for dx in steps):
            for i, j in np.ndindex(*counts):
                top, left = i * stride1 + most, j * stride1 + most
                first = a[:, :, top : top + window, left : left + window]
                second = b[:, :, top + dy : top + dy + window, left + dx : left + dx + window]
                out[:, q, i, j] = first * second if product else np.abs(first - second)
        return out.mean((4, 5, 6)) if name == "nn.correlation" else out

    attrs: dict[str, Any] = {"kernel_size": window, "max_displacement": most, "stride1": stride1, "stride2": stride2}
    return call([x, y], wanted, padding=padding, is_multiply=product, layout="NCHW", tolerance=20, **attrs)
