"""Recipes of operators on the anchors of a detector, and of the reorganisation of its features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .drawing import Draw, wide
from .recipe import Call, call, recipe


@recipe("vision.yolo_reorg", by_width=True)
def yolo_reorg(d: Draw, name: str) -> Call:
    stride = d.pick(2, 1, 3)
    batch, depth, rows, columns = d.dims(4)
    shape = (batch, depth * stride**2, rows * stride, columns * stride)
    x = d.array(shape)

    def wanted() -> np.ndarray:
        # the blocks of one plane, as the layer was published: the memory read as another picture
        planes = x.reshape(batch, depth, rows * stride, stride, columns * stride, stride)
        moved = planes.transpose(0, 3, 5, 1, 2, 4)
        return moved.reshape(batch, shape[1] * stride**2, rows, columns)

    return call([x], wanted, stride=stride)


@recipe("vision.multibox_prior", by_width=True)
def multibox_prior(d: Draw, name: str) -> Call:
    rows, columns = (5, 7) if d.size is None else d.dims(4)[2:] if d.size != "large" else (19, 23)
    rows, columns = (d.pick(rows, 0, 1), columns) if d.size is None else (0, 3) if d.size == "empty" else (rows, columns)
    data = np.zeros((2, 3, rows, columns)).astype(d.array(()).dtype)
    sizes, ratios = d.pick((0.5, 0.25), (0.3,)), d.pick((1.0, 2.0, 0.5), (3.0,))
    steps, offsets, clip = d.pick((-1.0, -1.0), (0.1, 0.2)), d.pick((0.5, 0.5), (0.0, 0.25)), d.pick(False, True)

    def wanted() -> np.ndarray:
        shapes = [(s, 1.0) for s in sizes] + [(sizes[0], math.sqrt(r)) for r in ratios[1:]]
        out = []
        for i in range(rows):
            for j in range(columns):
                y = (i + offsets[0]) * (steps[0] if steps[0] > 0 else 1 / rows)
                x = (j + offsets[1]) * (steps[1] if steps[1] > 0 else 1 / columns)
                for size, root in shapes:
                    w, h = size * rows / columns * root / 2, size / root / 2
                    out.append((x - w, y - h, x + w, y + h))
        boxes = np.array(out, float).reshape(1, -1, 4)
        return boxes.clip(0, 1) if clip else boxes

    return call([data], wanted, sizes=sizes, ratios=ratios, steps=steps, offsets=offsets, clip=clip)


@recipe("vision.multibox_transform_loc", by_width=True)
def multibox_transform_loc(d: Draw, name: str) -> Call:
    batch, count = d.dims(2)
    classes, clip, keep = d.pick(4, 1, 2), d.pick(True, False), d.pick(False, True)
    scores = d.array((batch, classes, count), low=0, high=1)
    offsets, anchor = d.array((batch, count * 4)), np.sort(d.array((1, count, 4), low=0, high=1), -1)
    variances = (0.1, 0.2, 0.3, 0.25)

    def row(b: int, j: int) -> list[float] | None:
        own = wide(scores)[b, :, j]
        first = 0 if keep else 1
        kind = first + int(own[first:].argmax()) if classes > first else 0
        score = own[kind]
        kind = kind if score >= 0.3 else 0
        if kind == 0 and not keep:
            return None
        box, p = wide(anchor)[0, j], wide(offsets)[b, 4 * j :][:4] * variances
        size, middle = box[2:] - box[:2], (box[2:] + box[:2]) / 2
        centre, half = p[:2] * size + middle, np.exp(p[2:]) * size / 2
        ends = np.concatenate([centre - half, centre + half])
        return [kind - first, score, *(ends.clip(0, 1) if clip else ends)]

    def wanted() -> list[np.ndarray]:
        out, counts = np.full((batch, count, 6), -1.0), np.zeros(batch, int)
        for b in range(batch):
            rows = [found for j in range(count) if (found := row(b, j)) is not None]
            out[b, : len(rows)] = np.array(rows).reshape(-1, 6)
            counts[b] = len(rows)
        return [out, counts]

    attrs: dict[str, Any] = {"clip": clip, "threshold": 0.3, "variances": variances, "keep_background": keep}
    return call([scores, offsets, anchor], wanted, tolerance=5, **attrs)


# ---- region proposals ----------------------------------------------------------------------------------------------------


def region_boxes(scores: np.ndarray, offsets: np.ndarray, images: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    """Rows ``[B, H * W * anchors, 6]``, in float64."""
    stride, out = attrs["feature_stride"], []
    shapes = []
    for ratio in attrs["ratios"]:
        w = math.floor(math.sqrt(math.floor(stride * stride / ratio)) + 0.5)
        shapes += [(w * s, math.floor(w * ratio + 0.5) * s) for s in attrs["scales"]]
    for b, (height, width, scale) in enumerate(wide(images)):
        for y, x in np.ndindex(*scores.shape[2:]):
            for k, shape in enumerate(shapes):
                centre = (stride - 1) / 2 + np.array([x, y]) * stride
                size, p = np.array(shape, float), wide(offsets)[b, 4 * k : 4 * k + 4, y, x]
                low, high = centre - (size - 1) / 2, centre + (size - 1) / 2
                if attrs["iou_loss"]:
                    low, high = low + p[:2], high + p[2:]
                else:
                    middle, half = centre + p[:2] * size, (np.exp(p[2:]) * size - 1) / 2
                    low, high = middle - half, middle + half
                last = np.array([width - 1, height - 1])
                low, high = (np.maximum(np.minimum(e, last), 0) for e in (low, high))
                score, least = wide(scores)[b, len(shapes) + k, y, x], scale * attrs["rpn_min_size"]
                if (high - low + 1 < least).any():
                    low, high, score = low - least / 2, high + least / 2, -1
                if y >= int(height / stride) or x >= int(width / stride):
                    score = -1
                out.append((b, *low, *high, score))
    return np.array(out, float).reshape(len(scores), math.prod(scores.shape[2:]) * len(shapes), 6)


def best_boxes(boxes: np.ndarray, limit: int, threshold: float) -> list[int]:
    """The numbers of the kept boxes of one picture, best first."""
    kept: list[int] = []
    order = np.argsort(-boxes[:, 5], kind="stable").tolist()
    for i in order[:limit] if limit > 0 else order:
        low, high = boxes[i, 1:3], boxes[i, 3:5] + 1
        for j in kept:
            shared = np.prod(np.maximum(np.minimum(high, boxes[j, 3:5] + 1) - np.maximum(low, boxes[j, 1:3]), 0))
            if shared / (np.prod(high - low) + np.prod(boxes[j, 3:5] + 1 - boxes[j, 1:3]) - shared) > threshold:
                break
        else:
            kept.append(i)
    return kept


def _network(d: Draw, coarse: bool) -> tuple[Sequence[np.ndarray], dict[str, Any]]:
    batch = {"empty": 0, "one": 1, "odd": 2, "large": 3, None: d.pick(2, 0, 1)}[d.size]
    rows, columns = {"one": (1, 1), "large": (5, 4)}.get(d.size or "", (d.pick(2, 1), 3))
    attrs: dict[str, Any] = {"scales": d.pick((1.0, 2.0), (1.5,)), "ratios": d.pick((1.0, 0.5), (2.0,)), "feature_stride": 8}
    attrs |= {"rpn_min_size": d.pick(3, 1), "iou_loss": d.pick(False, True)}
    anchors = len(attrs["scales"]) * len(attrs["ratios"])
    dtype = d.array(()).dtype
    offsets = d.array((batch, 4 * anchors, rows, columns), low=-1, high=1)
    if coarse:  # whole or half coordinates, exact in every dtype
        offsets = d.rng.integers(-1, 2, offsets.shape) * (1.0 if attrs["iou_loss"] else 0.0)
    each = 2 * anchors * rows * columns
    scores = np.array([d.rng.permutation(each) for _ in range(batch)]).reshape(batch, 2 * anchors, rows, columns) / 256
    images = np.tile(np.array([[8.0 * rows, 8.0 * columns - 4, 1.0]]), (batch, 1))
    return [scores.astype(dtype), offsets.astype(dtype), images.astype(dtype)], attrs


@recipe("vision.rpn_boxes", by_width=True)
def rpn_boxes(d: Draw, name: str) -> Call:
    inputs, attrs = _network(d, False)
    return call(inputs, lambda: region_boxes(*inputs, attrs), tolerance=20, **attrs)


@recipe("vision.proposal", by_width=True)
def proposal(d: Draw, name: str) -> Call:
    inputs, attrs = _network(d, True)
    count, limit = d.pick(5, 40, 0), d.pick(12, -1)

    def wanted() -> np.ndarray:
        out = np.zeros((len(inputs[0]), count, 5))
        for b, boxes in enumerate(region_boxes(*inputs, attrs)):
            kept = best_boxes(boxes, limit, 0.47)[: count or None]
            out[b] = boxes[[kept[k % len(kept)] for k in range(count)], :5]
        return out.reshape(-1, 5)

    attrs |= {"threshold": 0.47, "rpn_pre_nms_top_n": limit, "rpn_post_nms_top_n": count}
    return call(inputs, wanted, **attrs)
