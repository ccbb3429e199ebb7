"""Shapes of operators on images and signals, with constant sizes and through the program of symbolic sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from relayvm.shape_funcs.defs.convolution.conv import data_layouts
from relayvm.shape_funcs.defs.convolution.conv_transpose import transposed_layouts

from ..arrays import ints
from .against_numpy import SIZES, case, f32, one, scalar

SOME = st.integers(0, 3)


def refuse(bad: Any) -> None:
    if bad:
        raise ValueError


def image(draw: Any, rank: int) -> tuple[list[int], tuple[int, ...], str]:
    """Batch, channels and spatial sizes; the shape in a layout; the layout."""
    sizes = [draw(SIZES) for _ in range(rank + 2)]
    layout = draw(st.sampled_from(data_layouts(rank)))
    return sizes, in_layout(sizes, layout), layout


def in_layout(sizes: list[int], layout: str) -> tuple[int, ...]:
    return tuple(sizes) if layout[1] == "C" else (sizes[0], *sizes[2:], sizes[1])


def resized(sizes: list[int], wanted: list[int], layout: str) -> list[tuple[int, ...]]:
    refuse(any(w < 0 or (n == 0 and w > 0) for n, w in zip(sizes[2:], wanted, strict=True)))
    return one(in_layout([*sizes[:2], *wanted], layout))


@case
def test_resize(agree: Any, draw: Any) -> None:
    name = draw(st.sampled_from(["image.resize1d", "image.resize2d", "image.resize3d"]))
    rank = int(name[-2])
    sizes, shape, layout = image(draw, rank)
    wanted = [draw(SOME) for _ in range(rank)]
    attrs = {"layout": layout, "scales": (), "coordinate_transformation_mode": "half_pixel", "size": tuple(wanted), "roi": None}
    agree(name, [f32(shape)], lambda: resized(sizes, wanted, layout), **attrs)


@case
def test_dynamic_resize(agree: Any, draw: Any) -> None:
    sizes, shape, layout = image(draw, 2)
    wanted, roi = [draw(st.integers(-1, 3)) for _ in range(2)], draw(st.sampled_from([4, 4, 0]))
    mode = draw(st.sampled_from(["half_pixel", "tf_crop_and_resize"]))

    def oracle() -> Any:
        refuse(mode == "tf_crop_and_resize" and roi != 4)
        return resized(sizes, wanted, layout)

    attrs = {"layout": layout, "scales": (), "coordinate_transformation_mode": mode}
    agree("dyn.image.resize2d", [f32(shape), ints(*wanted), f32(roi)], oracle, **attrs)


@case
def test_upsampling(agree: Any, draw: Any) -> None:
    name = draw(st.sampled_from(["nn.upsampling", "nn.upsampling3d", "dyn.nn.upsampling", "dyn.nn.upsampling3d"]))
    scales = ("scale_d", "scale_h", "scale_w") if name.endswith("3d") else ("scale_h", "scale_w")
    sizes, shape, layout = image(draw, len(scales))
    factors = [draw(st.sampled_from([1.0, 2.0, 0.5, 1.5, 0.6, 3.3, 1e-9])) for _ in scales]
    wanted = [math.floor(n * x + 0.5) for n, x in zip(sizes[2:], factors, strict=True)]
    given = dict(zip(scales, factors, strict=True))
    inputs = [f32(shape)] + [scalar(x, "float64") for x in factors] * name.startswith("dyn")
    agree(name, inputs, lambda: resized(sizes, wanted, layout), layout=layout, **given)


@case
def test_upsampling_by_integers(agree: Any, draw: Any) -> None:
    sizes, shape, layout = image(draw, 2)
    factors = [draw(st.integers(-1, 3)) for _ in range(2)]

    def oracle() -> Any:
        refuse(min(factors) < 1)
        return resized(sizes, [n * x for n, x in zip(sizes[2:], factors, strict=True)], layout)

    agree("dyn.nn.upsampling", [f32(shape), *map(scalar, factors)], oracle, layout=layout)


@case
def test_grids(agree: Any, draw: Any) -> None:
    rank = draw(st.sampled_from([2, 3]))
    target, batch = tuple(draw(SOME) for _ in range(rank)), draw(SIZES)
    rows, columns = rank + draw(st.sampled_from([0, 0, 1])), rank + draw(st.sampled_from([1, 1, 2]))

    def affine() -> Any:
        refuse(rows != rank or columns != rank + 1)
        return one((batch, rank, *target))

    agree("image.affine_grid", [f32((batch, rows, columns))], affine, target_shape=target)
    sizes = tuple(draw(SIZES) for _ in range(rank))
    other, numbers = draw(st.sampled_from([batch, batch, 7])), draw(st.sampled_from([rank, rank, rank + 1]))

    def sampled() -> Any:
        refuse(other != batch or numbers != rank or 0 in sizes)
        return one((batch, 3, *target))

    inputs = [f32((batch, 3, *sizes)), f32((other, numbers, *target))]
    agree("image.grid_sample", inputs, sampled, layout=data_layouts(rank)[0])


@case
def test_dilation(agree: Any, draw: Any) -> None:
    sizes, shape, layout = image(draw, 2)
    window, strides = [draw(SOME) for _ in range(2)], tuple(draw(st.integers(1, 3)) for _ in range(2))
    dilations, padding = tuple(draw(st.integers(1, 2)) for _ in range(2)), tuple(draw(SOME) for _ in range(4))
    channels = sizes[1] + draw(st.sampled_from([0, 0, 1]))

    def oracle() -> Any:
        refuse(channels != sizes[1] or 0 in window)
        out = []
        for k in range(2):
            span = sizes[2 + k] + padding[k] + padding[2 + k] - (window[k] - 1) * dilations[k] - 1
            refuse(span < -strides[k])
            out.append(span // strides[k] + 1)
        return one(in_layout([*sizes[:2], *out], layout))

    attrs = {"strides": strides, "padding": padding, "dilations": dilations, "data_layout": layout, "kernel_layout": "IHW"}
    agree("image.dilation2d", [f32(shape), f32((channels, *window))], oracle, **attrs)


@case
def test_transposed_convolution(agree: Any, draw: Any) -> None:
    name = draw(st.sampled_from(["nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"]))
    rank = int(name[7])
    sizes, shape, layout = image(draw, rank)
    window, more = [draw(SOME) for _ in range(rank)], tuple(draw(SOME) for _ in range(rank))
    strides, dilation = (tuple(draw(st.integers(1, 2)) for _ in range(rank)) for _ in range(2))
    padding, groups, made = tuple(draw(SOME) for _ in range(2 * rank)), draw(st.sampled_from([1, 1, 2])), draw(SOME)

    def oracle() -> Any:
        refuse(0 in window or sizes[1] % groups)
        out = []
        for k in range(rank):
            full = (sizes[2 + k] - 1) * strides[k] + (window[k] - 1) * dilation[k] + 1 + more[k]
            refuse(full < padding[k] + padding[rank + k])
            out.append(full - padding[k] - padding[rank + k])
        return one(in_layout([sizes[0], made * groups, *out], layout))

    attrs = {"strides": strides, "padding": padding, "dilation": dilation, "output_padding": more, "groups": groups}
    names = {"data_layout": layout, "kernel_layout": transposed_layouts(rank)[0], "out_layout": ""}
    inputs = [f32(shape), f32((sizes[1], made, *window))]
    agree(name, inputs, oracle, channels=None, kernel_size=None, **attrs, **names)


@case
def test_regions_and_boxes(agree: Any, draw: Any) -> None:
    batch, count, classes, k = (draw(SIZES) for _ in range(4))
    wrong = draw(st.sampled_from([0, 0, 1]))

    def checked(*shapes: tuple[int, ...]) -> Any:
        refuse(wrong)
        return list(shapes)

    pooled = [f32((batch, 3, 5, 5)), f32((k, 5 + wrong))]
    agree("vision.roi_pool", pooled, lambda: checked((k, 3, 2, 4)), pooled_size=(2, 4), layout="NCHW")
    scalars = [scalar(3), scalar(0.5, "float32"), f32(1)]
    boxes, scores = f32((batch, count, 4)), f32((batch, classes, count + wrong))
    rows, name = batch * classes * count, "vision.all_class_non_max_suppression"
    agree(name, [boxes, scores, *scalars], lambda: checked((rows, 3), (1,)), output_format="onnx")
    found = [(batch, classes * count, 2), (batch, classes * count), (batch,)]
    agree(name, [boxes, scores, *scalars], lambda: checked(*found), output_format="tensorflow")
    best = [(batch, 7, 4), (batch, 7), (batch, 7), (batch,)]
    given = [boxes, f32((batch, count, classes))]
    few = max(classes - 1, 0) if not wrong else classes + 1
    agree("vision.regular_non_max_suppression", given, lambda: checked(*best), max_detections=7, num_classes=few)


@case
def test_transforms(agree: Any, draw: Any) -> None:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    other = (*shape[:-1], shape[-1] + draw(st.sampled_from([0, 0, 1])))

    def parts() -> Any:
        refuse(other != shape)
        return [shape, shape]

    agree("dft", [f32(shape), f32(other)], parts)
    n, hop, size, batch = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(0, 20)), draw(SIZES)
    length = draw(st.integers(1, n))
    window = length + draw(st.sampled_from([0, 0, 1]))

    def frames() -> Any:
        refuse(window != length or n > size)
        return one((batch, n // 2 + 1, (size - n) // hop + 1, 2))

    attrs = {"n_fft": n, "hop_length": hop, "win_length": length, "onesided": True}
    agree("stft", [f32((batch, size)), np.zeros(window, np.float32)], frames, **attrs)
