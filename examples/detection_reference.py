"""Candidates of a make-believe detector, and the detection tail in plain numpy: the reference for `detection_tail.relay`.

The candidates are synthetic, from a seed.  Their values are chosen so that two correct implementations keep
the same boxes, with any rounding:

* coordinates are multiples of a quarter pixel, so every area is exact in float32;
* no two candidates have the same best logit, and neighbours are further apart than any rounding of a sigmoid.
"""

from __future__ import annotations

import numpy as np

CLASSES = 80
SCORE_THRESHOLD = np.float32(0.3)
IOU_THRESHOLD = np.float32(0.5)
MAX_DETECTIONS = 100

Detections = tuple[np.ndarray, np.ndarray, np.ndarray]  # boxes (k, 4) float32, scores (k,) float32, classes (k,) int32


def candidates(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """``n`` candidates in clusters around a few objects: boxes (n, 4) and logits (n, 80), both float32."""
    rng = np.random.default_rng([seed, n])
    objects = max(1, n // 25)
    centres, sizes = rng.uniform(80, 560, (objects, 2)), rng.uniform(24, 120, (objects, 2))
    object_class = rng.integers(0, CLASSES, objects)

    of = rng.integers(0, objects, n)
    centre = centres[of] + rng.normal(0, 0.08, (n, 2)) * sizes[of]
    size = sizes[of] * rng.uniform(0.8, 1.25, (n, 2))
    corners = np.concatenate([centre - size / 2, centre + size / 2], axis=1)
    boxes = (np.round(corners * 4) / 4).astype(np.float32)

    best = rng.permutation(np.linspace(4.0, -5.0, n))
    confused = rng.random(n) < 0.1  # one in ten takes its object for something else
    label = np.where(confused, rng.integers(0, CLASSES, n), object_class[of])
    logits = best[:, None] - rng.uniform(0.5, 6.0, (n, CLASSES))
    logits[np.arange(n), label] = best
    return boxes, logits.astype(np.float32)


def overlaps(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of one box (4,) with each of the others (m, 4)."""
    size = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    intersection = np.prod(np.maximum(size, 0), axis=1)
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1)
    return intersection / (np.prod(box[2:] - box[:2]) + areas - intersection)


def suppress(boxes: np.ndarray, scores: np.ndarray) -> list[int]:
    """Greedy non-maximum suppression: the indices of the boxes that are kept, best first."""
    waiting, kept = np.argsort(-scores, kind="stable"), []
    while waiting.size:
        first, rest = waiting[0], waiting[1:]
        kept.append(int(first))
        waiting = rest[overlaps(boxes[first], boxes[rest]) < IOU_THRESHOLD]
    return kept


def detect(boxes: np.ndarray, logits: np.ndarray) -> Detections:
    """The detections of one picture, best first, at most 100: suppression in each class, then the best of all classes."""
    scores = 1 / (1 + np.exp(-logits))
    best, classes = scores.max(axis=1), scores.argmax(axis=1).astype(np.int32)
    kept: list[int] = []
    for c in np.unique(classes):
        members = np.flatnonzero((classes == c) & (best > SCORE_THRESHOLD))
        kept += [int(members[i]) for i in suppress(boxes[members], best[members])]
    chosen = np.array(sorted(kept, key=lambda i: -best[i])[:MAX_DETECTIONS], dtype=np.int64)
    return boxes[chosen], best[chosen], classes[chosen]
