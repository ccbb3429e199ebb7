"""Non-maximum suppression of each class separately; all classes share the boxes.

The boxes of a class above the score threshold are sorted, best first, and compared with the kept boxes, as in ``vision``.  The
order of boxes with equal scores is stable.
"""

from __future__ import annotations

from typing import NamedTuple

from ...native.memory import Array, Element, generic
from ...native.status import BAD_VALUE, OK
from ..shaped import Shaped
from ..sort.cpu import merge_sort, sort_positions
from ..sort.radix import Sortable
from ..vision.cpu import BLOCK, Candidates, box_at, clear_taken, is_covered, take


class Scores(NamedTuple):
    """The scores of an image: from element ``start`` on, ``class_step`` from class to class, ``step`` from box to box."""

    data: Array
    start: int
    class_step: int
    step: int


class Limits(NamedTuple):
    """Limits of a class: it keeps at most ``most`` boxes (-1: all) with scores above ``score``, or not below it if ``at_least``.

    No pair of them overlaps by more than ``overlap``.
    """

    most: int
    overlap: Element
    score: Element
    at_least: bool


@generic
def keep_of_class(boxes: Array, b: int, scores: Scores, c: int, limits: Limits, candidates: Candidates) -> int:
    """The number of kept boxes of class ``c`` of image ``b``; the candidates have their scores and positions, best first."""
    (keys, order, spare_keys, _), counters, taken = candidates
    n, found, start = boxes.shape[1], 0, scores.start + c * scores.class_step
    for i in range(n):
        score = scores.data[start + i * scores.step]
        if score > limits.score or (limits.at_least and score == limits.score):
            keys[found], order[found] = score, i
            found += 1
    sort_positions(candidates.boxes, counters, found, False)
    # a constant of the boxes' dtype, so that products are not widened
    spare_keys[0] = 0
    zero, kept = spare_keys[0], 0
    for j in range(found):
        if kept == limits.most:
            break
        i = order[j]
        box = box_at(boxes, b, i, 0, zero)
        if is_covered(taken, 0, kept, box, limits.overlap, zero, True):
            continue
        if kept % BLOCK == 0:
            clear_taken(taken, kept, kept + BLOCK)
        take(taken, kept, box)
        order[kept], keys[kept] = i, scores.data[start + i * scores.step]
        kept += 1
    return kept


@generic
def suppress_classes(
    boxes: Array, scores: Shaped, limit: Array, iou_threshold: Array, score_threshold: Array, selected: Array, total: Array,
    counts: Array, candidates: Candidates, of_image: Sortable,
) -> int:  # fmt: skip
    """Image, class and box of each kept box, image by image, class by class, and their number."""
    if len(limit) != 1 or len(iou_threshold) != 1 or len(score_threshold) != 1:
        return BAD_VALUE
    dims, limits, done = scores.dims, Limits(limit[0], iou_threshold[0], score_threshold[0], False), 0
    for b in range(dims[0] if dims[2] > 0 else 0):
        for c in range(dims[1]):
            kept = keep_of_class(boxes, b, Scores(scores.data, b * dims[1] * dims[2], dims[2], 1), c, limits, candidates)
            for j in range(kept):
                selected[done, 0], selected[done, 1], selected[done, 2] = b, c, candidates.boxes.order[j]
                done += 1
    counts[0] = total[0] = done
    return OK


@generic
def gather_classes(
    boxes: Array, scores: Scores, b: int, classes: int, limits: Limits, candidates: Candidates, of_image: Sortable
) -> int:
    """All kept boxes of an image, best first: scores, and class * number of boxes + box; returns their number."""
    done, n = 0, boxes.shape[1]
    for c in range(classes if n > 0 else 0):
        kept = keep_of_class(boxes, b, scores, c, limits, candidates)
        for j in range(kept):
            of_image.keys[done], of_image.order[done] = candidates.boxes.keys[j], c * n + candidates.boxes.order[j]
            done += 1
    merge_sort(of_image, done, False)
    return done


@generic
def suppress_classes_of_images(
    boxes: Array, scores: Shaped, limit: Array, iou_threshold: Array, score_threshold: Array, selected: Array, selected_scores:
    Array, total: Array, counts: Array, candidates: Candidates, of_image: Sortable,
) -> int:  # fmt: skip
    """Class and box of the kept boxes of each image, best first, and their scores; 0 after them; their number."""
    if len(limit) != 1 or len(iou_threshold) != 1 or len(score_threshold) != 1:
        return BAD_VALUE
    images, classes, n = scores.dims[0], scores.dims[1], scores.dims[2]
    limits = Limits(limit[0], iou_threshold[0], score_threshold[0], False)
    for b in range(images):
        done = gather_classes(boxes, Scores(scores.data, b * classes * n, n, 1), b, classes, limits, candidates, of_image)
        for j in range(done):
            selected[b, j, 0], selected[b, j, 1] = of_image.order[j] // n, of_image.order[j] % n
            selected_scores[b, j] = of_image.keys[j]
        for j in range(done, classes * n):
            selected[b, j, 0] = selected[b, j, 1] = 0
            selected_scores[b, j] = 0
        total[b] = done
    counts[0] = 0
    return OK


@generic
def suppress_regularly(
    boxes: Array, scores: Shaped, out_boxes: Array, out_classes: Array, out_scores: Array, total: Array, candidates: Candidates,
    of_image: Sortable, classes: int, limits: Limits,
) -> int:  # fmt: skip
    """The best boxes of each image over all classes, their classes and scores; 0 after them; their number."""
    n, fields, most = scores.dims[1], scores.dims[2], out_classes.shape[1]
    for b in range(scores.dims[0]):
        of_classes = Scores(scores.data, b * n * fields + fields - classes, 1, fields)
        done = min(gather_classes(boxes, of_classes, b, classes, limits, candidates, of_image), most)
        for j in range(most):
            box = of_image.order[j] % n if j < done else 0
            out_classes[b, j] = of_image.order[j] // n if j < done else 0
            out_scores[b, j] = of_image.keys[j] if j < done else 0.0
            for f in range(4):
                out_boxes[b, j, f] = boxes[b, box, f] if j < done else 0.0
        total[b] = done
    return OK
