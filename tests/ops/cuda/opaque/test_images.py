"""Transposed convolution, dilation, pooled regions, suppression by classes and transforms on the emulated GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.ops.native.status import BAD_VALUE, INDEX_OUT_OF_RANGE
from relayvm.shape_funcs.defs.convolution.conv import data_layouts
from relayvm.shape_funcs.defs.convolution.conv_transpose import transposed_layouts
from relayvm.shape_funcs.defs.sampling.image import dilation_layouts

from ....emulator import emulator
from ...images import test_class_suppression as classes
from ...images import test_conv_transpose as transposed
from ...images import test_dilation as dilation
from ...images import test_roi as regions
from ...opaque import test_transforms as transforms
from ..on_gpu import Ran, run
from .test_boxes import choose_by

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)


def on_gpu(name: str, inputs: list[Any], jit: bool = False, **attributes: Any) -> Ran:
    return run(name, inputs, **attributes)


@pytest.fixture(autouse=True)
def oracles_look_at_the_gpu() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (classes, transposed, dilation, regions, transforms):
            patch.setattr(module, "run", on_gpu)
        yield


@pytest.mark.parametrize(("rank", "layout", "out_layout"), [(1, 1, 0), (2, 0, 1), (2, 1, 1), (3, 0, 0)])
def test_transposed_convolution(rank: int, layout: int, out_layout: int) -> None:
    rng = np.random.default_rng(rank)
    attrs = {"strides": 2, "padding": (1,) * rank + (0,) * rank, "output_padding": 1, "dilation": 2, "groups": 2}
    layouts = data_layouts(rank)
    names = {"data_layout": layouts[layout], "out_layout": layouts[out_layout], "kernel_layout": transposed_layouts(rank)[layout]}
    for batch, inputs, outputs, size in [(2, 4, 3, 5), (1, 2, 1, 1), (0, 2, 2, 3), (1, 0, 2, 3), (1, 2, 0, 3)]:
        data = rng.standard_normal((batch, inputs, *(size,) * rank)).astype(np.float32)
        weight = rng.standard_normal((inputs, outputs, *(3,) * rank)).astype(np.float32)
        transposed.check(data, weight, **attrs, **names)


@pytest.mark.parametrize(("dtype", "layout"), [("float32", 0), ("bfloat16", 1), ("float64", 1)])
def test_dilation(dtype: str, layout: int) -> None:
    rng = np.random.default_rng(2)
    names = {"data_layout": data_layouts(2)[layout], "kernel_layout": dilation_layouts()[1 - layout]}
    for shape in [(2, 3, 9, 12), (1, 1, 2, 2), (0, 2, 3, 3)]:
        data, weight = (rng.integers(-9, 9, s).astype(numpy_dtype(dtype)) for s in (shape, (shape[1], 2, 3)))
        dilation.check(data, weight, padding=(1, 2, 3, 0), strides=2, dilations=(2, 1), **names)


@pytest.mark.parametrize("last", [False, True])
def test_pooled_regions(last: bool) -> None:
    rng = np.random.default_rng(3)
    for shape, count in [((2, 3, 12, 9), 9), ((1, 1, 1, 1), 2), ((1, 2, 5, 5), 0), ((1, 0, 5, 5), 2)]:
        data = rng.standard_normal(shape).astype(np.float32)
        regions.check_pooled(data, regions.regions(rng, count, shape[0], "float32"), last, (3, 2), 0.5)


def test_regions_that_are_not_pooled() -> None:
    data = np.ones((1, 1, 4, 4), np.float32)
    for region, status in [((1, 0, 0, 1, 1), INDEX_OUT_OF_RANGE), ((0, np.nan, 0, 1, 1), BAD_VALUE)]:
        assert run("vision.roi_pool", [data, np.array([region], np.float32)], pooled_size=2, spatial_scale=1.0).status == status


@pytest.mark.split(2)
@pytest.mark.parametrize(
    ("onnx", "dtype", "masks"),
    [
        (True, "float32", "all"),
        (True, "float32", "strips"),
        (True, "float32", "none"),
        (False, "float64", "strips"),
        (False, "bfloat16", "all"),
    ],
)
def test_suppression_of_each_class(onnx: bool, dtype: str, masks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_by(monkeypatch, masks)
    rng = np.random.default_rng(7)
    for batch, count, n, limit in [
        (2, 3, 150, 20),
        (1, 1, 1, -1),
        (1, 2, 0, 3),
        (0, 2, 5, 3),
        (2, 2, 40, 0),
        (1, 2, 70, -1),
        (2, 5, 9, -1),
        (1, 35, 3, -1),
    ]:
        boxes, scores = classes.boxes_of_images(rng, batch, count, n, dtype)
        classes.check_all(boxes, scores, limit, 0.4, 0.1, onnx)
        if dtype == "float64":
            classes.check_regular(boxes, scores, limit, 30, 0.4, 0.125)


@pytest.mark.parametrize("masks", ["all", "strips"])
@pytest.mark.parametrize("iou", [0.4, -0.5, np.nan])
def test_suppression_of_boxes_that_are_infinite_or_no_numbers(iou: float, masks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_by(monkeypatch, masks)
    classes.test_many_kept_boxes_some_of_them_infinite_or_no_numbers(iou, False)


@pytest.mark.parametrize(("dtype", "inverse"), [("float32", False), ("float64", True), ("float16", False)])
def test_fourier_transforms(dtype: str, inverse: bool) -> None:
    rng = np.random.default_rng(3)
    for shape in [(2, 64), (3, 17), (1, 1), (0, 4), (2, 0), (1, 300)]:
        real, imaginary = (rng.standard_normal(shape).astype(numpy_dtype(dtype)) for _ in range(2))
        transforms.check_dft(real, imaginary, inverse)
    for size, n, hop, length in [((2, 90), 32, 8, 20), ((30,), 12, 5, 12), ((1, 1), 1, 1, 1)]:
        data, window = (rng.integers(-9, 9, s).astype(numpy_dtype(dtype)) for s in (size, (length,)))
        transforms.check_stft(data, window, n, hop, onesided=inverse, normalized=inverse)
