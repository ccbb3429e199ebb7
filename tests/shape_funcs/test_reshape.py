"""Reshape, squeeze, expand_dims, concatenate, split, stack: shapes against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..arrays import ints
from .against_numpy import FULL_SHAPES, SHAPES, SIZES, axis, case, f32, one, scalar


@case
def test_reshape_to_sizes(agree: Any, draw: Any) -> None:
    a = draw(SHAPES)
    b = draw(st.permutations(a).map(tuple) | st.just((int(np.prod(a)),)) | SHAPES)

    def oracle() -> Any:
        return one(f32(a).reshape(b).shape)

    agree("reshape", [f32(a)], oracle, newshape=b, allowzero=True)
    agree("reshape_like", [f32(a), f32(b)], oracle, lhs_begin=0, lhs_end=None, rhs_begin=0, rhs_end=None)
    agree("dyn.reshape", [f32(a), ints(*b)], oracle, allowzero=True)


@case
def test_reshape_infers_and_copies(agree: Any, draw: Any) -> None:
    """0 and -1 agree between the static and the run-time form, and with numpy in the cases that numpy supports."""
    a = draw(FULL_SHAPES)
    new = list(draw(st.permutations(a)))
    for k in range(len(new)):
        if a[k] == new[k] and draw(st.booleans()):
            new[k] = 0
        elif new[k] == 0:
            return  # newshape cannot state a size of 0
    if draw(st.booleans()):
        new[draw(st.integers(0, len(new) - 1))] = -1

    def oracle() -> Any:
        sizes = [a[k] if v == 0 else v for k, v in enumerate(new)]
        if 0 in sizes and -1 in sizes:
            # numpy infers no size beside an empty axis; our rule leaves copied axes out
            rest = np.prod([d for k, d in enumerate(a) if new[k] != 0], dtype=int)
            known = int(np.prod([v for v in new if v > 0], dtype=int))
            if rest % known:
                raise ValueError
            return one(rest // known if v == -1 else v for v in sizes)
        return one(f32(a).reshape(sizes).shape)

    agree("reshape", [f32(a)], oracle, newshape=tuple(new), allowzero=False)
    agree("dyn.reshape", [f32(a), ints(*new)], oracle, allowzero=False)

    def transposed_round() -> Any:
        (shape,) = oracle()
        return one(shape[::-1])

    agree("contrib_reverse_reshape", [f32(a[::-1])], transposed_round, newshape=tuple(new)[::-1], allowzero=False)


@case
def test_batch_flatten(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    agree("nn.batch_flatten", [f32(a)], lambda: one((a[0], np.prod(a[1:], dtype=int))))


@case
def test_squeeze(agree: Any, draw: Any) -> None:
    a = draw(st.lists(st.sampled_from([1, 1, 1, 0, 3]), max_size=4).map(tuple))
    axes = draw(st.lists(st.integers(-len(a), max(0, len(a) - 1)), max_size=3).map(tuple))

    def oracle() -> Any:
        return one(np.squeeze(f32(a), np.lib.array_utils.normalize_axis_tuple(axes, len(a))).shape)

    agree("squeeze", [f32(a)], oracle, axis=axes)
    agree("dyn.squeeze", [f32(a), ints(*axes)], oracle)


@case
def test_expand_dims(agree: Any, draw: Any) -> None:
    a, k, n = draw(SHAPES), draw(st.integers(-5, 4)), draw(st.integers(0, 3))

    def oracle() -> Any:
        first = np.lib.array_utils.normalize_axis_index(k, len(a) + 1)
        return one(a[:first] + (1,) * n + a[first:])

    agree("expand_dims", [f32(a)], oracle, axis=k, num_newaxis=n)
    agree("dyn.expand_dims", [f32(a), scalar(k)], oracle, num_newaxis=n)


@case
def test_transpose(agree: Any, draw: Any) -> None:
    a = draw(SHAPES)
    axes = draw(st.none() | st.permutations(range(len(a))).map(tuple))
    agree("transpose", [f32(a)], lambda: one(np.transpose(f32(a), axes or None).shape), axes=axes)


@case
def test_concatenate_and_stack(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    k = axis(draw, len(a))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        b = list(a)
        if draw(st.booleans()):
            b[k] = draw(SIZES)
        parts.append(f32(b))
    agree("concatenate", [parts], lambda: one(np.concatenate(parts, k).shape), axis=k)
    agree("stack", [parts], lambda: one(np.stack(parts, k).shape), axis=k)


@case
def test_split(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    k = axis(draw, len(a))
    how = draw(st.integers(1, 4) | st.lists(st.integers(0, 6), max_size=3).map(lambda x: tuple(sorted(x))))
    agree("split", [f32(a)], lambda: [p.shape for p in np.split(f32(a), how, k)], indices_or_sections=how, axis=k)


@case
def test_tile_and_repeat(agree: Any, draw: Any) -> None:
    a, reps = draw(FULL_SHAPES), tuple(draw(st.lists(SIZES, max_size=4)))
    agree("tile", [f32(a)], lambda: one(np.tile(f32(a), reps).shape), reps=reps)
    agree("dyn.tile", [f32(a), ints(*reps)], lambda: one(np.tile(f32(a), reps).shape))
    k, n = draw(st.none() | st.integers(-len(a), len(a) - 1)), draw(SIZES)
    agree("repeat", [f32(a)], lambda: one(np.repeat(f32(a), n, k).shape), repeats=n, axis=k)
