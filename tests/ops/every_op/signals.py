"""Recipes of Fourier transforms, dilation, and suppression of a detector's boxes per class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from relayvm.shape_funcs.defs.convolution.conv import data_layouts

from ..images.test_conv import in_layout
from ..images.test_vision import overlap
from .drawing import Draw, wide
from .recipe import Call, call, recipe


@recipe("dft", by_width=True)
def dft(d: Draw, name: str) -> Call:
    shape = d.dims(2) if d.size != "large" else (9, 101)
    real, imaginary = d.array(shape), d.array(shape)
    inverse = d.pick(False, True)

    def wanted() -> list[np.ndarray]:
        given = wide(real) + 1j * wide(imaginary)
        if not shape[1]:
            return [given.real, given.imag]
        found = (np.fft.ifft if inverse else np.fft.fft)(given, axis=-1)
        return [found.real, found.imag]

    return call([real, imaginary], wanted, inverse=inverse, tolerance=100)


@recipe("stft", by_width=True)
def stft(d: Draw, name: str) -> Call:
    batch, size = d.dims(2) if d.size != "large" else (5, 201)
    n, hop = d.pick(4, 5, 8), d.pick(2, 1, 3)
    length = d.pick(n, 3)
    onesided, normalized = d.pick(True, False), d.pick(False, True)
    x, window = d.array((batch, size + n)), d.array((length,))

    def wanted() -> np.ndarray:
        whole = np.zeros(n)
        whole[(n - length) // 2 :][:length] = wide(window)
        frames = np.lib.stride_tricks.sliding_window_view(wide(x), n, axis=1)[:, ::hop] * whole
        found = np.fft.fft(frames, axis=-1)[..., : n // 2 + 1 if onesided else n].transpose(0, 2, 1)
        found = found / math.sqrt(n) if normalized else found
        return np.stack([found.real, found.imag], -1)

    attrs: dict[str, Any] = {"n_fft": n, "hop_length": hop, "win_length": length}
    return call([x, window], wanted, onesided=onesided, normalized=normalized, tolerance=50, **attrs)


@recipe("image.dilation2d", by_width=True)
def dilation2d(d: Draw, name: str) -> Call:
    batch = {"empty": 0, "one": 1, "odd": 3, "large": 4, None: d.pick(1, 0)}[d.size]
    x = d.array((batch, 3, *((21, 19) if d.size == "large" else (d.pick(5, 4), 6))))
    weight = d.array((3, d.pick(2, 3), d.pick(3, 1)))
    stride, padding, layout = d.pick(1, 2), d.pick(0, 1), d.pick(*data_layouts(2))

    def wanted() -> np.ndarray:
        pads = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        padded = np.pad(wide(x).astype(float), pads, constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[1:], axis=(2, 3))[:, :, ::stride, ::stride]
        out = (windows + wide(weight)[None, :, None, None]).max((-2, -1), initial=-np.inf)
        return in_layout(out, layout, data_layouts(2)[0])

    given = in_layout(x, layout, data_layouts(2)[0])
    return call([given, weight], wanted, strides=stride, padding=padding, data_layout=layout)


@recipe("vision.roi_pool", by_width=True)
def roi_pool(d: Draw, name: str) -> Call:
    count = {"empty": 0, "one": 1, "odd": 3, "large": 60, None: d.pick(2, 0, 1)}[d.size]
    x, pooled = d.array((2, 3, 8, 7)), d.pick((2, 2), (3, 1))
    rois = np.concatenate([d.rng.integers(0, 2, (count, 1)), d.rng.integers(-2, 16, (count, 4))], 1).astype(x.dtype)

    def wanted() -> np.ndarray:
        out = np.zeros((count, 3, *pooled))
        for k, (b, x1, y1, x2, y2) in enumerate(wide(rois).astype(int)):
            for at in np.ndindex(*pooled):
                ends = []
                for low, high, i, m, n in zip((y1, x1), (y2, x2), at, pooled, (8, 7), strict=True):
                    size = max(high - low + 1, 1)
                    span = low + i * size // m, low - (-(i + 1) * size // m)
                    ends.append(slice(*(min(max(e, 0), n) for e in span)))
                part = wide(x)[(b, slice(None), *ends)]
                out[(k, slice(None), *at)] = part.max((1, 2)) if part.size else 0
        return out

    return call([x, rois], wanted, pooled_size=pooled, spatial_scale=1.0)


# ---- suppression, class by class -----------------------------------------------------------------------------------------


def kept(boxes: np.ndarray, scores: np.ndarray, limit: int, iou: float, least: float, at_least: bool) -> list[int]:
    """The boxes of one class that are kept, best first."""
    out: list[int] = []
    for i in np.argsort(-scores, kind="stable").tolist():
        scored = scores[i] >= least if at_least else scores[i] > least
        if scored and limit != len(out) and all(overlap(boxes[i], boxes[j]) <= iou for j in out):
            out.append(i)
    return out


def boxes_and_scores(d: Draw, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Boxes and scores of two images; scores ``[images, classes, boxes]``."""
    n = {"empty": 0, "one": 1, "odd": 7, "large": 60, None: d.pick(3, 0, 1, 5)}[d.size]
    # corners on whole numbers; no overlap of such boxes is 0.47
    boxes = d.rng.integers(0, 6, (2, n, 4)) * 2.0
    scores = d.rng.integers(0, 9, (2, classes, n)) / 8
    return boxes.astype(d.array(()).dtype), scores.astype(d.array(()).dtype)


