"""Non-maximum suppression of each class separately; all classes share the boxes.

The boxes of a class above the score threshold are sorted, best first, and compared with the kept boxes, as in ``vision``.  The
order of boxes with equal scores is stable.
"""

from __future__ import annotations

from ...native.memory import Array, Axes, Element, generic
from ...native.status import BAD_VALUE, OK
from ..sort.cpu import merge_sort, sort_positions
from ..vision.cpu import AREA, BLOCK, BOTTOM, KIND, LEFT, RIGHT, TOP, clear_taken, is_covered


@generic
def keep_of_class(
    boxes: Array, b: int, scores: Array, start: int, step: int, at_least: int, score_threshold: Element, iou_threshold: Element,
    limit: int, keys: Array, order: Array, spare_keys: Array, spare_order: Array, counters: Array, taken: Array,
) -> int:  # fmt: skip
    """The number of kept boxes of image ``b``; ``order`` receives their positions, ``keys`` their scores, best first.

    The score of box i is ``scores[start + i * step]``; it must be above the threshold, or not below it if ``at_least``.
    """
    n, found = boxes.shape[1], 0
    for i in range(n):
        score = scores[start + i * step]
        if score > score_threshold or (at_least and score == score_threshold):
            keys[found], order[found] = score, i
            found += 1
    sort_positions(keys, order, spare_keys, spare_order, counters, found, False)
    # a constant of the boxes' dtype, so that products are not widened
    spare_keys[0] = 0
    zero, kept = spare_keys[0], 0
    for j in range(found):
        if kept == limit:
            break
        i = order[j]
        x0, x1 = min(boxes[b, i, 0], boxes[b, i, 2]), max(boxes[b, i, 0], boxes[b, i, 2])
        y0, y1 = min(boxes[b, i, 1], boxes[b, i, 3]), max(boxes[b, i, 1], boxes[b, i, 3])
        size = (x1 - x0) * (y1 - y0)
        if is_covered(taken, 0, kept, x0, y0, x1, y1, size, zero, iou_threshold, zero, True):
            continue
        if kept % BLOCK == 0:
            clear_taken(taken, kept, kept + BLOCK)
        taken[LEFT, kept], taken[TOP, kept] = x0, y0
        taken[RIGHT, kept], taken[BOTTOM, kept] = x1, y1
        taken[AREA, kept], taken[KIND, kept] = size, zero
        order[kept], keys[kept] = i, scores[start + i * step]
        kept += 1
    return kept


@generic
def suppress_classes(
    boxes: Array, scores: Array, dims: Axes, limit: Array, iou_threshold: Array, score_threshold: Array, selected: Array,
    total: Array, counts: Array, keys: Array, order: Array, spare_keys: Array, spare_order: Array, counters: Array, taken: Array,
    all_keys: Array, all_order: Array, more_keys: Array, more_order: Array,
) -> int:  # fmt: skip
    """Image, class and box of each kept box, image by image, class by class, and their number."""
    if len(limit) != 1 or len(iou_threshold) != 1 or len(score_threshold) != 1:
        return BAD_VALUE
    done = 0
    for b in range(dims[0] if dims[2] > 0 else 0):
        for c in range(dims[1]):
            kept = keep_of_class(
                boxes, b, scores, (b * dims[1] + c) * dims[2], 1, False, score_threshold[0], iou_threshold[0], limit[0],
                keys, order, spare_keys, spare_order, counters, taken,
            )  # fmt: skip
            for j in range(kept):
                selected[done, 0], selected[done, 1], selected[done, 2] = b, c, order[j]
                done += 1
    counts[0] = total[0] = done
    return OK


@generic
def gather_classes(
    boxes: Array, scores: Array, b: int, classes: int, start: int, class_step: int, step: int, at_least: int,
    score_threshold: Element, iou_threshold: Element, limit: int, all_keys: Array, all_order: Array, keys: Array, order: Array,
    spare_keys: Array, spare_order: Array, counters: Array, taken: Array,
) -> int:  # fmt: skip
    """All kept boxes of an image, class by class: scores, and class * number of boxes + box; returns their number."""
    done, n = 0, boxes.shape[1]
    for c in range(classes if n > 0 else 0):
        kept = keep_of_class(
            boxes, b, scores, start + c * class_step, step, at_least, score_threshold, iou_threshold, limit,
            keys, order, spare_keys, spare_order, counters, taken,
        )  # fmt: skip
        for j in range(kept):
            all_keys[done], all_order[done] = keys[j], c * n + order[j]
            done += 1
    return done


@generic
def suppress_classes_of_images(
    boxes: Array, scores: Array, dims: Axes, limit: Array, iou_threshold: Array, score_threshold: Array, selected: Array,
    selected_scores: Array, total: Array, counts: Array, keys: Array, order: Array, spare_keys: Array, spare_order: Array,
    counters: Array, taken: Array, all_keys: Array, all_order: Array, more_keys: Array, more_order: Array,
) -> int:  # fmt: skip
    """Class and box of the kept boxes of each image, best first, and their scores; -1 after them; their number."""
    if len(limit) != 1 or len(iou_threshold) != 1 or len(score_threshold) != 1:
        return BAD_VALUE
    classes, n = dims[1], dims[2]
    for b in range(dims[0]):
        done = gather_classes(
            boxes, scores, b, classes, b * classes * n, n, 1, False, score_threshold[0], iou_threshold[0], limit[0],
            all_keys, all_order, keys, order, spare_keys, spare_order, counters, taken,
        )  # fmt: skip
        merge_sort(all_keys, all_order, more_keys, more_order, done, False)
        for j in range(done):
            selected[b, j, 0], selected[b, j, 1] = all_order[j] // n, all_order[j] % n
            selected_scores[b, j] = all_keys[j]
        for j in range(done, classes * n):
            selected[b, j, 0] = selected[b, j, 1] = -1
            selected_scores[b, j] = -1
        total[b] = done
    counts[0] = 0
    return OK


@generic
def suppress_regularly(
    boxes: Array, scores: Array, dims: Axes, out_boxes: Array, out_classes: Array, out_scores: Array, total: Array, keys: Array,
    order: Array, spare_keys: Array, spare_order: Array, counters: Array, taken: Array, all_keys: Array, all_order: Array,
    more_keys: Array, more_order: Array, classes: int, per_class: int, iou_threshold: Element, score_threshold: Element,
) -> int:  # fmt: skip
    """The best boxes of each image over all classes, their classes and scores; 0 after them; their number."""
    n, fields, most = dims[1], dims[2], out_classes.shape[1]
    for b in range(dims[0]):
        done = gather_classes(
            boxes, scores, b, classes, b * n * fields + fields - classes, 1, fields, True, score_threshold, iou_threshold,
            per_class, all_keys, all_order, keys, order, spare_keys, spare_order, counters, taken,
        )  # fmt: skip
        merge_sort(all_keys, all_order, more_keys, more_order, done, False)
        done = min(done, most)
        for j in range(most):
            box = all_order[j] % n if j < done else 0
            out_classes[b, j] = all_order[j] // n if j < done else 0
            out_scores[b, j] = all_keys[j] if j < done else 0.0
            for f in range(4):
                out_boxes[b, j, f] = boxes[b, box, f] if j < done else 0.0
        total[b] = done
    return OK
