"""Recipes of operators of networks: products, softmax, convolutions, pools, regions and boxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relayvm.shape_funcs.defs.convolution.conv import data_layouts, kernel_layouts

from ..images.test_conv import convolution, in_layout
from ..images.test_pool import pooled, shared
from ..images.test_roi import aligned, cropped
from ..images.test_vision import kept_boxes
from .drawing import Draw, wide
from .recipe import Call, call, recipe


def product(a: Any, b: Any) -> np.ndarray:
    """In float64, or in the integers' own dtype."""
    with np.errstate(over="ignore"):
        return np.matmul(wide(a), wide(b))


@recipe("nn.dense", by_width=True)
def dense(d: Draw, name: str) -> Call:
    rows, inner, columns = d.dims(3)
    lead = d.pick((rows,), (), (2, rows))
    x, weight = d.array((*lead, inner)), d.array((columns, inner))
    return call([x, weight], lambda: product(x, weight.T), tolerance=10)


@recipe("nn.matmul", "nn.batch_matmul", by_width=True)
def matmul(d: Draw, name: str) -> Call:
    rows, inner, columns = d.dims(3)
    if d.size == "large":
        rows, inner, columns = 33, 65, 129
    ta, tb = d.pick(False, True), d.pick(False, True)
    batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    if name == "nn.batch_matmul":
        batch = d.pick(((2,), (2,)), ((1,), (3,)), ((3,), (1,)))
    a = d.array((*batch[0], *((inner, rows) if ta else (rows, inner))))
    b = d.array((*batch[1], *((columns, inner) if tb else (inner, columns))))
    left, right = np.swapaxes(a, -1, -2) if ta else a, np.swapaxes(b, -1, -2) if tb else b
    return call([a, b], lambda: product(left, right), transpose_a=ta, transpose_b=tb, tolerance=10)


@recipe("nn.tiled_batch_matmul", by_width=True)
def tiled_matmul(d: Draw, name: str) -> Call:
    rows, inner, columns = d.dims(3)
    if d.size == "large":
        rows, inner, columns = 33, 65, 129
    ta, tb = d.pick(False, True), d.pick(False, True)
    matrices, times, batch = d.pick((2, 3, 6), (3, 1, 3), (1, 2, 2), (2, 2, 1))
    a = d.array((batch, *((inner, rows) if ta else (rows, inner))))
    b = d.array((matrices, *((columns, inner) if tb else (inner, columns))))
    left, right = np.swapaxes(a, -1, -2) if ta else a, np.swapaxes(b, -1, -2) if tb else b
    reps = np.array([times, 1, 1], "int64")
    return call([a, b, reps], lambda: product(left, np.tile(right, reps)), transpose_a=ta, transpose_b=tb, tolerance=10)


@recipe("nn.attention")
def attention(d: Draw, name: str) -> Call:
    m, n, b, h = d.dims(4)
    width, columns = d.pick((3, 5), (40, 33), (1, 64))
    query, key = d.array((m, b, h, width)), d.array((n, b, h, width))
    value, bias = d.array((n, b, h, columns)), d.array((b, h, m, n))

    def wanted() -> np.ndarray:
        scores = 0.25 * np.einsum("mbhd,nbhd->bhmn", wide(query), wide(key)) + wide(bias)
        powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        return np.einsum("bhmn,nbhe->mbhe", powers / powers.sum(-1, keepdims=True), wide(value))

    return call([query, key, value, bias], wanted, scale=0.25, tolerance=20)


@recipe("nn.batch_attention")
def batch_attention(d: Draw, name: str) -> Call:
    m, n, b, h = d.dims(4)
    width, columns = d.pick((3, 5), (40, 33), (1, 64))
    query, key, value = d.array((b, m, h, width)), d.array((b, n, h, width)), d.array((b, n, h, columns))

    def wanted() -> np.ndarray:
        scores = -0.25 * np.einsum("bmhd,bnhd->bhmn", wide(query), wide(key))
        powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        return np.einsum("bhmn,bnhe->bmhe", powers / powers.sum(-1, keepdims=True), wide(value))

    return call([query, key, value], wanted, scale=-0.25, tolerance=20)