@recipe("vision.all_class_non_max_suppression", by_width=True)
def all_class_nms(d: Draw, name: str) -> Call:
    boxes, scores = boxes_and_scores(d, 3)
    limit, how = d.pick(-1, 2), d.pick("onnx", "tensorflow")

    def wanted() -> list[np.ndarray]:
        rows: list[list[tuple[int, int]]] = []
        for b in range(2):
            found = [(c, i) for c in range(3) for i in kept(wide(boxes[b]), wide(scores[b, c]), limit, 0.47, 0.3, False)]
            rows.append(found)
        if how == "onnx":
            table = [(b, *row) for b, found in enumerate(rows) for row in found]
            return [np.array(table, int).reshape(-1, 3), np.array([len(table)])]
        most = 3 * boxes.shape[1]
        selected, values = np.zeros((2, most, 2), int), np.zeros((2, most))
        for b, found in enumerate(rows):
            ordered = sorted(found, key=lambda row: -float(scores[(b, *row)]))
            for k, row in enumerate(ordered):
                selected[b, k], values[b, k] = row, scores[(b, *row)]
        return [selected, values, np.array([len(found) for found in rows])]

    scalars = [d.scalar(limit, "int64"), d.scalar(0.47, "float32"), d.scalar(0.3, "float32")]
    return call([boxes, scores, *scalars], wanted, output_format=how)


@recipe("vision.regular_non_max_suppression", by_width=True)
def regular_nms(d: Draw, name: str) -> Call:
    boxes, scores = boxes_and_scores(d, 3)
    per_class, most, classes = d.pick(-1, 2), d.pick(5, 2, 0), d.pick(2, 3)

    def wanted() -> list[np.ndarray]:
        out, kinds, values, counts = np.zeros((2, most, 4)), np.zeros((2, most)), np.zeros((2, most)), np.zeros(2)
        for b in range(2):
            own = wide(scores[b])[3 - classes :]
            found = [(c, i) for c in range(classes) for i in kept(wide(boxes[b]), own[c], per_class, 0.47, 0.25, True)]
            best = sorted(found, key=lambda row: -own[row])[:most]
            counts[b] = len(best)
            for k, (c, i) in enumerate(best):
                out[b, k], kinds[b, k], values[b, k] = wide(boxes[b, i]), c, own[c, i]
        return [out, kinds, values, counts]

    attrs: dict[str, Any] = {"max_detections_per_class": per_class, "max_detections": most, "num_classes": classes}
    given = np.ascontiguousarray(scores.transpose(0, 2, 1))
    return call([boxes, given], wanted, iou_threshold=0.47, score_threshold=0.25, **attrs)
