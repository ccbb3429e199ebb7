"""Convolution, pooling and regions of pictures on the emulated GPU, against the oracles of the CPU's tests."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.ops.kernels.conv import cuda
from relayvm.ops.native.status import BAD_VALUE, EMPTY_REDUCTION, INDEX_OUT_OF_RANGE
from relayvm.shape_funcs.defs.convolution.conv import data_layouts, kernel_layouts

from ....emulator import emulator
from ...images import test_conv as convolutions
from ...images import test_pool as pools
from ...images import test_roi as regions
from ...opaque import opaque_kernels
from ..on_gpu import Ran, run, source_of, steps_of

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)


def on_gpu(name: str, inputs: list[Any], jit: bool = False, **attributes: Any) -> Ran:
    return run(name, inputs, **attributes)


@pytest.fixture(autouse=True)
def oracles_look_at_the_gpu() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        modules: tuple[ModuleType, ...] = (convolutions, pools, regions)
        for module in modules:
            patch.setattr(module, "run", on_gpu)
        yield


# ---- convolution ---------------------------------------------------------------------------------------------------

GEOMETRIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "moved": {"strides": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2)},
    "groups": {"groups": 2, "padding": 1},
    "depthwise": {"groups": 4, "strides": 2},
}


@pytest.mark.spread("kernel_layout")
@pytest.mark.parametrize("kernel_layout", kernel_layouts(2))
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_convolution_of_every_layout(geometry: str, kernel_layout: str) -> None:
    rng, attrs = np.random.default_rng(1), GEOMETRIES[geometry]
    groups = attrs.get("groups", 1)
    number = kernel_layouts(2).index(kernel_layout)
    names = {
        "kernel_layout": kernel_layout,
        "data_layout": data_layouts(2)[number % 2],
        "out_layout": data_layouts(2)[number // 2],
    }
    for batch, sizes, kernel, outputs in [
        (2, (9, 12), (3, 2), 20),
        (1, (3, 5), (1, 1), 8),
        (0, (5, 5), (2, 2), 16),
        (1, (4, 4), (3, 3), 4),
    ]:
        data = rng.standard_normal((batch, 4, *sizes)).astype(np.float32)
        weight = rng.standard_normal((outputs, 4 // groups, *kernel)).astype(np.float32)
        convolutions.check(data, weight, **attrs, **names)


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_convolution_over_other_axes(rank: int, dtype: str) -> None:
    rng = np.random.default_rng(rank)
    for inputs, outputs, size, kernel in [(3, 9, 6, 3), (0, 9, 2, 1), (2, 2, 4, 2), (70, 66, 3, 1)]:
        data = rng.standard_normal((2, inputs, *(size,) * rank)).astype(dtype)
        weight = rng.standard_normal((outputs, inputs, *(kernel,) * rank)).astype(dtype)
        convolutions.check(data, weight, padding=1, out_dtype="float64", tolerance=1e-4)


@pytest.mark.parametrize("layout", [0, 1])
def test_every_way_to_convolve_gives_the_same(layout: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    names = {"data_layout": data_layouts(2)[layout], "kernel_layout": kernel_layouts(2)[layout]}
    data, weight = rng.standard_normal((2, 3, 11, 13)), rng.standard_normal((70, 3, 3, 2))
    for columns, channels in ((cuda.COLUMN_BYTES, 8), (-1, 8), (-1, 1000)):  # by the library, in tiles, directly
        monkeypatch.setattr(cuda, "COLUMN_BYTES", columns)
        monkeypatch.setattr(cuda, "LEAST_CHANNELS", channels)
        convolutions.check(data, weight, padding=1, **names)


@pytest.mark.split(2)
@pytest.mark.parametrize("no_algorithm", [False, True])
@pytest.mark.parametrize("layout", [0, 1])
def test_columns_of_some_images_at_a_time_give_the_same(layout: int, no_algorithm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "run", functools.partial(on_gpu, no_algorithm=no_algorithm))
    rng = np.random.default_rng(2)
    names = {"data_layout": data_layouts(2)[layout], "kernel_layout": kernel_layouts(2)[layout]}
    for batch in (1, 2, 5, 7):
        data, weight = (rng.integers(-4, 5, shape).astype("f") for shape in ((batch, 3, 6, 5), (9, 3, 3, 2)))
        image = 4 * 3 * 3 * 2 * 6 * 6  # bytes of the columns of an image
        for images in (1, 2, 3):
            monkeypatch.setattr(cuda, "COLUMN_BYTES", images * image)
            convolutions.check(data, weight, padding=1, **names)


@pytest.mark.parametrize("outputs", [1, 2, 3, 7, 8, 9])
@pytest.mark.parametrize("groups", [1, 2])
def test_the_way_for_few_channels(groups: int, outputs: int) -> None:
    arrays = [np.empty((1, 2 * groups, 5, 5), np.float32), np.empty((outputs * groups, 2, 3, 3), np.float32)]
    steps = steps_of(source_of("nn.conv2d", arrays, static=True, groups=groups).steps)
    kernel = "convolve_directly" if outputs < 8 else "convolve_tiles"
    assert steps == ([kernel] if groups > 1 or outputs < 3 else ["gather", "cublasLtMatmul", "cublasGemmStridedBatchedEx"])


def test_columns_beyond_the_most_bytes_are_multiplied_in_turns() -> None:
    def steps(batch: int, size: int) -> list[str]:
        arrays = [np.broadcast_to(np.float32(0), shape) for shape in ((batch, 64, size, size), (64, 64, 3, 3))]
        return steps_of(source_of("nn.conv2d", arrays, static=True).steps)

    product = ["gather", "cublasLtMatmul", "cublasGemmStridedBatchedEx"]
    assert steps(4, 58) == product
    assert steps(400, 58) == ["turns", *product], "2.9 GB of columns"


@pytest.mark.extensive(dtype=("bfloat16",))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_added_up_in_float32(dtype: str) -> None:
    rng = np.random.default_rng(3)
    data, weight = (rng.integers(-4, 5, shape).astype(numpy_dtype(dtype)) for shape in ((1, 6, 5, 5), (9, 6, 3, 3)))
    expected = convolutions.convolution(data, weight, {})
    (result,), status, _ = run("nn.conv2d", [data, weight])
    assert status == 0
    np.testing.assert_array_equal(result, expected.astype(numpy_dtype(dtype)))
    np.testing.assert_array_equal(run("nn.conv2d", [data, weight], out_dtype="float32").outputs[0], expected)


def test_a_pointwise_convolution_gathers_nothing() -> None:
    def launches(*kernel: int) -> list[str]:
        steps = source_of(
            "nn.conv2d", [np.empty((1, 4, 5, 5), np.float32), np.empty((8, 4, *kernel), np.float32)], static=True
        ).steps
        return steps_of(steps)

    assert launches(1, 1) == ["cublasLtMatmul", "cublasGemmStridedBatchedEx"]
    assert launches(3, 3) == ["gather", "cublasLtMatmul", "cublasGemmStridedBatchedEx"]


# ---- pooling -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "out_last"), [(False, False), (True, True), (True, False)])
def test_pooling_by_windows(last: bool, out_last: bool) -> None:
    rng = np.random.default_rng(4)
    attrs = {"pool_size": (3, 2), "strides": (2, 3), "dilation": (1, 2), "padding": (1, 0, 2, 3), "ceil_mode": True}
    for shape in [(2, 3, 11, 12), (0, 2, 9, 9), (1, 1, 1, 1)]:
        data = pools.elements(rng, shape, "float32")
        case = {**attrs, "count_include_pad": last}
        pools.check("nn.max_pool2d", data, pools.pooled(data, "max", case), last, out_last, **attrs)
        pools.check("nn.avg_pool2d", data, pools.pooled(data, "avg", case), last, out_last, **case)
        for kind in ("max", "avg"):
            expected = pools.shared(data, kind, (3, 4))
            pools.check(f"nn.adaptive_{kind}_pool2d", data, expected, last, out_last, output_size=(3, 4))


@pytest.mark.parametrize(
    ("dtype", "last", "attrs"),
    [
        ("float32", False, {"pool_size": 3, "strides": 1, "padding": 1}),
        ("float32", True, {"pool_size": 3, "strides": 2, "padding": 1}),
        ("float16", True, {"pool_size": (2, 3), "strides": 2}),
        ("float32", False, {"pool_size": 9, "strides": 1, "padding": 4}),  # a window of too many elements to be in the text
    ],
)
def test_means_have_the_bits_of_a_division(dtype: str, last: bool, attrs: dict[str, Any]) -> None:
    """The same bits as on the CPU, which divides: packs of channels, rows of results, borders, infinite and no numbers."""
    rng = np.random.default_rng(6)
    data = rng.standard_normal((2, 9, 7, 16) if last else (2, 3, 9, 7)).astype(numpy_dtype(dtype)) * np.array(3, dtype)
    data.reshape(-1)[[5, 40, 90]] = np.inf, -np.inf, np.nan
    layout = data_layouts(2)[last]
    for kind in ("max", "avg"):
        with np.errstate(invalid="ignore"):
            wanted = opaque_kernels.run(f"nn.{kind}_pool2d", [data], layout=layout, **attrs).outputs[0]
        np.testing.assert_array_equal(run(f"nn.{kind}_pool2d", [data], layout=layout, **attrs).outputs[0], wanted)


@pytest.mark.extensive(dtype=("int8", "float16"))
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float64", "float16"])
def test_the_least_number_is_what_a_window_without_elements_has(dtype: str) -> None:
    data = np.arange(2).reshape(1, 1, 2).astype(numpy_dtype(dtype))
    (result,), _, _ = run("nn.max_pool1d", [data], strides=2, ceil_mode=True)
    assert result.tolist() == [[[0, -math.inf if "float" in dtype else np.iinfo(dtype).min]]]


@pytest.mark.parametrize("layout", data_layouts(2))
def test_global_pooling(layout: str) -> None:
    data = np.random.default_rng(5).standard_normal((2, 70, 9, 8) if layout == "NCHW" else (2, 9, 8, 70)).astype(np.float32)
    axes = (2, 3) if layout == "NCHW" else (1, 2)
    for kind, expected in (("max", data.max(axes, keepdims=True)), ("avg", data.mean(axes, keepdims=True, dtype=np.float64))):
        (result,), status, _ = run(f"nn.global_{kind}_pool2d", [data], layout=layout)
        assert status == 0
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-7)
    empty = np.zeros((2, 3, 0, 4), np.float32)
    assert run("nn.global_max_pool2d", [empty]).status == EMPTY_REDUCTION
    assert np.isnan(run("nn.global_avg_pool2d", [empty]).outputs[0]).all()
    assert run("nn.global_max_pool2d", [empty[:0]]).status == 0


# ---- regions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "mode", "ratio"), [(False, "avg", -1), (True, "max", 2), (False, "max", -1)])
@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_roi_align(last: bool, mode: str, ratio: int, dtype: str) -> None:
    rng = np.random.default_rng(6)
    attrs = {"pooled_size": (4, 3), "spatial_scale": 0.25, "sample_ratio": ratio, "mode": mode}
    for shape, count in [((2, 3, 12, 9), 12), ((1, 1, 1, 1), 3), ((1, 2, 5, 5), 0), ((1, 2, 0, 5), 2)]:
        rois = regions.regions(rng, count, shape[0], dtype)
        regions.check_aligned(rng.standard_normal(shape).astype(dtype), rois, last, **attrs)


def test_regions_that_no_network_should_give() -> None:
    data = np.ones((2, 1, 4, 4), np.float32)

    def status(*region: float) -> int:
        rois = np.array([[0, 0, 0, 2, 2], region], np.float32)
        return run("vision.roi_align", [data, rois], pooled_size=2, spatial_scale=1.0).status

    for batch in (2, -1, -0.5, 1e30, math.nan, math.inf):
        assert status(batch, 0, 0, 1, 1) == INDEX_OUT_OF_RANGE
    for corner in (math.nan, math.inf, 1e30):
        assert status(1, 0, corner, 1, 1) == BAD_VALUE
    assert status(1, *(-regions.FARTHEST,) * 2, *(regions.FARTHEST,) * 2) == 0


@pytest.mark.parametrize(("last", "method"), [(True, "bilinear"), (False, "nearest")])
def test_crop_and_resize(last: bool, method: str) -> None:
    rng = np.random.default_rng(7)
    for shape, count in [((2, 3, 9, 7), 6), ((1, 1, 1, 1), 2), ((1, 2, 5, 5), 0)]:
        data, indices = rng.standard_normal(shape).astype(np.float32), rng.integers(0, shape[0], count)
        regions.check_cropped(data, regions.boxes_of(rng, count), indices, last, crop_size=(5, 3), method=method)
    regions.check_cropped(data, regions.boxes_of(rng, 3), np.zeros(3, np.int32), last, crop_size=(1, 2), method=method)


def test_boxes_of_pictures_that_there_are_not_and_boxes_that_are_no_numbers() -> None:
    data = np.ones((2, 3, 3, 1), np.float32)
    for index in (2, -1):
        inputs = [data, np.zeros((2, 4), np.float32), np.array([0, index])]
        assert run("image.crop_and_resize", inputs, crop_size=2).status == INDEX_OUT_OF_RANGE
    for number in (math.nan, math.inf, 1e38):
        inputs = [data, np.array([[number, 0, number, 1]], np.float32), np.zeros(1, np.int64)]
        (result,), status, _ = run("image.crop_and_resize", inputs, crop_size=2, extrapolation_value=7.0)
        assert status == 0 and (result == 7).all()
