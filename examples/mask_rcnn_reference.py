"""A make-believe first half of a Mask R-CNN, and its tail in plain numpy: the reference for `mask_rcnn_tail.relay`.

All data is synthetic, from a seed.  The tail selects proposals, suppresses boxes that overlap, and compares scores with a
threshold.  Two correct implementations with different rounding could decide a close case differently.  So the reference records
the margin of the closest decision in ``Detections.margin``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

STRIDE = 8  # pixels to an element of the feature map
CHANNELS, HIDDEN, CLASSES = 16, 32, 4
BEST_ANCHORS, MOST_PROPOSALS, MOST_DETECTIONS = 200, 50, 20
OBJECT_THRESHOLD, PROPOSAL_OVERLAP = 0.05, 0.7
SCORE_THRESHOLD, OVERLAP = 0.25, 0.5
POOLED, MASK, CANVAS, SAMPLES = 7, 14, 64, 2

Inputs = dict[str, np.ndarray]


def image(n: int, height: int = 16, width: int = 20, seed: int = 0) -> Inputs:
    """A feature map of ``height`` x ``width`` and ``n`` anchors with the first network's outputs; best scores apart."""
    rng = np.random.default_rng([seed, n, height, width])
    extent = np.array([width, height]) * STRIDE
    centres, sizes = rng.uniform(0, 1, (n, 2)) * extent, rng.uniform(0.1, 0.5, (n, 2)) * extent
    made = {
        "features": rng.normal(0, 1, (1, CHANNELS, height, width)),
        "anchors": np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=1),
        "objectness": rng.permutation(np.linspace(4, -6, n)),
        "deltas": rng.normal(0, 0.2, (n, 4)),
    }
    return {name: value.astype(np.float32) for name, value in made.items()}


def weights(seed: int = 0) -> Inputs:
    """The second network, untrained: random weights, of a size that makes some scores high."""
    rng = np.random.default_rng(seed)
    pooled = CHANNELS * POOLED**2
    made = {
        "hidden_weight": rng.normal(0, 4 / math.sqrt(pooled), (HIDDEN, pooled)),
        "hidden_bias": rng.normal(0, 0.1, HIDDEN),
        "class_weight": rng.normal(0, 1 / math.sqrt(HIDDEN), (CLASSES + 1, HIDDEN)),
        "class_bias": np.array([1.0] + [0.0] * CLASSES),
        "box_weight": rng.normal(0, 0.5 / math.sqrt(HIDDEN), (4 * CLASSES, HIDDEN)),
        "mask_weight": rng.normal(0, 1 / math.sqrt(9 * CHANNELS), (CHANNELS, CHANNELS, 3, 3)),
        "mask_bias": rng.normal(0, 0.1, CHANNELS),
        "mask_classes": rng.normal(0, 4 / math.sqrt(CHANNELS), (CLASSES, CHANNELS, 1, 1)),
    }
    return {name: value.astype(np.float32) for name, value in made.items()}


@dataclass
class Detections:
    """``coverage``: the probability that each of the 64 x 64 points is covered; the mask is the points with more than a half."""

    boxes: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    coverage: np.ndarray
    proposals: int = 0
    margin: float = field(default=math.inf)


class _Account:
    """The margin of the closest decision so far."""

    def __init__(self) -> None:
        self.margin = math.inf

    def above(self, values: np.ndarray, threshold: float) -> np.ndarray:
        """Whether each value is above the threshold."""
        if values.size:
            self.margin = min(self.margin, float(np.abs(values - threshold).min()))
        return values > threshold

    def descending(self, values: np.ndarray) -> np.ndarray:
        """The order of the values, largest first."""
        order = np.argsort(-values, kind="stable")
        if len(values) > 1:
            self.margin = min(self.margin, float(-np.diff(values[order]).max()))
        return order