@recipe("nn.grouped_attention")
def grouped_attention(d: Draw, name: str) -> Call:
    m, n, b, shared = d.dims(4)
    width, columns = d.pick((3, 5), (40, 33), (1, 64))
    groups, cap = d.pick((1, 0.0), (3, 0.0), (2, 1.5))
    heads = shared * groups
    query, key, value = d.array((b, m, heads, width)), d.array((b, n, shared, width)), d.array((b, n, shared, columns))
    bias = d.array(d.pick((b, heads, m, n), (1, heads, 1, n), (b, 1, m, 1), (1, 1, m, n)))

    def wanted() -> np.ndarray:
        keys, values = (np.repeat(wide(x), groups, axis=2) for x in (key, value))
        scores = -0.25 * np.einsum("bmhd,bnhd->bhmn", wide(query), keys)
        scores = (cap * np.tanh(scores / cap) if cap else scores) + wide(bias)
        powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        return np.einsum("bhmn,bnhe->bmhe", powers / powers.sum(-1, keepdims=True), values)

    return call([query, key, value, bias], wanted, scale=-0.25, cap=cap, tolerance=20)


@recipe("nn.softmax", "nn.log_softmax", "nn.fast_softmax")
def softmax(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1))
    axis = d.axis(x.ndim)

    def wanted() -> np.ndarray:
        powers = np.exp(wide(x))
        parts = powers / powers.sum(axis, keepdims=True)
        return np.log(parts) if name == "nn.log_softmax" else parts

    return call([x], wanted, axis=axis)


# ---- windows ---------------------------------------------------------------------------------------------------------


def spatial(d: Draw, rank: int) -> tuple[int, ...]:
    """Sizes of the spatial axes, large enough for any window that is drawn here."""
    if d.size == "large":
        return {1: (701,), 2: (27, 26), 3: (9, 8, 10)}[rank]
    if d.size == "one":
        return (3,) * rank
    return tuple(d.pick(n, 3, 6) for n in (5, 4, 6)[:rank])


def batch_and_channels(d: Draw) -> tuple[int, int]:
    """Sizes of the first two axes: an empty batch, but never without channels."""
    return {"empty": (0, 4), "one": (1, 4), "odd": (3, 4), "large": (3, 4), None: (d.pick(1, 0, 2), 4)}[d.size]


