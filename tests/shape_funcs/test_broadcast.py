"""Elementwise, broadcast, reduction and creation operators: shapes against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..arrays import ints
from .against_numpy import FULL_SHAPES, SHAPES, axis, case, f32, near, one, scalar


@case
def test_elementwise(agree: Any, draw: Any) -> None:
    a = draw(SHAPES)
    b = draw(st.sampled_from([a, near(draw, a)]))

    def oracle() -> Any:
        if a != b:
            raise ValueError
        return one(a)

    agree("elementwise", [f32(a), f32(b)], oracle)


@case
def test_broadcast(agree: Any, draw: Any) -> None:
    a = draw(SHAPES)
    shapes = [a, near(draw, a), near(draw, a)]
    for name in ("broadcast", "where"):
        agree(name, [f32(s) for s in shapes], lambda: one(np.broadcast_shapes(*shapes)))


@case
def test_broadcast_to(agree: Any, draw: Any) -> None:
    target = draw(SHAPES)
    a = near(draw, target)

    def oracle() -> Any:
        return one(np.broadcast_to(f32(a), target).shape)

    agree("broadcast_to", [f32(a)], oracle, shape=target)
    agree("broadcast_to_like", [f32(a), f32(target)], oracle)
    agree("dyn.broadcast_to", [f32(a), ints(*target)], oracle)


@case
def test_sums_to_the_shape_before_a_broadcast(agree: Any, draw: Any) -> None:
    data = draw(SHAPES)
    target = near(draw, data)

    def oracle() -> Any:
        np.broadcast_to(f32(target), data)
        return without_ones([data])

    def without_ones(shapes: Any) -> Any:
        """An axis that may be summed is split in two: one of them has size 1, or both are empty."""
        return [(0,) if 0 in shape else tuple(size for size in shape if size != 1) for shape in shapes]

    axes = tuple(range(max(0, len(data) - len(target)), len(data)))
    agree("collapse_axes_like", [f32(data), f32(target)], oracle, compared=without_ones, axes=axes)
    agree("collapse_axes_to", [f32(data), ints(*target)], oracle, compared=without_ones, axes=axes)


@case
def test_like_and_bias(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    agree("full_like", [f32(a), f32(())], lambda: one(a))
    k = axis(draw, len(a))
    n = draw(st.sampled_from([a[k], a[k], 4]))

    def oracle() -> Any:
        if n != a[k]:
            raise ValueError
        return one(a)

    for name in ("nn.bias_add", "nn.prelu"):
        agree(name, [f32(a), f32((n,))], oracle, axis=k)


@case
def test_reduce(agree: Any, draw: Any) -> None:
    a = draw(SHAPES)
    axes = draw(st.none() | st.integers(-5, 4) | st.lists(st.integers(-len(a), max(0, len(a) - 1)), max_size=3).map(tuple))
    keepdims, exclude = draw(st.booleans()), draw(st.booleans())

    def oracle() -> Any:
        # numpy accepts axis 0 of a scalar
        used = np.lib.array_utils.normalize_axis_tuple(axes, len(a)) if axes is not None else None
        given = tuple(k for k in range(len(a)) if k not in used) if exclude and used is not None else used
        return one(np.sum(f32(a), axis=given, keepdims=keepdims).shape)

    agree("reduce", [f32(a)], oracle, axis=axes, keepdims=keepdims, exclude=exclude)


@case
def test_filled(agree: Any, draw: Any) -> None:
    target = tuple(draw(st.lists(st.sampled_from([0, 1, 3, 5, -2]), max_size=3)))

    def oracle() -> Any:
        return one(f32(target).shape)

    agree("full", [f32(())], oracle, shape=target)
    agree("zeros", [], oracle, shape=target)
    agree("ones", [], oracle, shape=target)
    agree("dyn.full", [f32(()), ints(*target)], oracle)
    agree("dyn.zeros", [ints(*target)], oracle)
    agree("dyn.ones", [ints(*target)], oracle)


@case
def test_arange(agree: Any, draw: Any) -> None:
    dtype = draw(st.sampled_from(["int32", "int64", "float32", "float64"]))
    value = st.integers(-20, 20) if dtype.startswith("int") else st.sampled_from([0.0, -0.0, 0.1, 1.0, -0.3, 2.5, 7.0])
    inputs = [scalar(draw(value), dtype) for _ in range(3)]
    agree("arange", inputs, lambda: one(np.arange(*(x.item() for x in inputs)).shape))


@case
def test_shape_of(agree: Any, draw: Any) -> None:
    a = draw(SHAPES)
    agree("shape_of", [f32(a)], lambda: [(len(a),)])


@case
def test_host_function(agree: Any, draw: Any) -> None:
    number, a = draw(st.sampled_from([(), (1,), (2, 3)])), draw(SHAPES)

    def oracle() -> Any:
        if number != ():
            raise ValueError
        return one(())

    agree("host_function", [f32(number), f32(a)], oracle)