def decode(boxes: np.ndarray, shift: np.ndarray, stretch: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Boxes moved by shifts (in units of their sizes) and stretches (logarithms), within the picture."""
    size = boxes[:, 2:] - boxes[:, :2]
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2 + shift * size
    half = size / 2 * np.exp(np.clip(stretch, -4, 4))
    return np.concatenate([np.clip(centre - half, 0, limit), np.clip(centre + half, 0, limit)], axis=1)


def suppress(boxes: np.ndarray, scores: np.ndarray, overlap: float, account: _Account) -> list[int]:
    """Greedy suppression: the indices of the boxes that are kept, best first."""
    waiting, kept = account.descending(scores), []
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    while waiting.size:
        first, rest = waiting[0], waiting[1:]
        kept.append(int(first))
        size = np.minimum(boxes[first, 2:], boxes[rest, 2:]) - np.maximum(boxes[first, :2], boxes[rest, :2])
        shared = np.prod(np.maximum(size, 0), axis=1)
        union = areas[first] + areas[rest] - shared
        waiting = rest[~account.above(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0), overlap)]
    return kept


def interpolate(plane: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """``plane[c, y, x]`` between elements, for places inside."""
    y0, x0 = np.floor(y).astype(int), np.floor(x).astype(int)
    y1, x1 = np.minimum(y0 + 1, plane.shape[1] - 1), np.minimum(x0 + 1, plane.shape[2] - 1)
    fy, fx = y - y0, x - x0
    upper = plane[:, y0, x0] * (1 - fx) + plane[:, y0, x1] * fx
    return upper * (1 - fy) + (plane[:, y1, x0] * (1 - fx) + plane[:, y1, x1] * fx) * fy


def cut_out(plane: np.ndarray, boxes: np.ndarray, size: int) -> np.ndarray:
    """RoI align: ``size`` x ``size`` bins of each box, each the mean of 2 x 2 samples; boxes within the picture."""
    out = np.zeros((len(boxes), len(plane), size, size))
    for k, (x1, y1, x2, y2) in enumerate(boxes / STRIDE):
        steps = (np.arange(size * SAMPLES) + 0.5) / (size * SAMPLES)
        ys, xs = y1 + steps * max(y2 - y1, 1), x1 + steps * max(x2 - x1, 1)
        y, x = np.meshgrid(ys, xs, indexing="ij")
        height, width = plane.shape[1:]
        samples = interpolate(plane, np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)) * ((y <= height) & (x <= width))
        out[k] = samples.reshape(len(plane), size, SAMPLES, size, SAMPLES).mean(axis=(2, 4))
    return out


def proposals(given: Inputs, limit: np.ndarray, account: _Account) -> np.ndarray:
    """The proposals: boxes for the second network."""
    best = account.descending(given["objectness"])[:BEST_ANCHORS]
    deltas = given["deltas"][best]
    moved = decode(given["anchors"][best], deltas[:, :2], deltas[:, 2:], limit)
    scores = 1 / (1 + np.exp(-given["objectness"][best]))
    good = np.flatnonzero(account.above(scores, OBJECT_THRESHOLD))
    kept = suppress(moved[good], scores[good], PROPOSAL_OVERLAP, account)[:MOST_PROPOSALS]
    return moved[good][kept]


def classify(given: Inputs, boxes: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The score (p, 4) and the box (p, 4, 4) of each proposal for each class."""
    flat = cut_out(given["features"][0], boxes, POOLED).reshape(len(boxes), CHANNELS * POOLED**2)
    hidden = np.maximum(flat @ given["hidden_weight"].T + given["hidden_bias"], 0)
    logits = hidden @ given["class_weight"].T + given["class_bias"]
    likely = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
    scores = (likely / likely.sum(axis=1, keepdims=True))[:, 1:]
    corrections = (hidden @ given["box_weight"].T).reshape(-1, 4)
    moved = decode(np.repeat(boxes, CLASSES, axis=0), 0.1 * corrections[:, :2], 0.2 * corrections[:, 2:], limit)
    return scores, moved.reshape(len(boxes), CLASSES, 4)


def cover(given: Inputs, boxes: np.ndarray, classes: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """The probability that each point of a grid over the picture is covered by each detection."""
    padded = np.pad(cut_out(given["features"][0], boxes, MASK), [(0, 0), (0, 0), (1, 1), (1, 1)])
    hidden = np.zeros((len(boxes), CHANNELS, MASK, MASK)) + given["mask_bias"][:, None, None]
    for y, x in np.ndindex(3, 3):
        hidden += np.einsum("kcyx,oc->koyx", padded[:, :, y : y + MASK, x : x + MASK], given["mask_weight"][:, :, y, x])
    logits = np.einsum("kcyx,oc->koyx", np.maximum(hidden, 0), given["mask_classes"][:, :, 0, 0])
    masks = 1 / (1 + np.exp(-logits[np.arange(len(boxes)), classes]))
    out = np.zeros((len(boxes), CANVAS, CANVAS))
    points = (np.arange(CANVAS) + 0.5)[:, None] / CANVAS * limit  # of the grid, (64, x and y)
    for k, (low, high) in enumerate(zip(boxes[:, :2], boxes[:, 2:], strict=True)):
        if (high > low).all():
            x, y = ((points - low) / (high - low) * (MASK - 1)).T
            rows, columns = (np.flatnonzero((p >= 0) & (p <= MASK - 1)) for p in (y, x))
            inside = np.ix_(rows, columns)
            out[k][inside] = interpolate(masks[k][None], *np.meshgrid(y[rows], x[columns], indexing="ij"))[0]
    return out


def detect(given: Inputs) -> Detections:
    """The detections of one picture, best first, in float64."""
    given = {name: value.astype(np.float64) for name, value in given.items()}
    account = _Account()
    limit = np.array(given["features"].shape[:1:-1]) * STRIDE
    boxes = proposals(given, limit, account)
    scores, moved = classify(given, boxes, limit)
    kept: list[tuple[int, int]] = []
    for c in range(CLASSES):
        members = np.flatnonzero(account.above(scores[:, c], SCORE_THRESHOLD))
        kept += [(int(members[i]), c) for i in suppress(moved[members, c], scores[members, c], OVERLAP, account)]
    of, classes = np.array(kept, dtype=np.int64).reshape(-1, 2).T
    order = account.descending(scores[of, classes])[:MOST_DETECTIONS]
    of, classes = of[order], classes[order]
    found = moved[of, classes]
    return Detections(found, scores[of, classes], classes, cover(given, found, classes, limit), len(boxes), account.margin)
