"""Every shape function against numpy's own result shapes: with known sizes, and through the program of unknown ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.shape_funcs.registry import SHAPE_FUNCS, ShapeError

SIZES = st.sampled_from([0, 1, 1, 2, 3, 5])
SHAPES = st.lists(SIZES, max_size=4).map(tuple)
FULL_SHAPES = st.lists(SIZES, min_size=1, max_size=4).map(tuple)


def f32(shape: Any) -> np.ndarray:
    return np.zeros(shape, np.float32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def scalar(value: Any, dtype: str = "int64") -> np.ndarray:
    return np.array(value, dtype)


def agree(shapes_of: Any, draw: Any, name: str, inputs: list[Any], oracle: Any, fixed: Any = (), **attrs: Any) -> None:
    """Known and unknown give what ``oracle()`` gives; where it raises, both refuse."""
    try:
        wanted = oracle()
    except (ValueError, IndexError, ZeroDivisionError):
        wanted = None
    s = shapes_of(name, inputs, **attrs)
    bits = draw(st.integers(0, 2**24 - 1))
    some = iter(range(10**9))
    runs = {
        "known": s.known,
        "unknown": lambda: s.unknown(fixed=fixed),
        "shared": lambda: s.unknown(shared=True, fixed=fixed),
        "mixed": lambda: s.unknown(lambda: bits >> (next(some) % 24) & 1, fixed=fixed),
    }
    for way, run in runs.items():
        if wanted is None:
            with pytest.raises(ShapeError):
                run()
        else:
            assert run() == wanted, f"{name}: {way}"


def case(test: Any) -> Any:
    """A property with ``draw`` and the fixture: each example is one case."""

    def run(shapes_of: Any) -> None:
        @settings(max_examples=60, deadline=None)
        @given(st.data())
        def example(data: Any) -> None:
            test(lambda *a, **k: agree(shapes_of, data.draw, *a, **k), data.draw)

        example()

    run.__name__ = test.__name__
    return run


def one(shape: Any) -> list[tuple[int, ...]]:
    return [tuple(map(int, shape))]


def near(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts with ``shape`` as a rule."""
    out = [draw(st.sampled_from([d, d, 1])) for d in shape[draw(st.integers(0, len(shape))) :]]
    if out and draw(st.integers(0, 9)) == 0:
        out[0] += 1
    return tuple(out)


def axis(draw: Any, rank: int) -> int:
    return draw(st.integers(-rank, rank - 1))


# ---- elementwise, broadcast, reduce --------------------------------------------------------------------------------


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
    agree("dyn.broadcast_to", [f32(a), i64(*target)], oracle)


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
        # numpy lets a scalar have an axis 0
        used = np.lib.array_utils.normalize_axis_tuple(axes, len(a)) if axes is not None else None
        given = tuple(k for k in range(len(a)) if k not in used) if exclude and used is not None else used
        return one(np.sum(f32(a), axis=given, keepdims=keepdims).shape)

    agree("reduce", [f32(a)], oracle, axis=axes, keepdims=keepdims, exclude=exclude)


# ---- reshape ---------------------------------------------------------------------------------------------------------


@case
def test_reshape_to_sizes(agree: Any, draw: Any) -> None:
    a = draw(SHAPES)
    b = draw(st.permutations(a).map(tuple) | st.just((int(np.prod(a)),)) | SHAPES)

    def oracle() -> Any:
        return one(f32(a).reshape(b).shape)

    agree("reshape", [f32(a)], oracle, newshape=b, allowzero=True)
    agree("reshape_like", [f32(a), f32(b)], oracle, lhs_begin=0, lhs_end=None, rhs_begin=0, rhs_end=None)
    agree("dyn.reshape", [f32(a), i64(*b)], oracle, allowzero=True)


