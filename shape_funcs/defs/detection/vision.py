"""Shapes of detection operators.  Results have room for all boxes; a count states the number of valid boxes."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import dimensions, need_rank, same_size
from ...symbolic.dim import Dim, Shape, dim, result_size
from ...symbolic.dim_operations import le
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func


@register_shape_func("vision.get_valid_counts")
def get_valid_counts(inputs: tuple[Operand, ...], attrs: Any) -> list[Shape]:
    """For data ``[B, N, K]``: counts ``[B]``, the boxes ``[B, N, K]``, their indices ``[B, N]``."""
    data = inputs[0]
    need_rank(data, 3, "the data", 0)
    one_element(inputs[1], "score_threshold", 1)
    batch, boxes, entries = data.shape
    _score_and_class(attrs, entries)
    return [(batch,), data.shape, (batch, boxes)]


def _score_and_class(attrs: Any, entries: Dim) -> None:
    """Check that the index of the score and, if not negative, of the class is within a box of ``entries`` numbers."""
    _inside(attrs.score_index, 1, entries, "score_index")
    if attrs.id_index >= 0:
        _inside(attrs.id_index, 1, entries, "id_index")


def _inside(first: int, count: int, entries: Dim, what: str) -> None:
    if first < 0:
        raise ShapeError(f"{what} must be at least 0, not {first}")
    check(le(first + count, entries), f"{what} is {first}, but a box has {{}} numbers", entries, input=0, axis=2)


@register_shape_func("vision.non_max_suppression")
def non_max_suppression(inputs: tuple[Operand, ...], attrs: Any) -> Any:
    """For data ``[B, N, K]``: indices ``[B, N]`` and counts ``[B, 1]`` with ``attrs.return_indices``, else ``[B, N, K]``."""
    data, valid_count, indices = inputs[:3]
    need_rank(data, 3, "the data", 0)
    need_rank(valid_count, 1, "valid_count", 1)
    need_rank(indices, 2, "the indices", 2)
    one_element(inputs[3], "max_output_size", 3)
    one_element(inputs[4], "iou_threshold", 4)
    batch, boxes, entries = data.shape
    _score_and_class(attrs, entries)
    _inside(attrs.coord_start, 4, entries, "coord_start")
    batch = same_size(batch, valid_count.shape[0], "the data has {} batches, valid_count {}", 1, 0)
    batch = same_size(batch, indices.shape[0], "the data has {} batches, the indices {}", 2, 0)
    boxes = same_size(boxes, indices.shape[1], "the data has {} boxes, the indices {}", 2, 1)
    return [(batch, boxes), (batch, dim(1))] if attrs.return_indices else (batch, boxes, entries)


def _shared_boxes(boxes: Operand, scores: Operand, batch_axis: int, box_axis: int) -> tuple[Dim, Dim]:
    """The number of batches and boxes, from boxes ``[B, N, 4]`` and scores of rank 3."""
    need_rank(boxes, 3, "the boxes", 0)
    need_rank(scores, 3, "the scores", 1)
    same_size(dim(4), boxes.shape[2], "a box must have {} numbers, not {}", 0, 2)
    batch = same_size(boxes.shape[0], scores.shape[batch_axis], "the boxes have {} batches, the scores {}", 1, batch_axis)
    return batch, same_size(boxes.shape[1], scores.shape[box_axis], "there are {} boxes, but scores of {}", 1, box_axis)


@register_shape_func("vision.all_class_non_max_suppression", upper_bound=True)
def all_class_non_max_suppression(inputs: tuple[Operand, ...], attrs: Any) -> list[Shape]:
    """For boxes ``[B, N, 4]`` and scores ``[B, C, N]``: rows ``[at most B * C * N, 3]`` and their number ``[1]``; in tensorflow
    format rows ``[B, C * N, 2]``, scores ``[B, C * N]`` and the number of rows of each image ``[B]``."""
    boxes, scores = inputs[:2]
    batch, count = _shared_boxes(boxes, scores, 0, 2)
    for position, what in enumerate(("max_output_boxes_per_class", "iou_threshold", "score_threshold"), 2):
        one_element(inputs[position], what, position)
    all_of_image = scores.shape[1] * count
    if attrs.output_format == "onnx":
        return [(result_size(batch * all_of_image), dim(3)), (dim(1),)]
    return [(batch, all_of_image, dim(2)), (batch, all_of_image), (batch,)]


def one_element(x: Operand, what: str, input: int) -> None:
    """Raise ShapeError unless ``x`` is a scalar or a vector of one element."""
    if x.rank > 1:
        raise ShapeError(f"{what} must be a scalar, it has {dimensions(x.rank)}", input=input)
    if x.rank:
        same_size(dim(1), x.shape[0], f"{what} must have {{}} element, not {{}}", input, 0)


@register_shape_func("vision.regular_non_max_suppression")
def regular_non_max_suppression(inputs: tuple[Operand, Operand], attrs: Any) -> list[Shape]:
    """For boxes ``[B, N, 4]`` and scores ``[B, N, classes]``: boxes ``[B, max_detections, 4]``, their classes and scores
    ``[B, max_detections]``, and the number of valid boxes ``[B]``."""
    boxes, scores = inputs
    for what in ("max_detections", "num_classes"):
        if getattr(attrs, what) < 0:
            raise ShapeError(f"{what} must be at least 0, not {getattr(attrs, what)}")
    batch, _ = _shared_boxes(boxes, scores, 0, 1)
    check(
        le(attrs.num_classes, scores.shape[2]),
        "there are {} classes, but {} scores of a box",
        attrs.num_classes,
        scores.shape[2],
        input=1,
    )
    most = dim(attrs.max_detections)
    return [(batch, most, dim(4)), (batch, most), (batch, most), (batch,)]
