"""Shapes of operators of detectors, with constant sizes and through the program of symbolic sizes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .against_numpy import SIZES, case, f32, one
from .test_networks import window_count, windows

#: A size is often that of another tensor, and sometimes one more.
ONE_MORE = st.sampled_from([0, 0, 0, 1])


@case
def test_anchors(agree: Any, draw: Any) -> None:
    batch, rows, columns, channels = (draw(SIZES) for _ in range(4))
    sizes, ratios = ((1.0,) * draw(st.integers(1, 3)) for _ in range(2))
    boxes = rows * columns * (len(sizes) + len(ratios) - 1)
    data = f32((batch, channels, rows, columns))
    agree("vision.multibox_prior", [data], lambda: one((1, boxes, 4)), sizes=sizes, ratios=ratios)


@case
def test_proposals(agree: Any, draw: Any) -> None:
    batch, rows, columns = (draw(SIZES) for _ in range(3))
    scales, ratios = ((1.0,) * draw(st.integers(1, 2)) for _ in range(2))
    anchors = len(scales) * len(ratios)
    more = [draw(ONE_MORE) for _ in range(5)]

    def oracle() -> Any:
        if any(more) or rows * columns == 0:
            raise ValueError
        return one((batch, rows * columns * anchors, 6))

    scores = f32((batch, 2 * anchors + more[0], rows, columns))
    offsets = f32((batch + more[1], 4 * anchors + more[2], rows + more[3], columns))
    agree("vision.rpn_boxes", [scores, offsets, f32((batch, 3 + more[4]))], oracle, scales=scales, ratios=ratios)


@case
def test_reorganisation(agree: Any, draw: Any) -> None:
    stride, batch = draw(st.integers(1, 2)), draw(SIZES)
    channels, rows, columns = (draw(SIZES) * parts + draw(ONE_MORE) for parts in (stride**2, stride, stride))

    def oracle() -> Any:
        if channels % stride**2 or rows % stride or columns % stride:
            raise ValueError
        return one((batch, channels * stride**2, rows // stride, columns // stride))

    agree("vision.yolo_reorg", [f32((batch, channels, rows, columns))], oracle, stride=stride)


@case
def test_deformable_windows(agree: Any, draw: Any) -> None:
    attrs, groups, batch = windows(draw, 2), draw(st.integers(1, 2)), draw(SIZES)
    kernel, spatial = ([draw(st.integers(1, 3)) for _ in range(2)] for _ in range(2))
    channels, masked, more = draw(SIZES) * groups + draw(ONE_MORE), draw(st.booleans()), draw(ONE_MORE)
    elements = kernel[0] * kernel[1]

    def positions() -> list[int]:
        padding = [attrs["padding"][k] + attrs["padding"][2 + k] for k in range(2)]
        each = zip(spatial, kernel, attrs["strides"], attrs["dilation"], padding, strict=True)
        return [window_count(*axis) for axis in each]

    def oracle() -> Any:
        if channels % groups or more:
            raise ValueError
        return one((batch, channels * elements, *positions()))

    try:
        found = positions()
    except ValueError:
        found = [1, 1]
    offset = f32((batch, 2 * groups * elements + more, *found))
    mask = f32((batch, groups * elements, *found) if masked else ())
    inputs = [f32((batch, channels, *spatial)), offset, mask]
    agree("nn.deformable_im2col", inputs, oracle, kernel_size=tuple(kernel), deformable_groups=groups, **attrs)


@case
def test_correlation(agree: Any, draw: Any) -> None:
    batch, channels, *space = (draw(SIZES) for _ in range(4))
    window, most = draw(st.sampled_from([1, 3])), draw(st.integers(0, 2))
    stride, step, padding, more = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(0, 3)), draw(ONE_MORE)
    each = len(range(-(most // step), most // step + 1))

    def oracle() -> Any:
        border = most + (window - 1) // 2
        inside = [size + 2 * padding - 2 * border for size in space]
        if more or min(inside) < 0:
            raise ValueError
        return one((batch, each * each, *(len(range(0, size, stride)) for size in inside), channels, window, window))

    images = [f32((batch, channels, *space)), f32((batch, channels + more, *space))]
    attrs = {"kernel_size": window, "max_displacement": most, "stride1": stride, "stride2": step, "padding": padding}
    agree("nn.displaced_products", images, oracle, layout="NCHW", **attrs)