@case
def test_reshape_infers_and_copies(agree: Any, draw: Any) -> None:
    """0 and -1 the same in the static and the run-time form, and what numpy gives where numpy decides."""
    a = draw(FULL_SHAPES)
    new = list(draw(st.permutations(a)))
    for k in range(len(new)):
        if a[k] == new[k] and draw(st.booleans()):
            new[k] = 0
        elif new[k] == 0:
            return  # a size of 0 cannot be named
    if draw(st.booleans()):
        new[draw(st.integers(0, len(new) - 1))] = -1

    def oracle() -> Any:
        sizes = [a[k] if v == 0 else v for k, v in enumerate(new)]
        if 0 in sizes and -1 in sizes:
            # numpy will not infer beside an empty axis; a copied axis does not count for us
            rest = np.prod([d for k, d in enumerate(a) if new[k] != 0], dtype=int)
            known = int(np.prod([v for v in new if v > 0], dtype=int))
            if rest % known:
                raise ValueError
            return one(rest // known if v == -1 else v for v in sizes)
        return one(f32(a).reshape(sizes).shape)

    agree("reshape", [f32(a)], oracle, newshape=tuple(new), allowzero=False)
    agree("dyn.reshape", [f32(a), i64(*new)], oracle, allowzero=False)


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
    agree("dyn.squeeze", [f32(a), i64(*axes)], oracle)


@case
def test_expand_dims(agree: Any, draw: Any) -> None:
    a, k, n = draw(SHAPES), draw(st.integers(-5, 4)), draw(st.integers(0, 3))

    def oracle() -> Any:
        first = np.lib.array_utils.normalize_axis_index(k, len(a) + 1)
        return one(a[:first] + (1,) * n + a[first:])

    agree("expand_dims", [f32(a)], oracle, axis=k, num_newaxis=n)
    agree("dyn.expand_dims", [f32(a), scalar(k)], oracle, num_newaxis=n)


# ---- transform -------------------------------------------------------------------------------------------------------


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
    agree("dyn.tile", [f32(a), i64(*reps)], lambda: one(np.tile(f32(a), reps).shape))
    k, n = draw(st.none() | st.integers(-len(a), len(a) - 1)), draw(SIZES)
    agree("repeat", [f32(a)], lambda: one(np.repeat(f32(a), n, k).shape), repeats=n, axis=k)


# ---- slices ----------------------------------------------------------------------------------------------------------

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
    agree("dyn.strided_slice", [f32(a), i64(*begin), i64(*end), i64(*strides)], oracle)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_every_slice_of_a_small_axis(shapes_of: Any, n: int) -> None:
    """All limits from -7 to 7 and all strides up to 3: the static form over an unknown size."""
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
    """Nothing overflows on the way."""
    wanted = [f32(5)[begin:end:stride].shape]
    attrs = {"begin": (begin,), "end": (end,), "strides": (stride,), "axes": None, "slice_mode": "end"}
    assert shapes_of("strided_slice", [f32(5)], **attrs).unknown() == wanted
    assert shapes_of("dyn.strided_slice", [f32(5), i64(begin), i64(end), i64(stride)]).unknown() == wanted


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
        agree("dyn.strided_slice", [f32(a), i64(begin), i64(size), i64(1)], oracle, slice_mode="size")


# ---- indexing --------------------------------------------------------------------------------------------------------


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
    m = draw(st.integers(1, len(a)))
    indices = np.zeros((m, *draw(SHAPES)), np.int64)

    def oracle() -> Any:
        return one(f32(a)[tuple(indices)].shape)

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


# ---- creation --------------------------------------------------------------------------------------------------------


@case
def test_filled(agree: Any, draw: Any) -> None:
    target = tuple(draw(st.lists(st.sampled_from([0, 1, 3, 5, -2]), max_size=3)))

    def oracle() -> Any:
        return one(f32(target).shape)

    agree("full", [f32(())], oracle, shape=target)
    agree("zeros", [], oracle, shape=target)
    agree("ones", [], oracle, shape=target)
    agree("dyn.full", [f32(()), i64(*target)], oracle)
    agree("dyn.zeros", [i64(*target)], oracle)
    agree("dyn.ones", [i64(*target)], oracle)


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


# ---- products, sorting, vision ---------------------------------------------------------------------------------------


@case
def test_products(agree: Any, draw: Any) -> None:
    batch, m, k, n = draw(SHAPES)[:2], draw(SIZES), draw(SIZES), draw(SIZES)
    other = draw(st.sampled_from([k, k, k + 1]))
    ta, tb = draw(st.booleans()), draw(st.booleans())

    def matrix(rows: int, columns: int, transposed: bool, leading: tuple[int, ...] = ()) -> np.ndarray:
        return f32((*leading, columns, rows) if transposed else (*leading, rows, columns))

    a, b = matrix(m, k, ta, batch), matrix(other, n, tb)
    plain = {"transpose_a": ta, "transpose_b": tb}
    agree("nn.matmul", [a, b], lambda: one((f32((*batch, m, k)) @ f32((other, n))).shape), **plain)
    agree("nn.dense", [f32((*batch, k)), f32((n, other))], lambda: one((f32((*batch, k)) @ f32((other, n))).shape))
    p, q = draw(SIZES), draw(SIZES)
    wanted = lambda: one((f32((p, m, k)) @ f32((q, other, n))).shape)  # noqa: E731
    agree("nn.batch_matmul", [matrix(m, k, ta, (p,)), matrix(other, n, tb, (q,))], wanted, **plain)


@case
def test_along_an_axis(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    k = draw(st.integers(-5, 4))

    def oracle() -> Any:
        np.lib.array_utils.normalize_axis_index(k, len(a))
        return one(a)

    for name in ("nn.softmax", "nn.log_softmax", "sort", "argsort", "cumsum"):
        agree(name, [f32(a)], oracle, axis=k)
    agree("cumsum", [f32(a)], lambda: one((np.prod(a, dtype=int),)), axis=None)


@case
def test_topk(agree: Any, draw: Any) -> None:
    a = draw(FULL_SHAPES)
    axis_, k = axis(draw, len(a)), draw(st.integers(-1, 6))
    ret_type = draw(st.sampled_from(["both", "values", "indices"]))

    def oracle() -> Any:
        if k > a[axis_]:
            raise ValueError
        out = list(a)
        out[axis_] = k if k >= 1 else a[axis_]
        return one(out) * (2 if ret_type == "both" else 1)

    agree("topk", [f32(a)], oracle, k=k, axis=axis_, ret_type=ret_type)
    agree("dyn.topk", [f32(a), scalar(k, "int32")], oracle, axis=axis_, ret_type=ret_type)


@case
def test_upper_bounds(agree: Any, draw: Any) -> None:
    a, counts = draw(SHAPES), draw(st.booleans())
    n = draw(SIZES)
    agree("argwhere", [f32(a)], lambda: one((np.prod(a, dtype=int), len(a))))
    bound = [(n,), (n,), (n,), (1,)] + [(n,)] * counts
    agree("unique", [f32((n,))], lambda: bound, is_sorted=True, return_counts=counts)


@case
def test_searchsorted(agree: Any, draw: Any) -> None:
    lead, n, m = tuple(draw(st.lists(SIZES, max_size=2))), draw(SIZES), draw(SIZES)
    agree("searchsorted", [f32((*lead, n)), f32((*lead, m))], lambda: one((*lead, m)))


@case
def test_vision(agree: Any, draw: Any) -> None:
    b, n, k = draw(SIZES), draw(SIZES), 6
    off = draw(st.sampled_from([0, 0, 2]))
    data, valid, indices = f32((b, n, k)), np.zeros(b + off, np.int32), np.zeros((b, n), np.int32)
    fields = {"score_index": 1, "id_index": draw(st.sampled_from([0, -1, 5]))}
    agree("vision.get_valid_counts", [data, f32(())], lambda: [(b,), (b, n, k), (b, n)], **fields)
    inputs = [data, valid, indices, scalar(1, "int32"), f32(())]

    def oracle(*shapes: Any) -> Any:
        if off:
            raise ValueError
        return list(shapes)

    agree("vision.non_max_suppression", inputs, lambda: oracle((b, n), (b, 1)), return_indices=True, coord_start=2, **fields)
    agree("vision.non_max_suppression", inputs, lambda: oracle((b, n, k)), return_indices=False, coord_start=2, **fields)


def places(n: int, window: int, stride: int, dilation: int, padding: int, ceil_mode: bool = False) -> int:
    """How many windows lie within the padded axis: by trying them all; ``ceil_mode`` lets one more begin."""
    span = (window - 1) * dilation + 1
    if not 0 < span <= n + padding:
        raise ValueError
    starts = [s for s in range(0, n + padding, stride) if s + span <= n + padding]
    return len(starts) + (ceil_mode and starts[-1] + span < n + padding)


def windows(draw: Any, rank: int) -> dict[str, Any]:
    values = {what: tuple(draw(st.integers(1, 3)) for _ in range(rank)) for what in ("strides", "dilation")}
    return {**values, "padding": tuple(draw(st.integers(0, 2)) for _ in range(2 * rank))}


@case
def test_convolution(agree: Any, draw: Any) -> None:
    name = draw(st.sampled_from(["nn.conv1d", "nn.conv2d", "nn.conv3d"]))
    rank, attrs = int(name[-2]), windows(draw, int(name[-2]))
    spatial, kernel = ([draw(SIZES) for _ in range(rank)] for _ in range(2))
    groups, inputs, outputs, batch = draw(st.sampled_from([1, 1, 2])), draw(SIZES), draw(SIZES), draw(SIZES)
    channels = inputs * groups + draw(st.sampled_from([0, 0, 1]))
    last, out_last = draw(st.booleans()), draw(st.booleans())
    letters = "DHW"[3 - rank :]
    layouts = (f"NC{letters}", f"N{letters}C")

    def arrange(channels: int, sizes: Any, last: bool, batch: int = batch) -> tuple[int, ...]:
        return (batch, *sizes, channels) if last else (batch, channels, *sizes)

    def oracle() -> Any:
        padding = [attrs["padding"][k] + attrs["padding"][rank + k] for k in range(rank)]
        if channels != inputs * groups or outputs % groups:
            raise ValueError
        each = zip(spatial, kernel, attrs["strides"], attrs["dilation"], padding, strict=True)
        return one(arrange(outputs, [places(*axis) for axis in each], out_last))

    weight, kernel_layout = draw(st.sampled_from([
        ((outputs, inputs, *kernel), f"OI{letters}"), ((*kernel, inputs, outputs), f"{letters}IO"),
        ((outputs, *kernel, inputs), f"O{letters}I"),
    ]))  # fmt: skip
    names = {"data_layout": layouts[last], "kernel_layout": kernel_layout, "out_layout": layouts[out_last]}
    own = {"channels": None, "kernel_size": None, "groups": groups, **names, **attrs}
    agree(name, [f32(arrange(channels, spatial, last)), f32(weight)], oracle, **own)


@case
def test_pooling(agree: Any, draw: Any) -> None:
    kinds = [
        ("nn.max_pool1d", "nn.avg_pool1d", "nn.adaptive_max_pool1d", "nn.adaptive_avg_pool1d"),
        ("nn.max_pool2d", "nn.avg_pool2d", "nn.adaptive_max_pool2d", "nn.adaptive_avg_pool2d"),
        ("nn.max_pool3d", "nn.avg_pool3d", "nn.adaptive_max_pool3d", "nn.adaptive_avg_pool3d"),
    ]
    names = draw(st.sampled_from(kinds))
    rank = int(names[0][-2])
    attrs, pool_size, ceil_mode = (
        windows(draw, rank),
        tuple(draw(st.integers(1, 3)) for _ in range(rank)),
        draw(st.booleans()),
    )
    batch, channels, *spatial = (draw(SIZES) for _ in range(rank + 2))
    layout = {"layout": f"N{'DHW'[3 - rank :]}C", "out_layout": f"NC{'DHW'[3 - rank :]}"}

    def oracle() -> Any:
        padding = [attrs["padding"][k] + attrs["padding"][rank + k] for k in range(rank)]
        each = zip(spatial, pool_size, attrs["strides"], attrs["dilation"], padding, strict=True)
        return one((batch, channels, *(places(*axis, ceil_mode) for axis in each)))

    data = f32((batch, *spatial, channels))
    for name in names[:2]:
        agree(name, [data], oracle, pool_size=pool_size, ceil_mode=ceil_mode, **layout, **attrs)
    for name in names[2:]:
        agree(name, [data], lambda: one((batch, channels, *pool_size)), output_size=pool_size, **layout)
        agree(name, [data], lambda: one((batch, channels, *spatial)), output_size=None, **layout)
    if rank == 2:
        for name in ("nn.global_max_pool2d", "nn.global_avg_pool2d"):
            agree(name, [data], lambda: one((batch, channels, 1, 1)), **layout)


@case
def test_regions(agree: Any, draw: Any) -> None:
    shape, count, other = tuple(draw(SIZES) for _ in range(4)), draw(SIZES), draw(st.sampled_from([0, 0, 1]))

    def oracle(*out: int) -> Any:
        if other:
            raise ValueError
        return one(out)

    rois, boxes = f32((count, 5 + other)), f32((count, 4))
    agree("vision.roi_align", [f32(shape), rois], lambda: oracle(count, shape[1], 2, 3), pooled_size=(2, 3), layout="NCHW")
    agree("vision.roi_align", [f32(shape), rois], lambda: oracle(count, 4, 4, shape[3]), pooled_size=4, layout="NHWC")
    inputs = [f32(shape), boxes, np.zeros(count + other, np.int32)]
    agree("image.crop_and_resize", inputs, lambda: oracle(count, 2, 3, shape[3]), crop_size=(2, 3), layout="NHWC")


def test_every_shape_function_is_held_against_numpy() -> None:
    """Every name that this layer registers is in the text of a test here, which names one only to hold it against numpy."""
    source = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    here = [name for name, func in SHAPE_FUNCS.items() if ".shape_funcs." in func.body.__module__]
    assert [name for name in here if f'"{name}"' not in source] == []
