"""Padding, cropping, layout transformation, scatter: shapes against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..arrays import ints
from .against_numpy import FULL_SHAPES, SHAPES, SIZES, axis, case, f32, one, scalar


@case
def test_random_words(agree: Any, draw: Any) -> None:
    shape, words = draw(SHAPES), draw(st.sampled_from([10, 10, 9]))
    key = np.zeros(words, np.uint64)

    def drawn(*results: Any) -> Any:
        if words != 10:
            raise ValueError
        return [(10,), *results]

    agree("random.threefry_generate", [key], lambda: drawn(shape), shape=shape)
    agree("random.threefry_split", [key], lambda: drawn((10,)))
    agree("random.threefry_rows", [key, f32((*shape, 3))], lambda: drawn((*shape, 4)), count=4)


@case
def test_pad(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    least = draw(st.sampled_from([0, 0, 0, -3]))
    width = tuple((draw(st.integers(least, 3)), draw(st.integers(least, 3))) for _ in a)
    mode = draw(st.sampled_from(["constant", "edge", "reflect"]))

    def padded(numpys: str, reach: int | None) -> Any:
        if any(w < 0 or (reach is not None and w > max(0, n - reach)) for n, pair in zip(a, width, strict=True) for w in pair):
            raise ValueError
        return one(np.pad(f32(a), width, numpys).shape)

    def oracle() -> Any:
        if mode != "constant":
            return padded(mode, 1 if mode == "reflect" else None)
        if any(n + min(before, after, before + after) < 0 for n, (before, after) in zip(a, width, strict=True)):
            raise ValueError
        return one([n + sum(pair) for n, pair in zip(a, width, strict=True)])

    agree("nn.pad", [f32(a), f32(())], oracle, pad_width=width, pad_mode=mode)
    agree("dyn.nn.pad", [f32(a), np.array(width), f32(())], oracle, pad_mode=mode)
    agree("nn.mirror_pad", [f32(a)], lambda: padded("constant", 0), pad_width=width, mode="SYMMETRIC")
    agree("nn.mirror_pad", [f32(a)], lambda: padded("constant", 1), pad_width=width, mode="REFLECT")


@case
def test_dilate(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    strides = tuple(draw(st.integers(1, 3)) for _ in a)
    agree("nn.dilate", [f32(a)], lambda: one(max(0, (n - 1) * s + 1) for n, s in zip(a, strides, strict=True)), strides=strides)


@case
def test_reverse_and_sequences(agree: Any, draw: Any) -> None:
    a = (draw(SIZES), *draw(FULL_SHAPES))
    k = axis(draw, len(a))
    agree("reverse", [f32(a)], lambda: one(a), axis=k)
    n = draw(st.sampled_from([a[0], a[0], 4]))

    def oracle() -> Any:
        if n != a[0]:
            raise ValueError
        return one(a)

    agree("reverse_sequence", [f32(a), np.zeros(n, np.int64)], oracle, seq_axis=1, batch_axis=-len(a))
    agree("sequence_mask", [f32(a), np.zeros(n, np.int64)], oracle, axis=1)


@case
def test_slice_like(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    like = tuple(draw(st.integers(0, n + (draw(st.integers(0, 9)) == 0))) for n in a)
    axes = draw(st.none() | st.just((0, -1)) if len(a) > 1 else st.none())

    def oracle() -> Any:
        out = [m if axes is None or k in (0, len(a) - 1) else n for k, (n, m) in enumerate(zip(a, like, strict=True))]
        if any(m > n for n, m in zip(a, out, strict=True)):
            raise ValueError
        return one(out)

    agree("slice_like", [f32(a), f32(like)], oracle, axes=axes)


@case
def test_meshgrid(agree: Any, draw: Any) -> None:
    fields = [f32(draw(SIZES)) if draw(st.booleans()) else f32(()) for _ in range(draw(st.integers(1, 3)))]
    indexing = draw(st.sampled_from(["ij", "xy"]))
    agree("meshgrid", [fields], lambda: [x.shape for x in np.meshgrid(*fields, indexing=indexing)], indexing=indexing)


@case
def test_sliding_window(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    k = draw(st.integers(0, len(a) - 1))
    window, strides = (tuple(draw(st.integers(1, 3)) for _ in a[k:]) for _ in range(2))

    def oracle() -> Any:
        view = np.lib.stride_tricks.sliding_window_view(f32(a), window, range(k, len(a)))
        return one(view[(slice(None),) * k + tuple(slice(None, None, s) for s in strides)].shape)

    agree("sliding_window", [f32(a)], oracle, axis=k - len(a), window_shape=window, strides=strides)


@case
def test_layouts(agree: Any, draw: Any) -> None:
    n, c = draw(SIZES), draw(st.integers(0, 8))

    def oracle() -> Any:
        if c % 2:
            raise ValueError
        return one((n, c // 2, 2))

    agree("layout_transform", [f32((n, c))], oracle, src_layout="NC", dst_layout="NC2c")
    agree("layout_transform", [f32((n, c, 2))], lambda: one((c * 2, n)), src_layout="NC2c", dst_layout="CN")

    def recut() -> Any:
        if c % 2:
            raise ValueError
        return one((n, c // 2, 8))

    agree("layout_transform", [f32((n, c, 4))], recut, src_layout="NC4c", dst_layout="NC8c")


@case
def test_blocks(agree: Any, draw: Any) -> None:
    n, c, h, w = (draw(st.integers(0, 6)) for _ in range(4))
    b = draw(st.integers(1, 2))

    def deep() -> Any:
        if c % (b * b):
            raise ValueError
        return one((n, c // (b * b), h * b, w * b))

    def flat() -> Any:
        if h % b or w % b:
            raise ValueError
        return one((n, h // b, w // b, c * b * b))

    agree("nn.depth_to_space", [f32((n, c, h, w))], deep, block_size=b, layout="NCHW")
    agree("nn.space_to_depth", [f32((n, h, w, c))], flat, block_size=b, layout="NHWC")
    pairs = tuple((draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(2))
    sums = [sum(p) for p in pairs]

    def batched() -> Any:
        if (h + sums[0]) % b or (w + sums[1]) % 3:
            raise ValueError
        return one((n * b * 3, (h + sums[0]) // b, (w + sums[1]) // 3, c))

    def unbatched() -> Any:
        if n % (b * 3) or h * b < sums[0] or w * 3 < sums[1]:
            raise ValueError
        return one((n // (b * 3), h * b - sums[0], w * 3 - sums[1], c))

    agree("nn.space_to_batch_nd", [f32((n, h, w, c))], batched, block_shape=(b, 3), paddings=pairs)
    agree("nn.batch_to_space_nd", [f32((n, h, w, c))], unbatched, block_shape=(b, 3), crops=pairs)


@case
def test_matrices(agree: Any, draw: Any) -> None:
    *batch, m, n = a = (*draw(st.lists(SIZES, max_size=1)), draw(SIZES), draw(SIZES))
    agree("trilu", [f32(a), scalar(0)], lambda: one(a), upper=True)
    k1, more, off = draw(st.integers(-3, 3)), draw(st.integers(0, 2)), draw(st.sampled_from([0, 0, 1]))
    k2 = k1 + more
    longest = max(0, min(m + min(k2, 0), n - max(k1, 0)))

    def inside(k: int) -> bool:
        return k < n if k > 0 else k == 0 or -k < m

    def checked() -> Any:
        if off or not inside(k1) or not inside(k2):
            raise ValueError
        return one(a)

    diagonal = f32((*batch, *([more + 1] if more else []), longest + off))
    agree("matrix_set_diag", [f32(a), diagonal], checked, k1=k1, k2=k2)


@case
def test_scatter(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    k = axis(draw, len(a))
    b = [draw(st.integers(0, n + (draw(st.integers(0, 9)) == 0))) for n in a]
    b[k] = draw(SIZES)
    c = [n + (draw(st.integers(0, 9)) == 0) for n in b]

    def oracle() -> Any:
        if b != c or any(m > n for i, (n, m) in enumerate(zip(a, b, strict=True)) if i != k % len(a)):
            raise ValueError
        return one(a)

    agree("scatter_elements", [f32(a), np.zeros(b, np.int64), f32(c)], oracle, axis=k)
    m, many = draw(st.integers(0, len(a))), draw(st.lists(SIZES, max_size=2))
    updates = [*many, *a[m:]]
    wrong = draw(st.integers(0, 5)) == 0 and len(updates) > 0
    if wrong:
        updates[-1] += 1

    def tuples() -> Any:
        if wrong:
            raise ValueError
        return one(a)

    agree("scatter_nd", [f32(a), np.zeros((m, *many), np.int64), f32(updates)], tuples, fixed=((1, 0),))


@case
def test_points(agree: Any, draw: Any) -> None:
    shape, n, off = draw(FULL_SHAPES), draw(SIZES), draw(st.sampled_from([0, 0, 1]))

    def oracle() -> Any:
        if off:
            raise ValueError
        return one(shape)

    inputs = [np.zeros((n, len(shape)), np.int64), f32((n + off,)), f32(())]
    agree("sparse_to_dense", inputs, oracle, output_shape=shape)
    agree("dyn.sparse_to_dense", [*inputs, ints(*shape)], oracle)
    agree("invert_permutation", [np.zeros(n, np.int64)], lambda: one((n,)))


@case
def test_strided_set(agree: Any, draw: Any) -> None:
    a, n = draw(FULL_SHAPES), draw(st.integers(0, 1))
    v = (*(draw(SIZES) for _ in range(n)), *a[n:])
    vectors = [np.ones(n, np.int64)] * 3
    agree("strided_set", [f32(a), f32(v), *vectors], lambda: one(a), fixed=((2, 0), (3, 0), (4, 0)))


@case
def test_picking(agree: Any, draw: Any) -> None:
    a = tuple(max(1, n) for n in draw(FULL_SHAPES))
    n = draw(st.integers(1, len(a)))
    indices = [np.zeros(draw(st.lists(st.sampled_from([1, 1, 3]), max_size=2)), np.int64) for _ in range(n)]
    agree("adv_index", [[f32(a), *indices]], lambda: one(f32(a)[tuple(indices)].shape))
    b = draw(FULL_SHAPES)
    agree("unravel_index", [np.zeros(b, np.int64), ints(*a)], lambda: one((len(a), *b)), fixed=((1, 0),))
    agree("cumprod", [f32(b)], lambda: one(np.cumprod(f32(b)).shape), axis=None)


@case
def test_reshape_like_a_part(agree: Any, draw: Any) -> None:
    a, like = draw(FULL_SHAPES), draw(FULL_SHAPES)
    begin, first = draw(st.integers(0, len(a))), draw(st.integers(0, len(like)))
    end, last = draw(st.integers(begin, len(a))), draw(st.none() | st.integers(first, len(like)))

    def oracle() -> Any:
        return one(f32(a).reshape(a[:begin] + like[first:last] + a[end:]).shape)

    attrs = {"lhs_begin": begin, "lhs_end": end, "rhs_begin": first, "rhs_end": last}
    agree("reshape_like", [f32(a), f32(like)], oracle, **attrs)
