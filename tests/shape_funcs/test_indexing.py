"""Slices and indices: shapes against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from ..arrays import ints
from .against_numpy import FULL_SHAPES, SHAPES, SIZES, axis, case, f32, one, scalar

pytestmark = pytest.mark.many

LIMITS = st.integers(-8, 8) | st.sampled_from([2**63 - 1, 2**31 - 1, -(2**63), -(2**31)])


@case
def test_strided_slice(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    used = draw(st.integers(1, len(a)))
    begin, end = (tuple(draw(LIMITS) for _ in range(used)) for _ in range(2))
    strides = tuple(draw(st.sampled_from([1, 1, 2, 3, -1, -2, -7, 0])) for _ in range(used))

    def oracle() -> Any:
        return one(f32(a)[tuple(slice(*x) for x in zip(begin, end, strides, strict=True))].shape)

    agree("strided_slice", [f32(a)], oracle, begin=begin, end=end, strides=strides, axes=None, slice_mode="end")
    agree("dyn.strided_slice", [f32(a), ints(*begin), ints(*end), ints(*strides)], oracle, slice_mode="end")


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_every_slice_of_a_small_axis(shapes_of: Any, n: int) -> None:
    """The static form over a symbolic size: all limits from -7 to 7 and all strides up to 3."""
    for begin in range(-7, 8):
        for end in range(-7, 8):
            for stride in (-3, -1, 1, 2):
                s = shapes_of(
                    "strided_slice", [f32((n,))], begin=(begin,), end=(end,), strides=(stride,), axes=None, slice_mode="end"
                )
                assert s.unknown() == [f32((n,))[begin:end:stride].shape], (begin, end, stride)


@pytest.mark.parametrize("begin", [-(2**63), -(2**62), -1, 0, 2**62, 2**63 - 1])
@pytest.mark.parametrize("end", [-(2**63), -(2**62), 0, 4, 2**62, 2**63 - 1])
@pytest.mark.parametrize("stride", [-(2**63), -1, 1, 2**63 - 1])
def test_limits_at_the_ends_of_int64(shapes_of: Any, begin: int, end: int, stride: int) -> None:
    """No intermediate value overflows."""
    wanted = [f32(5)[begin:end:stride].shape]
    attrs = {"begin": (begin,), "end": (end,), "strides": (stride,), "axes": None, "slice_mode": "end"}
    assert shapes_of("strided_slice", [f32(5)], **attrs).unknown() == wanted
    assert shapes_of("dyn.strided_slice", [f32(5), ints(begin), ints(end), ints(stride)], slice_mode="end").unknown() == wanted


@case
def test_slice_by_axes_and_size(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    k = axis(draw, len(a))
    begin, size = draw(st.integers(-len(a), 6)), draw(st.integers(-1, 6))

    def oracle() -> Any:
        first = min(max(begin + a[k] if begin < 0 else begin, 0), a[k])
        out = list(a)
        out[k] = a[k] - first if size < 0 else min(size, a[k] - first)
        return one(out)

    agree("strided_slice", [f32(a)], oracle, begin=(begin,), end=(size,), strides=(1,), axes=(k,), slice_mode="size")
    if k == 0:
        agree("dyn.strided_slice", [f32(a), ints(begin), ints(size), ints(1)], oracle, slice_mode="size")


@case
def test_take(agree: Any, draw: Any) -> None:
    a, b = draw(FULL_SHAPES), draw(SHAPES)
    k = draw(st.none() | st.integers(-len(a), len(a) - 1))
    a = tuple(max(1, d) for d in a)
    agree(
        "take",
        [f32(a), np.zeros(b, np.int32)],
        lambda: one(np.take(f32(a), np.zeros(b, np.int32), k).shape),
        axis=k,
        batch_dims=0,
    )


@case
def test_take_with_batch_dims(agree: Any, draw: Any) -> None:
    batch, rest, more = (tuple(draw(st.lists(SIZES, max_size=2))) for _ in range(3))
    a, b = (*batch, 4, *rest), batch + more
    if draw(st.integers(0, 5)) == 0 and batch:
        b = (b[0] + 1, *b[1:])

    def oracle() -> Any:
        if b[: len(batch)] != batch:
            raise ValueError
        return one(batch + more + rest)

    agree("take", [f32(a), np.zeros(b, np.int32)], oracle, axis=len(batch), batch_dims=len(batch))


@case
def test_weighted_take(agree: Any, draw: Any) -> None:
    a, taps = draw(FULL_SHAPES), draw(st.integers(1, 3))
    n, m = draw(SIZES), draw(st.integers(0, 5))
    m = n if m else n + 1  # mostly as many weights as indices
    k = draw(st.integers(-len(a), len(a) - 1))

    def oracle() -> Any:
        if m != n:
            raise ValueError
        return one(np.take(f32(a), np.zeros((n,), np.int64), k).shape if a[k] else (*a[: k % len(a)], n, *a[k % len(a) + 1 :]))

    agree(
        "weighted_take",
        [f32(a), np.zeros((n, taps), np.int64), np.zeros((m, taps), np.float32)],
        oracle,
        fixed=((1, 1), (2, 1)),
        axis=k,
    )


@case
def test_gather(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    k = axis(draw, len(a))
    b = list(a)
    b[k] = draw(SIZES)
    if draw(st.integers(0, 5)) == 0:
        b[0] += 1

    def oracle() -> Any:
        if any(x != y for i, (x, y) in enumerate(zip(a, b, strict=True)) if i != k % len(a)):
            raise ValueError
        return one(b)

    agree("gather", [f32(a), np.zeros(b, np.int64)], oracle, axis=k)


@case
def test_gather_nd(agree: Any, draw: Any) -> None:
    a = tuple(max(1, d) for d in draw(FULL_SHAPES))
    m = draw(st.integers(0, len(a)))
    indices = np.zeros((m, *draw(SHAPES)), np.int64)

    def oracle() -> Any:
        # numpy broadcasts the indices with a leading axis of size 1, so that zero coordinates are a valid index
        return one(f32((1, *a))[(np.zeros(indices.shape[1:], np.int64), *indices)].shape)

    agree("gather_nd", [f32(a), indices], oracle, fixed=((1, 0),), batch_dims=0, index_rank=None)
    agree("gather_nd", [f32(a), indices], oracle, batch_dims=0, index_rank=m)


@case
def test_gather_nd_with_batch_dims(agree: Any, draw: Any) -> None:
    batch, rest, more = (tuple(draw(st.lists(SIZES, max_size=1))) for _ in range(3))
    a, b = (*batch, 4, 3, *rest), (2, *batch, *more)
    inputs, attrs = [f32(a), np.zeros(b, np.int64)], {"batch_dims": len(batch), "index_rank": None}
    agree("gather_nd", inputs, lambda: one(batch + more + rest), fixed=((1, 0),), **attrs)


@case
def test_one_hot(agree: Any, draw: Any) -> None:
    a, depth, k = draw(SHAPES), draw(st.sampled_from([-1, 0, 1, 4])), draw(st.integers(-5, 4))

    def oracle() -> Any:
        first = np.lib.array_utils.normalize_axis_index(k, len(a) + 1)
        if depth < 0:
            raise ValueError
        return one((*a[:first], depth, *a[first:]))

    tensors = [np.zeros(a, np.int32), f32(()), f32(())]
    agree("one_hot", tensors, oracle, depth=depth, axis=k)
    agree("dyn.one_hot", [*tensors, scalar(depth)], oracle, axis=k)
