"""Products, sorting, windows, boxes: shapes against numpy, or by enumeration if numpy has no such function."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..arrays import ints
from .against_numpy import FULL_SHAPES, SHAPES, SIZES, axis, case, f32, one, scalar


@case
def test_products(agree: Any, draw: Any) -> None:
    batch, m, k, n = draw(SHAPES)[:2], draw(SIZES), draw(SIZES), draw(SIZES)
    other = draw(st.sampled_from([k, k, k + 1]))
    ta, tb = draw(st.booleans()), draw(st.booleans())

    def matrix(rows: int, columns: int, transposed: bool, leading: tuple[int, ...] = ()) -> np.ndarray:
        return f32((*leading, columns, rows) if transposed else (*leading, rows, columns))

    a, b = matrix(m, k, ta, batch), matrix(other, n, tb)
    plain = {"transpose_a": ta, "transpose_b": tb}
    units = draw(st.sampled_from([None, None, n, n + 1]))

    def product(*rows: int) -> Any:
        if units == n + 1:
            raise ValueError
        return one((f32((*batch, *rows, k)) @ f32((other, n))).shape)

    agree("nn.matmul", [a, b], lambda: product(m), units=units, **plain)
    agree("nn.dense", [f32((*batch, k)), f32((n, other))], product, units=units)
    p, q = draw(SIZES), draw(SIZES)
    wanted = lambda: one((f32((p, m, k)) @ f32((q, other, n))).shape)  # noqa: E731
    agree("nn.batch_matmul", [matrix(m, k, ta, (p,)), matrix(other, n, tb, (q,))], wanted, **plain)
    reps = draw(SIZES), *(draw(st.sampled_from([1, 1, 1, 0, 2])) for _ in range(draw(st.sampled_from([2, 2, 1, 3]))))

    def tiled() -> Any:
        if reps[1:] != (1, 1):
            raise ValueError
        return one((f32((p, m, k)) @ np.tile(f32((q, other, n)), reps)).shape)

    inputs = [matrix(m, k, ta, (p,)), matrix(other, n, tb, (q,)), ints(*reps)]
    agree("nn.tiled_batch_matmul", inputs, tiled, **plain)


@case
def test_attention(agree: Any, draw: Any) -> None:
    m, n, batch, heads, width, columns = (draw(SIZES) for _ in range(6))
    shapes = [[m, batch, heads, width], [n, batch, heads, width], [n, batch, heads, columns], [batch, heads, m, n]]
    if draw(st.booleans()):
        shapes[draw(st.integers(0, 3))][draw(st.integers(0, 3))] += 1
    query, key, value, bias = map(f32, shapes)

    def oracle() -> Any:
        # einsum broadcasts an axis of 1, which attention does not
        sizes: dict[str, int] = {}
        for axes, shape in zip(("mbhd", "nbhd", "nbhe", "bhmn"), shapes, strict=True):
            for name, size in zip(axes, shape, strict=True):
                if sizes.setdefault(name, size) != size:
                    raise ValueError
        return one(np.einsum("mbhd,nbhd,nbhe,bhmn->mbhe", query, key, value, bias).shape)

    agree("nn.attention", [query, key, value, bias], oracle)


@case
def test_batch_attention(agree: Any, draw: Any) -> None:
    m, n, batch, heads, width, columns = (draw(SIZES) for _ in range(6))
    shapes = [[batch, m, heads, width], [batch, n, heads, width], [batch, n, heads, columns]]
    if draw(st.booleans()):
        shapes[draw(st.integers(0, 2))][draw(st.integers(0, 3))] += 1

    def oracle() -> Any:
        sizes: dict[str, int] = {}
        for axes, shape in zip(("bmhd", "bnhd", "bnhe"), shapes, strict=True):
            for name, size in zip(axes, shape, strict=True):
                if sizes.setdefault(name, size) != size:
                    raise ValueError
        return one(tuple(sizes[name] for name in "bmhe"))

    agree("nn.batch_attention", list(map(f32, shapes)), oracle)


@case
def test_grouped_attention(agree: Any, draw: Any) -> None:
    m, n, batch, shared, groups, width, columns = (draw(SIZES) for _ in range(7))
    heads = shared * groups
    shapes = [[batch, m, heads, width], [batch, n, shared, width], [batch, n, shared, columns], [batch, heads, m, n]]
    shapes[3] = [1 if draw(st.booleans()) else size for size in shapes[3]]
    if draw(st.booleans()):
        shapes[draw(st.integers(0, 3))][draw(st.integers(0, 3))] += 1

    def oracle() -> Any:
        query, key, value, bias = (np.empty(shape, "float32") for shape in shapes)
        if query.shape[2] != key.shape[2] and (not key.shape[2] or query.shape[2] % key.shape[2]):
            raise ValueError
        sizes: dict[str, int] = {}
        for axes, x in zip(("bm.d", "bngd", "bnge"), (query, key, value), strict=True):
            for name, size in zip(axes, x.shape, strict=True):
                if sizes.setdefault(name, size) != size and name != ".":
                    raise ValueError
        wanted = (sizes["b"], query.shape[2], sizes["m"], sizes["n"])
        np.broadcast_to(bias, wanted)
        return one((*query.shape[:3], sizes["e"]))

    agree("nn.grouped_attention", list(map(f32, shapes)), oracle)


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
    rows, off = draw(SIZES), draw(st.sampled_from([0, 0, 1]))

    def filled() -> Any:
        if off:
            raise ValueError
        return [(n + rows, 2), (n + rows,), (rows,)]

    agree("sparse_fill_empty_rows", [np.zeros((n, 2), np.int64), f32((n + off,)), np.array([rows, 3]), f32(())], filled)


@case
def test_searchsorted(agree: Any, draw: Any) -> None:
    lead, n, m = tuple(draw(st.lists(SIZES, max_size=2))), draw(SIZES), draw(SIZES)
    agree("searchsorted", [f32((*lead, n)), f32((*lead, m))], lambda: one((*lead, m)))


def window_count(n: int, window: int, stride: int, dilation: int, padding: int, ceil_mode: bool = False) -> int:
    """The number of windows along the padded axis; with ``ceil_mode`` the last one may be partial."""
    span = n + padding - (window - 1) * dilation - 1
    count = (-(-span // stride) if ceil_mode else span // stride) + 1
    if window < 1 or count < 0:
        raise ValueError
    return count


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
        return one(arrange(outputs, [window_count(*axis) for axis in each], out_last))

    weight, kernel_layout = draw(st.sampled_from([
        ((outputs, inputs, *kernel), f"OI{letters}"), ((*kernel, inputs, outputs), f"{letters}IO"),
        ((outputs, *kernel, inputs), f"O{letters}I"),
    ]))  # fmt: skip
    names = {"data_layout": layouts[last], "kernel_layout": kernel_layout, "out_layout": layouts[out_last]}
    own = {"channels": None, "kernel_size": None, "groups": groups, **names, **attrs}
    agree(name, [f32(arrange(channels, spatial, last)), f32(weight)], oracle, **own)


@case
def test_convolution_with_filters(agree: Any, draw: Any) -> None:
    batch, channels, outputs, size = (draw(SIZES) for _ in range(4))
    filters = (16, outputs, channels)
    wrong = draw(st.sampled_from([None, None, 0, 1, 2]))
    given = filters if wrong is None else tuple(n + (axis == wrong) for axis, n in enumerate(filters))

    def oracle() -> Any:
        if given != filters:
            raise ValueError
        return one((batch, outputs, *[window_count(size, 3, 1, 1, 2)] * 2))

    layouts = {"data_layout": "NCHW", "kernel_layout": "OIHW", "out_layout": ""}
    sizes = {"strides": 1, "dilation": 1, "padding": 1, "groups": 1, "channels": None, "kernel_size": None}
    inputs = [f32((batch, channels, size, size)), f32((outputs, channels, 3, 3)), f32(given)]
    agree("nn.winograd_conv2d", inputs, oracle, **layouts, **sizes)


@case
def test_expanded_convolution(agree: Any, draw: Any) -> None:
    batch, inputs, channels, size = (draw(SIZES) for _ in range(4))
    shapes = [[batch, inputs, size, size], [channels, inputs, 1, 1], [channels], [channels, 1, 3, 3]]
    wrong = draw(st.sampled_from([None, None, (0, 1), (1, 0), (1, 2), (2, 0), (3, 0), (3, 1), (3, 3)]))
    if wrong is not None:
        shapes[wrong[0]][wrong[1]] += 1

    def oracle() -> Any:
        if wrong is not None:
            raise ValueError
        return one((batch, channels, *[window_count(size, 3, 2, 1, 2)] * 2))

    own = {"strides": 2, "padding": 1, "dilation": 1, "a_min": 0.0, "a_max": 1.0}
    agree("nn.expanded_conv2d", list(map(f32, shapes)), oracle, channels=channels, **own)


@case
def test_convolution_of_bytes(agree: Any, draw: Any) -> None:
    batch, inner, each, size = (draw(SIZES) for _ in range(4))
    groups, window, form = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.sampled_from(["channels", "columns"]))
    outputs, rows = groups * each, 1 if each == 1 else 8
    steps = -(-inner // 4) * window * window if form == "channels" else inner * window * -(-window // 4)
    words = [groups, -(-each // rows), steps, rows]
    wrong = draw(st.sampled_from([None, None, 0, 1, 2, 3, "pad"]))
    if isinstance(wrong, int):
        words[wrong] += 1

    def oracle() -> Any:
        if wrong is not None:
            raise ValueError
        return one((batch, outputs, *[window_count(size, window, 2, 1, 2)] * 2))

    inputs = [np.zeros((batch, groups * inner, size, size), np.uint8), np.zeros(words, np.int32), np.zeros(outputs, np.int32)]
    inputs.append(np.zeros(2 if wrong == "pad" else 1, np.uint8))
    agree(
        "nn.byte_conv2d", inputs, oracle, kernel_size=(window, window), form=form, groups=groups, strides=2, padding=1, dilation=1
    )


@case
def test_weight_in_tiles(agree: Any, draw: Any) -> None:
    height, width, inputs, outputs = (draw(SIZES) for _ in range(4))
    rows, columns = draw(st.integers(0, 3)), draw(st.integers(1, 3))

    def tiles() -> Any:
        if rows < 1:
            raise ValueError
        counts = len(range(0, outputs, rows)), len(range(0, height * width * inputs, columns))
        return one((*counts, rows, columns))

    name = "nn.contrib_conv2d_gemm_weight_transform"
    agree(name, [f32((height, width, inputs, outputs))], tiles, tile_rows=rows, tile_cols=columns)


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
        return one((batch, channels, *(window_count(*axis, ceil_mode) for axis in each)))

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


@case
def test_gradients_of_pooling(agree: Any, draw: Any) -> None:
    attrs, window, ceil_mode = windows(draw, 2), [draw(st.integers(1, 3)) for _ in range(2)], draw(st.booleans())
    del attrs["dilation"]
    sizes, more = [draw(SIZES) for _ in range(4)], draw(st.sampled_from([0, 0, 1]))

    def pooled() -> list[int]:
        padding = [attrs["padding"][k] + attrs["padding"][2 + k] for k in range(2)]
        each = zip(sizes[2:], window, attrs["strides"], padding, strict=True)
        return [window_count(n, w, s, 1, p, ceil_mode) for n, w, s, p in each]

    def oracle() -> Any:
        if more:
            raise ValueError
        pooled()
        return one((*sizes, *(-(-w // s) for w, s in zip(window, attrs["strides"], strict=True))))

    try:
        found = pooled()
    except ValueError:
        found = [1, 1]
    data, gradient = f32(sizes), f32((*sizes[:2], found[0] + more, found[1]))
    own = {"pool_size": tuple(window), "ceil_mode": ceil_mode, **attrs}
    agree("nn.avg_pool2d_portions", [gradient, data], oracle, **own)
    agree("nn.max_pool2d_portions", [gradient, data, gradient], oracle, **own)


@case
def test_sparse_products(agree: Any, draw: Any) -> None:
    m, k, rows, stored = (draw(SIZES) for _ in range(4))
    block, more, empty = draw(st.sampled_from([None, (2, 3)])), draw(st.sampled_from([0, 0, 1])), draw(st.integers(0, 5)) == 0

    def oracle(*shape: int) -> Any:
        if more or empty:
            raise ValueError
        return one(shape)

    n = rows * (block or (1,))[0]
    starts = np.zeros(0 if empty else rows + 1, np.int32)
    inputs = [f32((m, k)), f32((stored, *(block or ()))), np.zeros(stored + more, np.int32), starts]
    agree("nn.sparse_dense", inputs, lambda: oracle(m, n), sparse_lhs=False)
    agree("nn.sparse_dense", inputs, lambda: oracle(n, m), sparse_lhs=True)


@case
def test_products_with_panels(agree: Any, draw: Any) -> None:
    rows, inner, units, width = (draw(SIZES) for _ in range(4))
    panels, more = draw(st.integers(0, 3)), draw(st.sampled_from([0, 0, 1]))

    def oracle() -> Any:
        if more or not (panels - 1) * width < units <= panels * width:
            raise ValueError
        return one((rows, units))

    agree("nn.dense_panels", [f32((rows, inner)), f32((panels, inner + more, width))], oracle, units=units)


@case
def test_products_with_panels_of_bits(agree: Any, draw: Any) -> None:
    rows, inner, units = (draw(SIZES) for _ in range(3))
    panels, blocks, more, less = (draw(st.integers(0, 2)) for _ in range(4))
    zeros = draw(st.sampled_from([(panels, blocks, 16), (1, 1, 16), (1, blocks, 16), (panels, blocks, 15)]))

    def oracle() -> Any:
        fits = (panels - 1) * 16 < units <= panels * 16 and (blocks - 1) * 16 < inner <= blocks * 16
        if more or less == 2 or not fits or zeros not in ((panels, blocks, 16), (1, 1, 16)):
            raise ValueError
        return one((rows, units))

    weight, scales = np.zeros((panels, blocks, 128 + more), np.uint8), f32((panels, blocks + less // 2, 16))
    agree(
        "nn.dense_bit_panels",
        [f32((rows, inner)), weight, scales, np.zeros(zeros, np.uint8)],
        oracle,
        units=units,
        bits=4,
        block=16,
    )


@case
def test_products_with_panels_of_bytes(agree: Any, draw: Any) -> None:
    rows, inner, units = (draw(SIZES) for _ in range(3))
    panels, steps = draw(st.integers(0, 3)), draw(st.integers(0, 3))

    def oracle() -> Any:
        if panels != -(-units // 16) or steps != -(-inner // 4):
            raise ValueError
        return one((rows, units))

    inputs = [np.zeros((rows, inner), np.uint8), np.zeros((panels, steps, 16, 4), np.int8), np.zeros(units, np.int32)]
    agree("nn.dense_byte_panels", inputs, oracle)
