"""Shapes of random numbers: of keys, and of words drawn with a key."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import as_size, need_rank, same_size
from ...symbolic.dim import Shape, dim
from ...symbolic.registry import Operand, register_shape_func

#: The words of a key.
WORDS = 10


def _key(key: Operand) -> Shape:
    need_rank(key, 1, "the key", 0)
    return (same_size(dim(WORDS), key.shape[0], "a key has {} words, this one {}", 0, 0),)


@register_shape_func("random.threefry_generate")
def generate(inputs: tuple[Operand], attrs: Any) -> list[Shape]:
    """The shape of the key, and ``attrs.shape``."""
    return [_key(inputs[0]), tuple(as_size(dim(d), "a size of shape") for d in attrs.shape)]


@register_shape_func("random.threefry_rows")
def rows(inputs: tuple[Operand, Operand], attrs: Any) -> list[Shape]:
    """The shape of the key, and that of the data with ``attrs.count`` elements along the last axis."""
    key, data = inputs
    need_rank(data, 1, "the data", 1, at_least=True)
    return [_key(key), (*data.shape[:-1], as_size(dim(attrs.count), "count"))]


@register_shape_func("random.threefry_split")
def split(inputs: tuple[Operand], attrs: Any) -> list[Shape]:
    """Twice the shape of the key."""
    return [_key(inputs[0])] * 2