@recipe("nn.conv1d", "nn.conv2d", "nn.conv3d", by_width=True)
def conv(d: Draw, name: str) -> Call:
    rank = int(name[-2])
    batch, channels = batch_and_channels(d)
    groups = d.pick(1, 2, 4)
    data = d.array((batch, channels, *spatial(d, rank)), low=-1, high=1)
    weight = d.array((groups * d.pick(1, 2), channels // groups, *(d.pick(3, 1, 2) for _ in range(rank))), low=-1, high=1)
    attrs: dict[str, Any] = {
        "groups": groups,
        "strides": d.pick(1, 2),
        "dilation": d.pick(1, 1, (1,) * rank),
        "padding": d.pick(0, 1, tuple(range(2 * rank))),
        "data_layout": d.pick(*data_layouts(rank)),
        "kernel_layout": d.pick(*kernel_layouts(rank)),
        "out_layout": d.pick("", *data_layouts(rank)),
    }
    given = [
        in_layout(data, attrs["data_layout"], data_layouts(rank)[0]),
        in_layout(weight, attrs["kernel_layout"], kernel_layouts(rank)[0]),
    ]
    layout = attrs["out_layout"] or attrs["data_layout"]
    return call(given, lambda: in_layout(convolution(data, weight, attrs), layout, data_layouts(rank)[0]), tolerance=5, **attrs)


@recipe("nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc", by_width=True)
def conv_in_blocks(d: Draw, name: str) -> Call:
    batch, channels = batch_and_channels(d)
    data = d.array((batch, channels, *spatial(d, 2)), low=-1, high=1)
    groups = channels if "depthwise" in name else 1
    weight = d.array((4, channels // groups, 3, d.pick(3, 1)), low=-1, high=1)
    attrs: dict[str, Any] = {"groups": groups, "padding": d.pick(1, 0), "strides": d.pick(1, 2)}
    inner = 1 if groups > 1 else 2
    layouts = {"data_layout": "NCHW2c", "kernel_layout": f"OIHW{inner}i4o", "out_layout": d.pick("", "NCHW4c", "NCHW")}
    given = [blocked(data, (2,), (1,)), blocked(weight, (inner, 4), (1, 0))]

    def wanted() -> np.ndarray:
        size = {"": (2,), "NCHW4c": (4,), "NCHW": ()}[layouts["out_layout"]]
        return blocked(convolution(data, weight, attrs), size, (1,)[: len(size)])

    return call(given, wanted, tolerance=5, **attrs, **layouts)


def blocked(x: np.ndarray, sizes: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
    """Part of each of ``axes`` as an inner axis of a size, last in the order given."""
    for size, axis in zip(sizes, axes, strict=True):
        cut = x.reshape(*x.shape[:axis], x.shape[axis] // size, size, *x.shape[axis + 1 :])
        x = np.moveaxis(cut, axis + 1, -1)
    return np.ascontiguousarray(x)


_POOLS = [f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)]
_ADAPTIVE = [f"nn.adaptive_{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)]
_GLOBAL = ["nn.global_max_pool2d", "nn.global_avg_pool2d"]


def _layouts(d: Draw, rank: int) -> dict[str, str]:
    return {"layout": d.pick(*data_layouts(rank)), "out_layout": d.pick("", *data_layouts(rank))}


def _pool_call(data: np.ndarray, wanted: Callable[[], np.ndarray], attrs: dict[str, Any], rank: int) -> Call:
    first = data_layouts(rank)[0]
    given = in_layout(data, attrs["layout"], first)
    return call([given], lambda: in_layout(wanted(), attrs["out_layout"] or attrs["layout"], first), **attrs)


@recipe(*_POOLS, by_width=True)
def pool(d: Draw, name: str) -> Call:
    rank, kind = int(name[-2]), name.partition("_")[0][3:]
    data = d.array((*batch_and_channels(d), *spatial(d, rank)))
    attrs: dict[str, Any] = {
        "pool_size": tuple(d.pick(2, 1, 3) for _ in range(rank)),
        "strides": tuple(d.pick(2, 1, 3) for _ in range(rank)),
        "dilation": (1,) * rank,
        "padding": tuple(d.pick(0, 1) for _ in range(2 * rank)),
        "ceil_mode": d.pick(False, True),
    }
    more = {"count_include_pad": d.pick(False, True)} if kind == "avg" else {}
    whole = {**attrs, "count_include_pad": False, **more}
    return _pool_call(data, lambda: pooled(wide(data), kind, whole), {**attrs, **more, **_layouts(d, rank)}, rank)


@recipe(*_ADAPTIVE, *_GLOBAL, by_width=True)
def adaptive(d: Draw, name: str) -> Call:
    rank, kind = int(name[-2]), "max" if "max" in name else "avg"
    data = d.array((*batch_and_channels(d), *spatial(d, rank)))
    sizes = (1,) * rank if name in _GLOBAL else tuple(d.pick(2, 1, 3) for _ in range(rank))
    attrs = _layouts(d, rank) | ({} if name in _GLOBAL else {"output_size": sizes})
    return _pool_call(data, lambda: shared(wide(data), kind, sizes), attrs, rank)


# ---- regions and boxes -----------------------------------------------------------------------------------------------


def _count(d: Draw) -> int:
    return {"empty": 0, "one": 1, "odd": 3, "large": 60, None: d.pick(2, 0, 1)}[d.size]


@recipe("vision.roi_align", by_width=True)
def roi_align(d: Draw, name: str) -> Call:
    data, count = d.array((2, 3, 8, 7)), _count(d)
    rois = np.concatenate([d.rng.integers(0, 2, (count, 1)), d.rng.integers(-2, 16, (count, 4))], 1).astype(data.dtype)
    attrs: dict[str, Any] = {
        "pooled_size": d.pick((2, 2), (3, 1)),
        "spatial_scale": d.pick(0.5, 1.0),
        "sample_ratio": d.pick(2, -1, 1),
        "mode": d.pick("avg", "max"),
    }
    named = (attrs[k] for k in ("pooled_size", "spatial_scale", "sample_ratio", "mode"))
    return call([data, rois], lambda: aligned(data, rois, *named), tolerance=5, **attrs)


@recipe("image.crop_and_resize", by_width=True)
def crop_and_resize(d: Draw, name: str) -> Call:
    data, count = d.array((2, 3, 9, 9)), _count(d)
    boxes = d.rng.integers(-2, 11, (count, 4)).astype("float32") / 8
    indices = d.rng.integers(0, 2, count).astype("int32")
    size, method = d.pick((3, 5), (2, 2)), d.pick("bilinear", "nearest")
    inputs = [np.moveaxis(data, 1, -1), boxes, indices]

    def wanted() -> np.ndarray:
        return np.moveaxis(cropped(data, boxes, indices, size, method, 0.5), 1, -1)

    return call(inputs, wanted, crop_size=size, method=method, extrapolation_value=0.5, tolerance=5)


def detections(d: Draw) -> np.ndarray:
    """Boxes with class and score, in two images: coarse values, so that there are equal ones."""
    count = {"empty": 0, "one": 1, "odd": 7, "large": 300, None: d.pick(3, 0, 1, 5)}[d.size]
    shape = (2, count)
    columns = [d.rng.integers(-1, 2, (*shape, 1)), d.rng.integers(0, 9, (*shape, 1)) / 8, d.rng.integers(0, 6, (*shape, 4)) * 2]
    return np.concatenate(columns, -1).astype(d.array(()).dtype)


@recipe("vision.get_valid_counts", by_width=True)
def get_valid_counts(d: Draw, name: str) -> Call:
    data, threshold = detections(d), d.scalar(0.5, "float32")

    def wanted() -> list[np.ndarray]:
        boxes, order = np.full(data.shape, -1.0), np.full(data.shape[:2], -1)
        counts = np.zeros(len(data), int)
        for b, image in enumerate(wide(data)):
            good = np.flatnonzero((image[:, 1] > 0.5) & (image[:, 0] >= 0))
            counts[b] = len(good)
            boxes[b, : len(good)], order[b, : len(good)] = image[good], good
        return [counts, boxes, order]

    return call([data, threshold], wanted)


@recipe("vision.non_max_suppression", by_width=True)
def non_max_suppression(d: Draw, name: str) -> Call:
    data = detections(d)
    n = data.shape[1]
    counts = np.array([n, n // 2], "int32")
    indices = np.tile(np.arange(n, dtype="int32"), (2, 1))
    force, top_k, limit = d.pick(False, True), d.pick(-1, 3), d.pick(-1, 2)

    def wanted() -> list[np.ndarray]:
        out, found = np.full((2, n), -1), np.zeros((2, 1), int)
        for b in range(2):
            kept = [i for i in kept_boxes(wide(data)[b, : counts[b]], limit, 0.47, top_k, force, 2, 1, 0) if i >= 0]
            out[b, : len(kept)], found[b] = kept, len(kept)
        return [out, found]

    # no overlap of these boxes is near it, so no rounding decides
    inputs = [data, counts, indices, d.scalar(limit, "int32"), d.scalar(0.47, "float32")]
    return call(inputs, wanted, force_suppress=force, top_k=top_k)
