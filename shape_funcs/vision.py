"""Shapes of the operators after a detector's network.  Results have room for all boxes; a count says how many are valid."""

from __future__ import annotations

from typing import Any

from .axes import need_rank, same_size
from .dims import Shape, dim
from .registry import Operand, register_shape_func


@register_shape_func("vision.get_valid_counts")
def get_valid_counts(inputs: tuple[Operand, ...], attrs: Any) -> list[Shape]:
    """For data ``[B, N, K]``: counts ``[B]``, the boxes ``[B, N, K]``, their indices ``[B, N]``."""
    data = inputs[0]
    need_rank(data, 3, "the data", 0)
    batch, boxes, _ = data.shape
    return [(batch,), data.shape, (batch, boxes)]


@register_shape_func("vision.non_max_suppression")
def non_max_suppression(inputs: tuple[Operand, ...], attrs: Any) -> Any:
    """For data ``[B, N, K]``: indices ``[B, N]`` and counts ``[B, 1]`` with ``attrs.return_indices``, else ``[B, N, K]``."""
    data, valid_count, indices = inputs[:3]
    need_rank(data, 3, "the data", 0)
    need_rank(valid_count, 1, "valid_count", 1)
    need_rank(indices, 2, "the indices", 2)
    batch, boxes, entries = data.shape
    batch = same_size(batch, valid_count.shape[0], "the data has {} batches, valid_count {}", 1, 0)
    batch = same_size(batch, indices.shape[0], "the data has {} batches, the indices {}", 2, 0)
    boxes = same_size(boxes, indices.shape[1], "the data has {} boxes, the indices {}", 2, 1)
    return [(batch, boxes), (batch, dim(1))] if attrs.return_indices else (batch, boxes, entries)
