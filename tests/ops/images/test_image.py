"""Resizing, upsampling and grids against their definitions, and against ONNX's reference where it is installed."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.analysis.uses import reads
from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType, numpy_dtype
from relayvm.ops.core.type_relation import relate
from relayvm.shape_funcs.defs.convolution.conv import data_layouts
from relayvm.shape_funcs.symbolic.dim import sym
from relayvm.shape_funcs.symbolic.registry import ShapeError

from ..fused.run_group import call, compiled, evaluate, one_call, plain
from .images import affine, resized, sampled

pytestmark = pytest.mark.many

MODES = (
    "half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)  # fmt: skip
METHODS = ("nearest_neighbor", "linear", "cubic")


def near(result: np.ndarray, expected: np.ndarray, tolerance: float = 1e-5) -> None:
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


def check(data: np.ndarray, size: tuple[int, ...], last: bool = False, run: Any = plain, **attrs: Any) -> None:
    """Data with channels before space; with ``last`` it is given the other way round."""
    rank = len(size)
    op = get(f"image.resize{rank}d")
    given_data = np.moveaxis(data, 1, -1) if last else data
    result = call(op.name, [given_data], op.attrs(size=size, layout=data_layouts(rank)[last], **attrs), run=run)
    expected = resized(data, size, attrs)
    assert result.dtype == (attrs.get("out_dtype") or data.dtype)
    near(result, np.moveaxis(expected, 1, -1) if last else expected)


@st.composite
def resizings(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    sizes = [draw(st.integers(1, 5)) for _ in range(rank)]
    mode, rng = draw(st.sampled_from(MODES)), np.random.default_rng(draw(st.integers(0, 10**6)))
    case: dict[str, Any] = {
        "data": rng.standard_normal((draw(st.integers(0, 2)), draw(st.integers(0, 2)), *sizes)).astype(np.float64),
        "size": tuple(draw(st.integers(0, 7)) for _ in range(rank)),
        "last": draw(st.booleans()),
        "coordinate_transformation_mode": mode,
        "method": draw(st.sampled_from(METHODS if rank < 3 else METHODS[:2])),
        "cubic_exclude": draw(st.integers(0, 1)),
        "cubic_alpha": draw(st.sampled_from([-0.5, -0.75])),
    }
    if mode == "tf_crop_and_resize":
        case["roi"] = tuple(draw(st.sampled_from([-0.31, 0.0, 0.23, 0.81, 1.0, 1.37])) for _ in range(2 * rank))
        case["extrapolation_value"] = 3.5
        case["cubic_exclude"] = 0
    return case


@settings(max_examples=120)
@given(resizings())
def test_resize(case: dict[str, Any]) -> None:
    # to the nearest: places between two elements are tried below
    check(case.pop("data"), case.pop("size"), rounding_method="round_prefer_floor" if case["method"] != "cubic" else "", **case)


def test_the_last_position_of_a_region_is_inside() -> None:
    attrs = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.5}
    for method in METHODS[:2]:
        check(np.array([[[5.0, 6.0]]]), (4,), method=method, roi=(0.23, 0.0), **attrs)


@pytest.mark.parametrize("how", ["", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("mode", MODES[:6])
def test_which_element_is_the_nearest(how: str, mode: str) -> None:
    """At sizes where all places are exact, also those between two elements."""
    for n, m in itertools.product([1, 2, 4], [1, 2, 4, 8]):
        if mode != "align_corners" or (n - 1) % max(m - 1, 1) == 0:
            data = np.arange(n, dtype=np.int8).reshape(1, 1, n)
            attrs = {"rounding_method": how, "coordinate_transformation_mode": mode, "method": "nearest_neighbor"}
            check(data, (m,), **attrs)


@pytest.mark.parametrize("mode", ["half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric"])
def test_scales_that_are_no_quotients_of_sizes(mode: str) -> None:
    data = np.random.default_rng(2).standard_normal((1, 2, 5, 7))
    for method in METHODS[1:]:
        attrs = {"scales": (0.7, 1.9), "method": method, "coordinate_transformation_mode": mode}
        check(data, (math.floor(5 * 0.7), math.floor(7 * 1.9)), **attrs)


@pytest.mark.extensive(method=("linear", "nearest_neighbor"))
@pytest.mark.parametrize(("method", "dtype"), [("linear", "float32"), ("cubic", "float32"), ("nearest_neighbor", "bool")])
def test_resizing_as_machine_code(method: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    mode = {"coordinate_transformation_mode": "align_corners"} if dtype == "bool" else {}
    for shape, size in [((2, 3, 5, 4), (7, 3)), ((1, 1, 1, 1), (3, 2)), ((0, 1, 2, 2), (3, 3)), ((1, 2, 0, 3), (0, 4))]:
        check(rng.standard_normal(shape).astype(dtype), size, run=compiled, method=method, **mode)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8", "int64"])
def test_what_is_interpolated_rounds_once(dtype: str) -> None:
    data = np.random.default_rng(4).integers(0, 200, (1, 2, 3, 4)).astype(numpy_dtype(dtype))
    op = get("image.resize2d")
    result = call("image.resize2d", [data], op.attrs(size=(6, 8)))
    expected = resized(data, (6, 8), {})  # exact: all weights are quarters
    np.testing.assert_array_equal(result, expected.astype(result.dtype))
    wide = call("image.resize2d", [data], op.attrs(size=(6, 8), out_dtype="float32"))
    np.testing.assert_array_equal(wide, expected.astype(np.float32))


def test_a_region_that_is_no_number_reads_nothing_outside() -> None:
    op = get("dyn.image.resize2d")
    data = np.ones((1, 1, 3, 3), np.float32)
    for method, number in itertools.product(METHODS, (math.nan, math.inf, -math.inf, 3e38)):
        attrs = op.attrs(method=method, coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.0)
        roi = np.array([0, 0, number, number], np.float32)
        result = call(op.name, [data, np.array([2, 2]), roi], attrs)
        assert np.isin(result, [1, 7]).all() or np.isnan(result).any()


@pytest.mark.lengthy
@pytest.mark.parametrize("rank", [1, 2])
def test_as_onnx_resizes(rank: int) -> None:
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    names = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
    data = np.random.default_rng(5).standard_normal((1, 2, 4, 5)[: rank + 2]).astype(np.float32)
    roi = (0.1, 0.2, 0.7, 1.1)[rank % 2 :: 3 - rank]
    whole = np.array([0, 0, *roi[:rank], 1, 1, *roi[rank:]], np.float32)
    for method, mode, size in itertools.product(METHODS, MODES, [(7, 8), (2, 3)]):
        if mode == "tf_half_pixel_for_nn":
            continue  # no longer in ONNX
        attrs = {"coordinate_transformation_mode": mode, "extrapolation_value": 3.0}
        node = helper.make_node(
            "Resize", ["x", "roi", "", "sizes"], ["y"], mode=names[method], nearest_mode="round_prefer_ceil", **attrs
        )
        infos = [helper.make_tensor_value_info(name, kind, None) for name, kind in (("x", 1), ("roi", 1), ("sizes", 7), ("y", 1))]
        model = helper.make_model(
            helper.make_graph([node], "g", infos[:3], infos[3:]), opset_imports=[helper.make_opsetid("", 19)]
        )
        sizes = np.array([1, 2, *size[:rank]])
        (expected,) = ReferenceEvaluator(model).run(None, {"x": data, "roi": whole, "sizes": sizes})
        own = {"method": method, "cubic_alpha": -0.75, "rounding_method": "round_prefer_ceil", **attrs}
        op = get(f"image.resize{rank}d")
        given_roi = tuple(map(float, whole[[*range(2, 2 + rank), *range(4 + rank, 4 + 2 * rank)]]))
        near(call(op.name, [data], op.attrs(size=size[:rank], roi=given_roi, **own)), expected)


# ---- sizes known at run time -----------------------------------------------------------------------------------------


def test_dynamic_resize_is_the_static_one() -> None:
    rng = np.random.default_rng(6)
    op, data = get("dyn.image.resize2d"), rng.standard_normal((2, 3, 4, 2)).astype(np.float32)
    for mode, dtype in itertools.product(("align_corners", "tf_crop_and_resize"), ("int32", "int64")):
        size, roi = np.array([5, 3], dtype), np.array([0.1, 0.0, 0.9, 1.5], np.float32)
        attrs = op.attrs(layout="NHWC", coordinate_transformation_mode=mode)
        dynamic = call(op.name, [data, size, roi], attrs)
        name, static = op.static(attrs, [None, size, roi])
        np.testing.assert_array_equal(call(name, [data], static), dynamic)
        near(dynamic, np.moveaxis(resized(np.moveaxis(data, -1, 1), (5, 3), {**vars(static)}), 1, -1))
        assert op.static(attrs, [None, None, roi]) is None
        assert (op.static(attrs, [None, size, None]) is None) == (mode == "tf_crop_and_resize")


def test_only_what_counts_is_read() -> None:
    assert get("dyn.image.resize2d").data_dependent == (False, True, False)
    assert get("dyn.nn.upsampling").data_dependent == (False, True, True)
    assert get("dyn.nn.upsampling3d").data_dependent == (False, True, True, True)
    data, size, roi = np.ones((1, 1, 2, 2), np.float32), np.array([3, 3]), np.zeros(4, np.float32)
    for mode, is_read in (("half_pixel", False), ("tf_crop_and_resize", True)):
        attrs = get("dyn.image.resize2d").attrs(coordinate_transformation_mode=mode)
        assert reads(one_call("dyn.image.resize2d", [data, size, roi], attrs)) == (True, False, is_read)


UPSAMPLING = [
    ("nn.upsampling", ("scale_h", "scale_w"), "bilinear"),
    ("nn.upsampling3d", ("scale_d", "scale_h", "scale_w"), "trilinear"),
]


@pytest.mark.parametrize(("name", "scales", "linear"), UPSAMPLING)
@pytest.mark.parametrize("numbers", [(2.0, 3.0, 1.0), (1.5, 0.6, 2.5), (0.5, 1.25, 1.0)])
def test_upsampling(name: str, scales: tuple[str, ...], linear: str, numbers: tuple[float, ...]) -> None:
    rng, op, dyn, rank = np.random.default_rng(7), get(name), get(f"dyn.{name}"), len(scales)
    factors = dict(zip(scales, numbers[:rank], strict=True))
    for shape, method in itertools.product(
        [(2, 2, 4, 5, 2)[: rank + 2], (1, 1, 2, 2, 2)[: rank + 2]], ["nearest_neighbor", linear]
    ):
        data = rng.standard_normal(shape).astype(np.float32)
        size = tuple(math.floor(n * x + 0.5) for n, x in zip(shape[2:], factors.values(), strict=True))
        how = {
            "method": "nearest_neighbor" if method == "nearest_neighbor" else "linear",
            "coordinate_transformation_mode": "asymmetric",
        }
        result = call(name, [data], op.attrs(**factors, method=method))
        near(result, resized(data, size, {**how, "rounding_method": "floor"}))
        given_factors = [np.array(x, np.float32) for x in factors.values()]
        attrs = dyn.attrs(method=method)
        np.testing.assert_array_equal(call(dyn.name, [data, *given_factors], attrs), result)
        static_name, static = dyn.static(attrs, [None, *(np.array(x) for x in factors.values())])
        assert (static_name, static) == (name, op.attrs(**factors, method=method))
        assert dyn.static(attrs, [None, None, *given_factors[1:]]) is None


def test_upsampling_by_integers_and_a_cubic_one() -> None:
    data = np.random.default_rng(8).standard_normal((1, 2, 3, 4)).astype(np.float32)
    dyn = get("dyn.nn.upsampling").attrs(method="bicubic", align_corners=True)
    result = call("dyn.nn.upsampling", [data, np.array(2), np.array([3], np.int32)], dyn)
    near(result, resized(data, (6, 12), {"method": "cubic", "coordinate_transformation_mode": "align_corners"}))


def test_a_named_size_stays_named() -> None:
    n, h = sym("n"), sym("h")
    op = get("nn.upsampling")
    out, _ = relate(op, [TensorType.of((n, 3, h, 4))], op.attrs(scale_h=2.0, scale_w=1.5))
    assert out.shape[0] is n and out.shape[2] is h * 2 and str(out.shape[3]) == "6"
    out, _ = relate(op, [TensorType.of((n, 3, h, 4))], op.attrs(scale_h=1.0))
    assert out.shape[2] is h


@pytest.mark.parametrize("factor", [-1.0, math.nan, 0.0, -0.0, -math.inf, 0, -2])
def test_a_factor_that_is_none(factor: float) -> None:
    arrays = [np.ones((1, 1, 2, 2), np.float32), np.array(1.0), np.array(factor)]
    with pytest.raises(ShapeError, match=r"^dyn\.nn\.upsampling: scale_w must be positive and finite$"):
        call("dyn.nn.upsampling", arrays, get("dyn.nn.upsampling").attrs())


def test_a_small_factor_makes_nothing() -> None:
    arrays = [np.ones((1, 1, 2, 2), np.float32), np.array(5e-324), np.array(1.0)]
    assert call("dyn.nn.upsampling", arrays, get("dyn.nn.upsampling").attrs()).shape == (1, 1, 0, 2)


# ---- grids -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("target", [(4, 5), (1, 3), (0, 2), (2, 1, 4)])
def test_affine_grid(target: tuple[int, ...], aligned: bool) -> None:
    rank = len(target)
    for dtype, batch in [("float32", 2), ("float64", 0), ("float16", 1)]:
        matrices = np.random.default_rng(9).standard_normal((batch, rank, rank + 1)).astype(dtype)
        result = call("image.affine_grid", [matrices], get("image.affine_grid").attrs(target, aligned))
        near(result, affine(matrices, target, aligned), 1e-2 if dtype == "float16" else 1e-5)


def check_sampled(data: np.ndarray, grid: np.ndarray, run: Any = plain, **attrs: Any) -> None:
    op = get("image.grid_sample")
    made = op.attrs(layout=data_layouts(data.ndim - 2)[0], **attrs)
    result = call(op.name, [data, grid], made, run=run)
    assert result.dtype == data.dtype
    near(result, sampled(data, grid, made.method, made.padding_mode, made.align_corners))


@settings(max_examples=80)
@given(
    st.sampled_from(["nearest", "bilinear", "bicubic"]), st.sampled_from(["zeros", "border", "reflection"]), st.booleans(),
    st.integers(0, 10**6), st.sampled_from(["float32", "float64"]), st.booleans(),
)  # fmt: skip
def test_grid_sample(method: str, padding: str, aligned: bool, seed: int, dtype: str, deep: bool) -> None:
    rng = np.random.default_rng(seed)
    rank = 3 if deep and method != "bicubic" else 2
    data = rng.standard_normal((rng.integers(0, 3), 2, *rng.integers(1, 5, rank))).astype(dtype)
    grid = (rng.standard_normal((len(data), rank, *rng.integers(0, 4, rank))) * 1.5).astype(np.float32)
    check_sampled(data, grid, method=method, padding_mode=padding, align_corners=aligned)


@pytest.mark.parametrize(("method", "padding"), [("bilinear", "zeros"), ("bicubic", "reflection")])
def test_grid_sample_as_machine_code(method: str, padding: str) -> None:
    rng = np.random.default_rng(10)
    for shape, positions in [((2, 3, 5, 4), (3, 7)), ((1, 1, 1, 1), (1, 1)), ((1, 2, 3, 3), (0, 2))]:
        grid = (rng.standard_normal((shape[0], 2, *positions)) * 2).astype(np.float32)
        check_sampled(rng.standard_normal(shape).astype(np.float32), grid, compiled, method=method, padding_mode=padding)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_dtype_of_a_grid_decides_its_halves(dtype: str) -> None:
    """-0.2 of 5 elements is at 1.5 after rounding to float32; -0.20000000298 is at 1.49999999."""
    data, grid = np.arange(5, dtype=np.float32).reshape(1, 1, 5, 1), np.array([0, np.float32(-0.2)], dtype).reshape(1, 2, 1, 1)
    result = call("image.grid_sample", [data, grid], get("image.grid_sample").attrs("nearest", align_corners=False))
    assert result.item() == (2 if dtype == "float32" else 1)


@pytest.mark.parametrize("run", [plain, compiled])
def test_places_that_no_network_should_give(run: Any) -> None:
    data = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)
    grid = np.array([math.nan, math.inf, -math.inf, 1e30, -1e30], np.float32)
    op = get("image.grid_sample")
    for method, padding in itertools.product(["nearest", "bilinear", "bicubic"], ["zeros", "border", "reflection"]):
        if run is compiled and (method, padding) != ("bilinear", "border"):
            continue
        result = call(op.name, [data, np.stack([grid, grid])[None, :, None]], op.attrs(method, padding_mode=padding), run=run)
        if padding == "zeros":
            assert not result.any()
        elif padding == "border" and method != "bicubic":
            assert result.reshape(-1).tolist() == [1, 9, 1, 9, 1]
        else:
            assert np.isfinite(result).all()


# ---- rejected arguments ----------------------------------------------------------------------------------------------

IMAGE = (1, 3, 4, 4)


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("image.resize2d", [(3, 4, 4)], {"size": 2}, "the data must have 4 dimensions, not 3"),
        ("image.resize2d", [IMAGE], {"size": (1, 2, 3)}, "size must have 1 or 2 numbers, not 3"),
        ("image.resize2d", [IMAGE], {"size": -1}, "size must be at least 0, not -1"),
        ("image.resize2d", [(1, 3, 0, 4)], {"size": 2}, "along H the data has no element to make 2 of"),
        ("image.resize2d", [IMAGE], {"size": 2, "layout": "CHWN"}, "layout must be 'NCHW' or 'NHWC', not 'CHWN'"),
        ("image.resize2d", [IMAGE], {"size": 2, "method": "area"}, "attribute method must be 'nearest_neighbor' or"),
        ("image.resize2d", [IMAGE], {"size": 2, "scales": (1.0,)}, "scales must have 2 numbers, not 1"),
        ("image.resize2d", [IMAGE], {"size": 2, "scales": (1.0, 0.0)}, "a scale must be positive and finite, not 0.0"),
        ("image.resize2d", [IMAGE], {"size": 2, "coordinate_transformation_mode": MODES[6]}, "roi must have 4 numbers, not 0"),
        ("image.resize2d", [IMAGE], {"size": 2, "extrapolation_value": math.nan}, "extrapolation_value must be finite"),
        ("image.resize2d", [IMAGE], {"size": 2, "cubic_exclude": 2}, "attribute cubic_exclude must be 0 or 1, not 2"),
        ("image.resize2d", [IMAGE], {"size": 2, "out_dtype": "int8"}, "out_dtype='int8' is not valid; valid: "),
        ("nn.upsampling", [IMAGE], {"scale_h": -1.0}, "scale_h must be positive and finite, not -1.0"),
        ("nn.upsampling3d", [IMAGE], {}, "the data must have 5 dimensions, not 4"),
        ("image.affine_grid", [(1, 2, 3)], {"target_shape": (2,)}, "target_shape must have 2 or 3 numbers, not 1"),
        ("image.affine_grid", [(1, 2, 3)], {"target_shape": (2, 3, 4)}, "a matrix must have 3 rows, not 2"),
        ("image.affine_grid", [(1, 2, 4)], {"target_shape": (2, 3)}, "a matrix must have 3 columns, not 4"),
        ("image.grid_sample", [IMAGE, (2, 2, 1, 1)], {}, "the data has 1 batches, the grid 2"),
        ("image.grid_sample", [IMAGE, (1, 3, 1, 1)], {}, "a place of the grid must have 2 numbers, not 3"),
        ("image.grid_sample", [(1, 3, 0, 4), (1, 2, 1, 1)], {}, "along H the data has no element"),
        ("image.grid_sample", [IMAGE, (1, 2, 1, 1)], {"layout": "NHWC"}, "layout must be 'NCHW' or 'NCDHW', not 'NHWC'"),
        ("image.grid_sample", [(1, 1, 2, 2, 2), (1, 3, 1, 1, 1)], {"layout": "NCDHW", "method": "bicubic"}, "method='bicubic'"),
    ],
)  # fmt: skip
def test_what_is_refused(name: str, shapes: list[Any], attrs: dict[str, Any], message: str) -> None:
    op = get(name)
    with pytest.raises(TypeRelError) as refused:
        relate(op, [TensorType.of(s) for s in shapes], op.attrs(**attrs))
    assert refused.value.message.startswith(f"{name}: {message}")


def test_dtypes_that_are_refused() -> None:
    op = get("image.resize2d")
    with pytest.raises(TypeRelError, match=r"image\.resize2d: data is bool; supported: "):
        relate(op, [TensorType.of(IMAGE, "bool")], op.attrs(size=2))
    with pytest.raises(TypeRelError, match=r"image\.resize2d: data is uint8; supported: float32, "):
        relate(op, [TensorType.of(IMAGE, "uint8")], op.attrs(size=2, method="cubic"))
    with pytest.raises(TypeRelError, match=r"image\.resize2d: extrapolation_value=-1.0 is no uint8"):
        relate(op, [TensorType.of(IMAGE, "uint8")], op.attrs(size=2, extrapolation_value=-1.0))


def test_sizes_known_at_run_time_are_checked_then() -> None:
    op, data, roi = get("dyn.image.resize2d"), np.ones((1, 1, 0, 2), np.float32), np.zeros(4, np.float32)
    for size, message in [
        ((1, 1), "along H the data has no element to make 1 of"),
        ((-1, 1), "a number of size is negative: -1"),
    ]:
        with pytest.raises(Exception, match=message):
            evaluate(one_call(op.name, [data, np.array(size), roi], op.attrs()), [data, np.array(size), roi])
    with pytest.raises(TypeRelError, match="size must have 2 numbers, not 3"):
        relate(op, [TensorType.of(IMAGE), TensorType.of((3,), "int64"), TensorType.of((4,))], op.attrs())
