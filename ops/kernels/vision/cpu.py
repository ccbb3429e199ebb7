"""Boxes: valid counts, and non-maximum suppression.

Suppression sorts once and compares each box with the kept boxes, stopping at the first that overlaps it.  The kept boxes
are copied into separate arrays, one per coordinate, so that the comparison with a block of them vectorises.  Overlaps, which need
a division, are computed only in blocks of which a box is at the same place along the first axis.  The kept boxes of a class stand
together, in a bucket of classes, so that a box is not compared with the boxes of most other classes.  Areas and overlaps are
computed in the dtype of the data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...native.memory import Array, Element, generic
from ...native.status import BAD_VALUE, OK
from ..sort.cpu import sort_positions
from ..sort.radix import Sortable

#: The number of kept boxes compared before a branch on whether one of them overlaps the box.
BLOCK = 16
#: The number of buckets of classes, and the first class that has no bucket of its own: the dtypes of boxes hold it.
_BUCKETS, _CLASSES = 256, 1 << 15
#: The rows of ``taken``: the kept boxes, prepared for comparison.
LEFT, TOP, RIGHT, BOTTOM, AREA, KIND = range(6)
KEPT_ROWS = 6


class Candidates(NamedTuple):
    """Buffers of the boxes of an image: scores and positions to sort, counters of the sort, and ``taken``, the kept boxes."""

    boxes: Sortable
    counters: Array
    taken: Array


class BoxFields(NamedTuple):
    """Positions among the fields of a box: of the first of four corners, of its score, of its class (-1: none)."""

    coord_start: int
    score_index: int
    id_index: int


class Box(NamedTuple):
    """A box, its corners in order, in the dtype of the data: boxes of one kind suppress each other."""

    left: Element
    top: Element
    right: Element
    bottom: Element
    area: Element
    kind: Element


@generic
def box_at(data: Array, b: int, i: int, c: int, kind: Element) -> Box:
    """Box ``i`` of image ``b``, whose corners begin at field ``c``, in any order."""
    x0, x1 = min(data[b, i, c], data[b, i, c + 2]), max(data[b, i, c], data[b, i, c + 2])
    y0, y1 = min(data[b, i, c + 1], data[b, i, c + 3]), max(data[b, i, c + 1], data[b, i, c + 3])
    return Box(x0, y0, x1, y1, (x1 - x0) * (y1 - y0), kind)


@generic
def take(taken: Array, at: int, box: Box) -> None:
    """Store a kept box."""
    taken[LEFT, at], taken[TOP, at] = box.left, box.top
    taken[RIGHT, at], taken[BOTTOM, at] = box.right, box.bottom
    taken[AREA, at], taken[KIND, at] = box.area, box.kind


@generic
def get_valid_counts(
    data: Array, score_threshold: Array, valid_count: Array, out: Array, out_indices: Array, id_index: int, score_index: int
) -> int:
    """The boxes above the threshold first, their positions, their number; -1 after them."""
    batches, boxes, fields = data.shape
    if len(score_threshold) != 1 or id_index >= fields or score_index < 0 or score_index >= fields:
        return BAD_VALUE
    for b in range(batches):
        found = 0
        for i in range(boxes):
            if data[b, i, score_index] > score_threshold[0] and (id_index < 0 or data[b, i, id_index] >= 0):
                for f in range(fields):
                    out[b, found, f] = data[b, i, f]
                out_indices[b, found] = i
                found += 1
        valid_count[b] = found
        for i in range(found, boxes):
            for f in range(fields):
                out[b, i, f] = -1
            out_indices[b, i] = -1
    return OK


@generic
def clear_taken(taken: Array, start: int, stop: int) -> None:
    """Store empty boxes at places of ``taken``: ``meets_any`` compares whole blocks, and nobody has written behind the boxes."""
    for k in range(start, min(stop, taken.shape[1])):
        taken[LEFT, np.uint64(k)] = 0
        taken[RIGHT, np.uint64(k)] = 0


@generic
def meets_any(taken: Array, start: int, stop: int, x0: Element, x1: Element) -> bool:
    """Whether the first axis of a box meets that of a taken box of ``start:stop``, at most a block; True for others, too."""
    met = False
    if start + BLOCK <= taken.shape[1]:
        # a whole block is compared in vectors; other boxes, or empty ones, are behind the taken boxes
        for k in range(BLOCK):
            q = np.uint64(start + k)
            met = met | (min(x1, taken[RIGHT, q]) > max(x0, taken[LEFT, q]))
    else:
        for number in range(start, stop):
            q = np.uint64(number)
            met = met | (min(x1, taken[RIGHT, q]) > max(x0, taken[LEFT, q]))
    return met


@generic
def is_covered(taken: Array, start: int, stop: int, box: Box, threshold: Element, zero: Element, more: bool) -> bool:
    """Whether a taken box of ``start:stop`` and of the same kind overlaps this box by the threshold; by more, if ``more``."""
    x0, y0, x1, y1, size, kind = box
    # boxes that share nothing overlap by 0
    all_count = zero > threshold if more else zero >= threshold
    while start < stop:
        end = min(start + BLOCK, stop)
        if not all_count and not meets_any(taken, start, end, x0, x1):
            start = end
            continue
        hit = False
        for number in range(start, end):
            q = np.uint64(number)
            left, right = max(x0, taken[LEFT, q]), min(x1, taken[RIGHT, q])
            top, bottom = max(y0, taken[TOP, q]), min(y1, taken[BOTTOM, q])
            width, height = right - left, bottom - top
            shared = width * height if (width > zero) & (height > zero) else zero
            union = size + taken[AREA, q] - shared
            overlap = shared / union if union > zero else zero
            enough = overlap > threshold if more else overlap >= threshold
            hit = hit | (enough & (taken[KIND, q] == kind))
        if hit:
            return True
        start = end
    return False


@generic
def bucket_of(data: Array, b: int, i: int, id_index: int) -> int:
    """The bucket of a box by its class; 0 without classes, and for numbers that are no usual class."""
    if id_index < 0:
        return 0
    kind = data[b, i, id_index]
    return int(kind) % _BUCKETS if 0 <= kind < _CLASSES else 0


@generic
def set_buckets(data: Array, b: int, order: Array, considered: int, id_index: int, ends: Array) -> None:
    """Set ``ends`` to the begin of each bucket, which has room for all boxes of its classes."""
    for bucket in range(_BUCKETS):
        ends[bucket] = 0
    for j in range(considered):
        ends[bucket_of(data, b, order[j], id_index)] += 1
    begin = 0
    for bucket in range(_BUCKETS):
        begin, ends[bucket] = begin + ends[bucket], begin
        ends[_BUCKETS + bucket] = ends[bucket]


@generic
def suppress(
    data: Array, b: int, valid: int, limit: int, threshold: Element, candidates: Candidates, force_suppress: bool, top_k: int,
    fields: BoxFields,
) -> None:  # fmt: skip
    """Sort the first ``valid`` boxes of image ``b``, best first; ``order`` receives their positions, -1 for suppressed boxes.

    The kept boxes of bucket ``k`` are ``counters[_BUCKETS + k]`` to ``counters[k]`` of ``taken``.
    """
    (keys, order, spare_keys, _), counters, taken = candidates
    id_index = fields.id_index
    for i in range(valid):
        keys[i], order[i] = data[b, i, fields.score_index], i
    sort_positions(candidates.boxes, counters, valid, False)
    considered = min(valid, top_k) if top_k > 0 else valid
    # a constant of the data's dtype, so that products are not widened
    spare_keys[0] = 0
    zero = spare_keys[0]
    kept, bucket_index = 0, -1 if force_suppress else id_index
    set_buckets(data, b, order, considered, bucket_index, counters)
    clear_taken(taken, 0, considered + BLOCK)
    for j in range(valid):
        if j >= considered or kept == limit:
            order[j] = -1
            continue
        i = order[j]
        box = box_at(data, b, i, fields.coord_start, zero if force_suppress or id_index < 0 else data[b, i, id_index])
        bucket = bucket_of(data, b, i, bucket_index)
        start, stop = counters[_BUCKETS + bucket], counters[bucket]
        if is_covered(taken, start, stop, box, threshold, zero, False):
            order[j] = -1
            continue
        kept += 1
        # a box without a class suppresses no other
        if id_index < 0 or data[b, i, id_index] >= 0:
            take(taken, stop, box)
            counters[bucket] = stop + 1


@generic
def choose_boxes(
    data: Array, b: int, valid_count: Array, max_output_size: Array, iou_threshold: Array, candidates: Candidates, force_suppress:
    bool, top_k: int, fields: BoxFields,
) -> int:  # fmt: skip
    """The number of valid boxes of image ``b``; ``order`` as set by ``suppress``."""
    valid: int = min(max(valid_count[b], 0), data.shape[1])
    threshold = iou_threshold[0]
    if not threshold > 0:
        for i in range(valid):
            candidates.boxes.order[i] = i
    elif valid > 0:
        suppress(data, b, valid, max_output_size[0], threshold, candidates, force_suppress, top_k, fields)
    return valid


@generic
def is_usable(count: int, max_output_size: Array, iou_threshold: Array, fields: BoxFields) -> bool:
    """Whether the attributes name existing fields of a box with ``count`` fields, and the two scalars have one element."""
    if len(max_output_size) != 1 or len(iou_threshold) != 1:
        return False
    start, score_index, id_index = fields
    return 0 <= score_index < count and id_index < count and start >= 0 and start + 4 <= count


@generic
def suppressed_indices(
    data: Array, valid_count: Array, indices: Array, max_output_size: Array, iou_threshold: Array, out: Array, count: Array,
    candidates: Candidates, force_suppress: bool, top_k: int, fields: BoxFields,
) -> int:  # fmt: skip
    """The ``indices`` of the kept boxes, best first, -1 after them; ``count``: their number."""
    order = candidates.boxes.order
    if not is_usable(data.shape[2], max_output_size, iou_threshold, fields):
        return BAD_VALUE
    for b in range(data.shape[0]):
        valid = choose_boxes(data, b, valid_count, max_output_size, iou_threshold, candidates, force_suppress, top_k, fields)
        kept = 0
        for j in range(valid):
            if order[j] >= 0:
                out[b, kept] = indices[b, order[j]]
                kept += 1
        count[b, 0] = kept
        for j in range(kept, data.shape[1]):
            out[b, j] = -1
    return OK


@generic
def suppressed_boxes(
    data: Array, valid_count: Array, indices: Array, max_output_size: Array, iou_threshold: Array, out: Array, candidates:
    Candidates, force_suppress: bool, top_k: int, fields: BoxFields, invalid_to_bottom: bool,
) -> int:  # fmt: skip
    """The boxes, best first; suppressed boxes are filled with -1, and come last if ``invalid_to_bottom``."""
    (_, boxes, width), order = data.shape, candidates.boxes.order
    if not is_usable(width, max_output_size, iou_threshold, fields):
        return BAD_VALUE
    for b in range(data.shape[0]):
        valid = choose_boxes(data, b, valid_count, max_output_size, iou_threshold, candidates, force_suppress, top_k, fields)
        filled = 0
        for j in range(valid):
            if order[j] >= 0:
                for f in range(width):
                    out[b, filled, f] = data[b, order[j], f]
                filled += 1
            elif not invalid_to_bottom:
                for f in range(width):
                    out[b, filled, f] = -1
                filled += 1
        for j in range(filled, boxes):
            for f in range(width):
                out[b, j, f] = -1
    return OK
