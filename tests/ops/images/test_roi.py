"""Regions of a picture against plain numpy, and numbers in them that no network should give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType
from relayvm.ops.core.type_relation import relate
from relayvm.ops.kernels.roi import cpu
from relayvm.ops.kernels.roi.cpu import FARTHEST
from relayvm.ops.native.status import BAD_VALUE, INDEX_OUT_OF_RANGE, OUT_OF_MEMORY

from ..opaque.opaque_kernels import run
from ..refusals import INTEGER


def between(plane: np.ndarray, y: float, x: float) -> float:
    """Bilinear interpolation of (channels, rows, columns) at a place inside."""
    y0, x0 = math.floor(y), math.floor(x)
    y1, x1 = min(y0 + 1, plane.shape[1] - 1), min(x0 + 1, plane.shape[2] - 1)
    fy, fx = y - y0, x - x0
    upper = (1 - fx) * plane[:, y0, x0] + fx * plane[:, y0, x1]
    return (1 - fy) * upper + fy * ((1 - fx) * plane[:, y1, x0] + fx * plane[:, y1, x1])


def sample(plane: np.ndarray, y: float, x: float) -> Any:
    height, width = plane.shape[1:]
    if y < -1 or y > height or x < -1 or x > width or not height * width:
        return np.zeros(len(plane))
    return between(plane, min(max(y, 0), height - 1), min(max(x, 0), width - 1))


def aligned(data: np.ndarray, rois: np.ndarray, pooled: tuple[int, int], scale: float, ratio: int, mode: str) -> np.ndarray:
    """By the definition, in float64: channels first."""
    wide = data.astype(np.float64)
    out = np.zeros((len(rois), data.shape[1], *pooled))
    for k, (batch, x1, y1, x2, y2) in enumerate(rois.astype(np.float64)):
        sizes = [max((b - a) * scale, 1.0) / n for a, b, n in zip((y1, x1), (y2, x2), pooled, strict=True)]
        counts = [ratio if ratio > 0 else math.ceil(s) for s in sizes]
        for bin_ in np.ndindex(*pooled):
            positions = [
                [start * scale + i * size + (j + 0.5) * size / n for j in range(n)]
                for start, i, size, n in zip((y1, x1), bin_, sizes, counts, strict=True)
            ]
            values = np.array([sample(wide[int(batch)], y, x) for y in positions[0] for x in positions[1]])
            out[(k, slice(None), *bin_)] = values.max(axis=0) if mode == "max" else values.mean(axis=0)
    return out


def check_aligned(data: np.ndarray, rois: np.ndarray, last: bool, jit: bool = False, **attrs: Any) -> None:
    given_data = np.moveaxis(data, 1, -1) if last else data
    layout = "NHWC" if last else "NCHW"
    (result,), status, _ = run("vision.roi_align", [given_data, rois], jit=jit, layout=layout, **attrs)
    assert status == 0 and result.dtype == data.dtype
    named = (attrs["pooled_size"], attrs["spatial_scale"], attrs.get("sample_ratio", -1), attrs.get("mode", "avg"))
    expected = aligned(data, rois, *named)
    np.testing.assert_allclose(result, np.moveaxis(expected, 1, -1) if last else expected, rtol=1e-5, atol=1e-5)


def regions(rng: np.random.Generator, count: int, batches: int, dtype: str) -> np.ndarray:
    """Boxes of all kinds: inside, across the edge, outside, empty, with swapped corners."""
    corners = rng.uniform(-20, 40, (count, 4)).round(1)
    corners[rng.random((count, 4)) < 0.3] = 6
    return np.concatenate([rng.integers(0, batches, (count, 1)), corners], axis=1).astype(dtype)


@settings(max_examples=60)
@given(
    st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(0, 7), st.integers(1, 7)),
    st.integers(0, 3), st.integers(0, 10**6), st.sampled_from(["float32", "float64"]), st.booleans(),
    st.tuples(st.integers(1, 3), st.integers(1, 3)), st.sampled_from([-1, 0, 1, 2]), st.sampled_from([1, 0.5, 0.25]),
    st.sampled_from(["avg", "max"]),
)  # fmt: skip
def test_roi_align(shape: Any, count: int, seed: int, dtype: str, last: bool, pooled: Any, ratio: int, scale: float, mode: str):
    rng = np.random.default_rng(seed)
    data = rng.standard_normal(shape).astype(dtype)
    rois = regions(rng, count, shape[0], dtype)
    check_aligned(data, rois, last, pooled_size=pooled, spatial_scale=scale, sample_ratio=ratio, mode=mode)


@pytest.mark.parametrize(("last", "mode", "ratio"), [(False, "avg", -1), (True, "max", 2)])
def test_roi_align_as_machine_code(last: bool, mode: str, ratio: int) -> None:
    rng = np.random.default_rng(1)
    attrs = {"pooled_size": (7, 5), "spatial_scale": 0.25, "sample_ratio": ratio, "mode": mode}
    for shape, count in [((2, 3, 12, 9), 9), ((1, 1, 1, 1), 2), ((1, 2, 5, 5), 0)]:
        check_aligned(
            rng.standard_normal(shape).astype(np.float32), regions(rng, count, shape[0], "float32"), last, True, **attrs
        )


@pytest.mark.parametrize("jit", [False, True])
def test_few_samples_of_wide_regions(jit: bool) -> None:
    """Of a region that is wide for its samples only the columns of samples are read."""
    rng = np.random.default_rng(2)
    data, rois = rng.standard_normal((1, 2, 9, 150)).astype(np.float32), regions(rng, 12, 1, "float32")
    for ratio in (1, 2):
        check_aligned(data, rois, False, jit, pooled_size=(2, 3), spatial_scale=4.0, sample_ratio=ratio)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_elements_that_no_sample_reads_are_left_out(layout: str) -> None:
    """Columns between those of samples are in the same vectors, not in the same sums."""
    data = np.zeros((1, 1, 4, 40), np.float32)
    data[0, 0, :, 6], data[0, 0, :, 7], data[0, 0, :, 9] = np.inf, np.nan, 8
    rois = np.array([[0, 0, 0, 32, 3]], np.float32)  # samples in columns 4 and 5, 12 and 13, 20 and 21, 28 and 29
    given = np.moveaxis(data, 1, -1).copy() if layout == "NHWC" else data
    (result,), *_ = run(
        "vision.roi_align", [given, rois], jit=True, layout=layout, pooled_size=(1, 4), spatial_scale=1.0, sample_ratio=1
    )
    np.testing.assert_array_equal(result.reshape(-1), np.zeros(4))


@pytest.mark.parametrize("jit", [False, True])
def test_regions_that_no_network_should_give(jit: bool) -> None:
    data = np.ones((2, 1, 4, 4), np.float32)

    def status(*region: float) -> int:
        rois = np.array([[0, 0, 0, 2, 2], region], np.float32)
        return run("vision.roi_align", [data, rois], jit=jit, pooled_size=2, spatial_scale=1.0).status

    for batch in (2, -1, -0.5, 1e30, math.nan, math.inf):
        assert status(batch, 0, 0, 1, 1) == INDEX_OUT_OF_RANGE
    for corner in (math.nan, math.inf, -math.inf, 1e30, np.nextafter(np.float32(FARTHEST), np.float32(np.inf))):
        for place in range(4):
            corners = [0.0, 0.0, 1.0, 1.0]
            corners[place] = corner
            assert status(1, *corners) == BAD_VALUE
    assert status(1, -FARTHEST, -FARTHEST, FARTHEST, FARTHEST) == 0


def test_no_region_decides_how_long_a_loop_runs() -> None:
    """The box has 2**49 samples in each bin along each axis: only samples inside the picture are read."""
    data = np.ones((1, 1, 4, 4), np.float32)
    rois = np.array([[0, -FARTHEST / 2, 0, FARTHEST / 2, 4]], np.float32)
    (result,), status, _ = run("vision.roi_align", [data, rois], pooled_size=2, spatial_scale=1.0)
    assert status == 0 and result.shape == (1, 1, 2, 2) and (np.abs(result) < 1e-14).all() and (result > 0).all()


def test_no_memory_is_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "alloc", lambda nbytes: 0)
    inputs = [np.ones((1, 1, 4, 4), np.float32), np.zeros((1, 5), np.float32)]
    assert run("vision.roi_align", inputs, pooled_size=2, spatial_scale=1.0).status == OUT_OF_MEMORY


# ---- crops -----------------------------------------------------------------------------------------------------------


def cropped(data: np.ndarray, boxes: np.ndarray, indices: np.ndarray, size: tuple[int, int], method: str, outside: float) -> Any:
    """By the definition, channels first."""
    wide, boxes = data.astype(np.float64), boxes.astype(np.float64)
    out = np.full((len(boxes), data.shape[1], *size), outside, np.float64)
    limits = [n - 1 for n in data.shape[2:]]
    for k, y, x in np.ndindex(len(boxes), *size):
        positions = []
        for axis, (i, count) in enumerate(zip((y, x), size, strict=True)):
            low, high = boxes[k, axis], boxes[k, axis + 2]
            along = low + i * (high - low) / (count - 1) if count > 1 else (low + high) / 2
            positions.append(along * limits[axis])
        if all(0 <= p <= limit for p, limit in zip(positions, limits, strict=True)):
            plane = wide[indices[k]]
            nearest = [math.floor(p + 0.5) for p in positions]
            out[k, :, y, x] = plane[:, nearest[0], nearest[1]] if method == "nearest" else between(plane, *positions)
    return out


def check_cropped(data: np.ndarray, boxes: np.ndarray, indices: np.ndarray, last: bool, jit: bool = False, **attrs: Any) -> None:
    given_data = np.moveaxis(data, 1, -1) if last else data
    layout = {} if last else {"layout": "NCHW"}
    (result,), status, _ = run("image.crop_and_resize", [given_data, boxes, indices], jit=jit, **layout, **attrs)
    assert status == 0
    named = (attrs["crop_size"], attrs.get("method", "bilinear"), attrs.get("extrapolation_value", 0.0))
    expected = cropped(data, boxes, indices, *named)
    np.testing.assert_allclose(result, np.moveaxis(expected, 1, -1) if last else expected, rtol=1e-5, atol=1e-5)


def boxes_of(rng: np.random.Generator, count: int) -> np.ndarray:
    """Eighths, so that places are exact and the nearest element is not a matter of rounding."""
    return rng.integers(-2, 11, (count, 4)).astype(np.float32) / 8


@settings(max_examples=60)
@given(
    st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(0, 6), st.integers(1, 6)),
    st.integers(0, 3), st.integers(0, 10**6), st.sampled_from(["float32", "float64"]), st.booleans(),
    st.tuples(st.sampled_from([1, 2, 3, 5]), st.sampled_from([1, 2, 3, 5])), st.sampled_from(["bilinear", "nearest"]),
    st.sampled_from([0.0, -1.5]),
)  # fmt: skip
def test_crop_and_resize(shape: Any, count: int, seed: int, dtype: str, last: bool, size: Any, method: Any, outside: float):
    rng = np.random.default_rng(seed)
    data, indices = rng.standard_normal(shape).astype(dtype), rng.integers(0, shape[0], count).astype(np.int32)
    boxes = boxes_of(rng, count)
    check_cropped(data, boxes, indices, last, crop_size=size, method=method, extrapolation_value=outside)


@pytest.mark.parametrize(("last", "method"), [(True, "bilinear"), (False, "nearest")])
def test_crop_and_resize_as_machine_code(last: bool, method: str) -> None:
    rng = np.random.default_rng(2)
    for shape, count in [((2, 3, 9, 7), 6), ((1, 1, 1, 1), 2), ((1, 2, 5, 5), 0)]:
        data, indices = rng.standard_normal(shape).astype(np.float32), rng.integers(0, shape[0], count)
        check_cropped(data, boxes_of(rng, count), indices, last, True, crop_size=(5, 3), method=method)


@pytest.mark.parametrize("jit", [False, True])
def test_strange_boxes(jit: bool) -> None:
    data = np.ones((2, 3, 3, 1), np.float32)
    for index in (2, -1):
        inputs = [data, np.zeros((2, 4), np.float32), np.array([0, index])]
        assert run("image.crop_and_resize", inputs, jit=jit, crop_size=2).status == INDEX_OUT_OF_RANGE
    for number in (math.nan, math.inf, -math.inf, 1e38):
        boxes = np.array([[number, 0, number, 1]], np.float32)
        with np.errstate(invalid="ignore"):
            inputs = [data, boxes, np.zeros(1, np.int64)]
            (result,), status, _ = run("image.crop_and_resize", inputs, jit=jit, crop_size=2, extrapolation_value=7.0)
        assert status == 0 and (result == 7).all()


def test_a_wider_result() -> None:
    data = np.ones((1, 2, 2, 1), np.float32)
    (result,), _, _ = run("image.crop_and_resize", [data, np.zeros((1, 4), np.float32), np.zeros(1, np.int32)], crop_size=1,
                          out_dtype="float64")  # fmt: skip
    assert result.dtype == np.float64 and result.item() == 1


DATA = ((1, 2, 8, 8), "float32")
ALIGN = {"pooled_size": 2, "spatial_scale": 1.0}


@pytest.mark.parametrize(
    ("name", "types", "attrs", "message"),
    [
        ("vision.roi_align", [DATA, ((3, 4), "float32")], ALIGN,
         "a region must have 5 numbers (batch index, x1, y1, x2, y2), not 4"),
        ("vision.roi_align", [DATA, ((3, 5), "float64")], ALIGN, "data is float32 but rois is float64; they must have one dtype"),
        ("vision.roi_align", [DATA, ((3, 5), "float32")], {**ALIGN, "pooled_size": 0}, "pooled_size must be at least 1, not 0"),
        ("vision.roi_align", [DATA, ((3, 5), "float32")], {**ALIGN, "layout": "CHW"}, "layout must be 'NCHW' or 'NHWC', not"),
        ("vision.roi_align", [DATA, ((3, 5), "float32")], {**ALIGN, "mode": "min"}, "attribute mode must be 'avg' or 'max', not"),
        ("vision.roi_align", [DATA, ((3, 5), "float32")], {**ALIGN, "sample_ratio": 2000}, "sample_ratio must be at most 1024"),
        ("vision.roi_align", [DATA, ((3, 5), "float32")], {**ALIGN, "spatial_scale": math.inf}, "spatial_scale must be finite"),
        ("image.crop_and_resize", [DATA, ((3, 5), "float32"), ((3,), "int32")], {"crop_size": 2},
         "a box must have 4 numbers (y1, x1, y2, x2), not 5"),
        ("image.crop_and_resize", [DATA, ((3, 4), "float32"), ((2,), "int32")], {"crop_size": 2},
         "there are 3 boxes, but box_indices has 2"),
        ("image.crop_and_resize", [DATA, ((3, 4), "float32"), ((3,), "float32")], {"crop_size": 2},
         f"box_indices is float32; {INTEGER}"),
        ("image.crop_and_resize", [DATA, ((3, 4), "float32"), ((3,), "int32")], {"crop_size": (1, 2, 3)},
         "crop_size must have 1 or 2 numbers, not 3"),
        ("image.crop_and_resize", [DATA, ((3, 4), "float32"), ((3,), "int32")], {"crop_size": 2, "extrapolation_value": math.nan},
         "extrapolation_value must be finite, not nan"),
    ],
)  # fmt: skip
def test_what_is_refused(name: str, types: list[Any], attrs: dict[str, Any], message: str) -> None:
    op = get(name)
    with pytest.raises(TypeRelError) as refused:
        relate(op, [TensorType.of(*t) for t in types], op.attrs(**attrs))
    assert refused.value.message.startswith(f"{name}: {message}")


# ---- whole elements ----------------------------------------------------------------------------------------------------


def whole(x: float) -> int:
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


def region_pooled(data: np.ndarray, rois: np.ndarray, sizes: tuple[int, int], scale: float) -> np.ndarray:
    """By the definition: channels first."""
    out = np.zeros((len(rois), data.shape[1], *sizes), data.dtype)
    for k, (batch, x1, y1, x2, y2) in enumerate(rois.astype(np.float64)):
        starts = [whole(y1 * scale), whole(x1 * scale)]
        lengths = [max(whole(y2 * scale) - starts[0] + 1, 1), max(whole(x2 * scale) - starts[1] + 1, 1)]
        for at in np.ndindex(*sizes):
            ends = [
                [min(max(start + edge, 0), size) for edge in (i * n // p, -(-(i + 1) * n // p))]
                for start, n, i, p, size in zip(starts, lengths, at, sizes, data.shape[2:], strict=True)
            ]
            part = data[int(batch)][(slice(None), *(slice(*e) for e in ends))]
            if math.prod(part.shape[1:]):
                out[(k, slice(None), *at)] = part.max((1, 2))
    return out


def check_pooled(data: np.ndarray, rois: np.ndarray, last: bool, sizes: tuple[int, int], scale: float, jit: bool = False) -> None:
    given_data, layout = (np.moveaxis(data, 1, -1), "NHWC") if last else (data, "NCHW")
    (result,), status, _ = run(
        "vision.roi_pool", [given_data, rois], jit=jit, layout=layout, pooled_size=sizes, spatial_scale=scale
    )
    expected = region_pooled(data, rois, sizes, scale)
    assert status == 0 and result.dtype == data.dtype
    np.testing.assert_array_equal(result, np.moveaxis(expected, 1, -1) if last else expected)


@settings(max_examples=50)
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 7), st.integers(1, 7)), st.integers(0, 3),
    st.integers(0, 10**6), st.booleans(), st.tuples(st.integers(1, 3), st.integers(1, 3)), st.sampled_from([1, 0.5, 0.25]),
)  # fmt: skip
def test_roi_pool(shape: Any, count: int, seed: int, last: bool, sizes: Any, scale: float) -> None:
    rng = np.random.default_rng(seed)
    data = rng.standard_normal(shape).astype(np.float32)
    data[rng.random(shape) < 0.02] = np.nan
    check_pooled(data, regions(rng, count, shape[0], "float32"), last, sizes, scale)


@pytest.mark.parametrize("last", [False, True])
def test_roi_pool_as_machine_code(last: bool) -> None:
    rng = np.random.default_rng(3)
    for shape, count in [((2, 3, 12, 9), 9), ((1, 1, 1, 1), 2), ((1, 2, 5, 5), 0), ((1, 0, 5, 5), 2)]:
        data = rng.standard_normal(shape).astype(np.float32)
        check_pooled(data, regions(rng, count, shape[0], "float32"), last, (3, 2), 0.5, jit=True)


def test_regions_that_are_not_pooled() -> None:
    data = np.ones((1, 1, 4, 4), np.float32)
    for region, status in [
        ((1, 0, 0, 1, 1), INDEX_OUT_OF_RANGE),
        ((0, math.nan, 0, 1, 1), BAD_VALUE),
        ((0, 0, 0, 1e30, 1), BAD_VALUE),
    ]:
        rois = np.array([region], np.float32)
        assert run("vision.roi_pool", [data, rois], pooled_size=2, spatial_scale=1.0).status == status
    far = np.array([[0, -FARTHEST, 0, FARTHEST, 3]], np.float32)
    assert run("vision.roi_pool", [data, far], pooled_size=1, spatial_scale=1.0).outputs[0].tolist() == [[[[1.0]]]]
