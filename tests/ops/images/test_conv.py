"""Convolution against plain numpy, in every layout, at sizes of 0 and 1, as plain Python and as machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relayvm.compiler.passes.constant_weights.pack_weights import filters_of
from relayvm.ops.core.implementation import OpCall
from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import Tensor, TensorType
from relayvm.ops.core.type_relation import relate
from relayvm.ops.kernels.conv import by_plane
from relayvm.ops.native import memory
from relayvm.ops.native.front_end.llvm import host
from relayvm.ops.native.jit.products.register_tile import panel_width
from relayvm.ops.native.status import OUT_OF_MEMORY
from relayvm.ops.strategy.choice import choose
from relayvm.shape_funcs.defs.convolution.conv import data_layouts, kernel_layouts, per_axis, sides
from relayvm.shape_funcs.symbolic.dim import Dim, dim, sym

from ..opaque.opaque_kernels import run


def convolution(data: np.ndarray, weight: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    """By the definition, in float64: channels before space, output channels first."""
    rank, groups = data.ndim - 2, attrs.get("groups", 1)
    stride, dilation = (per_axis(attrs.get(name, 1), rank, name) for name in ("strides", "dilation"))
    padded = np.pad(data.astype(np.float64), [(0, 0), (0, 0), *zip(*sides(attrs.get("padding", 0), rank), strict=True)])
    span = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    positions = [(n - s) // t + 1 for n, s, t in zip(padded.shape[2:], span, stride, strict=True)]
    outputs, inputs = len(weight) // groups, weight.shape[1]
    out = np.zeros((len(data), len(weight), *positions))
    for at in np.ndindex(*weight.shape[2:]):
        starts = [a * d for a, d in zip(at, dilation, strict=True)]
        taken = tuple(slice(s, s + max((n - 1) * t + 1, 0), t) for s, n, t in zip(starts, positions, stride, strict=True))
        for g in range(groups):
            part = padded[(slice(None), slice(g * inputs, (g + 1) * inputs), *taken)]
            own = slice(g * outputs, (g + 1) * outputs)
            out[:, own] += np.einsum("ni...,oi->no...", part, weight[(own, slice(None), *at)].astype(np.float64))
    return out


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def in_layout(array: np.ndarray, layout: str, default: str) -> np.ndarray:
    return np.ascontiguousarray(array.transpose([default.index(letter) for letter in layout]))


def check(data: np.ndarray, weight: np.ndarray, jit: bool = False, tolerance: float = 1e-5, **attrs: Any) -> None:
    """Compare the operator with its definition, for every layout."""
    rank = data.ndim - 2
    data_layout, kernel_layout = (
        attrs.get("data_layout", data_layouts(rank)[0]),
        attrs.get("kernel_layout", kernel_layouts(rank)[0]),
    )
    given_data = in_layout(data, data_layout, data_layouts(rank)[0])
    given_weight = in_layout(weight, kernel_layout, kernel_layouts(rank)[0])
    (result,), status, _ = run(f"nn.conv{rank}d", [given_data, given_weight], jit=jit, **attrs)
    assert status == 0
    out_layout = attrs.get("out_layout") or data_layout
    expected = in_layout(convolution(data, weight, attrs), out_layout, data_layouts(rank)[0])
    assert result.shape == expected.shape and result.dtype == (attrs.get("out_dtype") or data.dtype)
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    small = st.integers(1, 3)
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    inputs, outputs = draw(st.integers(0 if groups == 1 else 1, 3)), draw(st.sampled_from([0, 1, 2, 5]))
    kernel = [draw(small) for _ in range(rank)]
    dilation = [draw(st.integers(1, 2)) for _ in range(rank)]
    padding = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
    strides = draw(st.sampled_from([(1,) * rank, tuple(draw(small) for _ in range(rank))]))
    # the padded data is shorter than the window by no more than a stride
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    sizes = [
        max(0, s - padding[i] - padding[rank + i] + draw(st.integers(-strides[i], 4 if rank < 3 else 2)))
        for i, s in enumerate(span)
    ]
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    layouts = {
        "data_layout": draw(st.sampled_from(data_layouts(rank))),
        "kernel_layout": draw(st.sampled_from(kernel_layouts(rank))),
        "out_layout": draw(st.sampled_from(["", *data_layouts(rank)])),
    }
    forced = {"data_layout": data_layouts(rank)[0], "kernel_layout": kernel_layouts(rank)[0], "implementation": "shifts"}
    return {
        "data": numbers(rng, (draw(st.integers(0, 2)), inputs * groups, *sizes), dtype),
        "weight": numbers(rng, (outputs * groups, inputs, *kernel), dtype),
        "groups": groups,
        "strides": strides,
        "padding": tuple(padding),
        "dilation": tuple(dilation),
        **draw(st.sampled_from([{**layouts, "out_dtype": draw(st.sampled_from(["", "", "float64"]))}, forced])),
    }


@settings(max_examples=150)
@given(cases())
def test_convolution(case: dict[str, Any]) -> None:
    check(case.pop("data"), case.pop("weight"), **case)


@pytest.mark.parametrize("layout", [0, 1])
def test_one_machine_code_for_every_size(layout: int) -> None:
    """A product or directly, gathered or pointwise, in one tile or several: the kernel decides when it runs."""
    rng = np.random.default_rng(1)
    names = {"data_layout": data_layouts(2)[layout], "kernel_layout": kernel_layouts(2)[layout]}
    for outputs, inputs, kernel in [(8, 6, (3, 2)), (8, 6, (1, 1)), (2, 3, (3, 3)), (5, 0, (1, 2)), (0, 5, (1, 1))]:
        weight = numbers(rng, (outputs, inputs, *kernel), "float32")
        for batch, height, width in [(2, 9, 40), (1, 3, 3), (0, 5, 5), (1, 3, 700)]:
            check(numbers(rng, (batch, inputs, height, width), "float32"), weight, jit=True, **names)
    # 2**18 gathered elements are one tile: here a tile ends within a row, and the last one is short
    data, weight = numbers(rng, (1, 40, 25, 71), "float32"), numbers(rng, (8, 40, 5, 5), "float32")
    check(data, weight, jit=True, tolerance=2e-4, **names)


@pytest.mark.split(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("implementation", ["tiles", "shifts"])
def test_tiles(implementation: str, dtype: str) -> None:
    """Rows of panels of each form: runs in a row of the data, over its borders and its ends, every second element, and others.

    Shifts of padded data: rows together or one by one.  A few columns behind whole panels or behind a group of panels, with
    enough terms to be multiplied apart or not.
    """
    rng = np.random.default_rng(6)
    for outputs, inputs, kernel, attrs in [
        (8, 3, (3, 3), {"padding": 1}),
        (5, 2, (2, 5), {"padding": (0, 4, 3, 1), "dilation": (3, 2)}),
        (7, 3, (3, 3), {"strides": 2, "padding": 1}),
        (4, 1, (2, 2), {"strides": (2, 3)}),
        (100, 2, (1, 1), {}),
        (9, 300, (1, 2), {"padding": (0, 1)}),
        (9, 520, (1, 1), {}),
        (7, 40, (1, 2), {"padding": (0, 1, 0, 0)}),
        (4, 2, (3, 3), {"padding": 2, "strides": (1, 3), "dilation": 2}),
    ]:
        weight = numbers(rng, (outputs, inputs, *kernel), dtype)
        for batch, height, width in [(1, 5, 80), (2, 7, 7), (1, 9, 16), (2, 4, 17), (1, 20, 33)]:
            check(
                numbers(rng, (batch, inputs, height, width), dtype),
                weight,
                jit=True,
                tolerance=1e-4,
                implementation=implementation,
                **attrs,
            )
    # columns of two rows, also of two depths
    moved = {"padding": (0, 2, 2, 1, 0, 1), "dilation": (1, 2, 2), "strides": (2, 3, 1)}
    for jit in (False, True):
        for width, attrs in [(12, {"padding": 1}), (19, moved)]:
            data, weight = numbers(rng, (1, 2, 3, 7, width), dtype), numbers(rng, (5, 2, 2, 3, 3), dtype)
            check(data, weight, jit=jit, tolerance=1e-4, implementation=implementation, **attrs)


@settings(max_examples=40)
@given(
    st.sampled_from(["tiles", "shifts", "groups", "winograd", "planes"]),
    st.integers(1, 70),
    st.integers(1, 300),
    st.sampled_from([1, 2]),
)
@example("shifts", 33, 64, 2)  # 15 rows of 33 sums are computed together, not 16 of 32
def test_blocks_cover_every_picture(implementation: str, height: int, width: int, stride: int) -> None:
    """The blocks that the host counts are those of the kernel: no element of the result is left out, no buffer is too short."""
    rng = np.random.default_rng(height * width)
    attrs = {"padding": 1, "strides": stride, "implementation": implementation}
    groups = 3 if implementation == "planes" else 1
    data, weight = numbers(rng, (1, 3, height, width), "float32"), numbers(rng, (6, 3 // groups, 3, 3), "float32")
    check(data, weight, jit=True, tolerance=1e-4, groups=groups, **attrs)
    if implementation == "planes":  # each channel by itself
        check(data, weight[:3], jit=True, tolerance=1e-4, groups=3, **attrs)
    if implementation == "winograd":  # blocks of some of the output channels
        weight = np.concatenate([weight] * 5)
        (result,), *_ = run("nn.winograd_conv2d", [data, weight, filters_of(weight, stride)], jit=True, **attrs)
        np.testing.assert_allclose(result, convolution(data, weight, attrs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [15, 16, 17, 50, 62, 63, 64])
def test_shifts_have_the_bits_of_tiles(width: int) -> None:
    """Sums that are computed twice, where a vector ends with a row, and any division into tiles: each sum is in one order."""
    rng = np.random.default_rng(width)
    data, weight = numbers(rng, (2, 3, 8, width), "float32"), numbers(rng, (31, 3, 3, 3), "float32")
    shifts, tiles = (
        run("nn.conv2d", [data, weight], jit=True, implementation=name, padding=1)[0][0] for name in ("shifts", "tiles")
    )
    np.testing.assert_array_equal(shifts, tiles)


def winograd_bound(data: np.ndarray, weight: np.ndarray) -> float:
    """The largest error of Winograd's algorithm by the sums of absolute values in its matrices: 9, 9 / 4 and 4.

    With stride 2 the products of a result have 25 of these values, and not 81.  The channels are added, and each of the three
    transformations rounds at most 4 times.
    """
    channels, unit = weight.shape[1], np.finfo(weight.dtype).eps / 2
    return float(81 * channels * (channels + 11) * unit * abs(weight).max(initial=0) * abs(data).max(initial=0)) + 1e-30


@settings(max_examples=40)
@given(st.data())
def test_winograd_as_plain_python(drawn: st.DataObject) -> None:
    size = st.integers(0, 3)
    padding, stride = drawn.draw(st.tuples(*[size] * 4)), drawn.draw(st.sampled_from([1, 2]))
    rng = np.random.default_rng(drawn.draw(st.integers(0, 10**6)))
    rows, columns = (max(drawn.draw(st.integers(0, 6)), 3 - padding[axis] - padding[axis + 2]) for axis in (0, 1))
    inputs, outputs = drawn.draw(size), drawn.draw(st.sampled_from([0, 1, 7]))
    data = numbers(rng, (drawn.draw(st.integers(0, 2)), inputs, rows, columns), "float32")
    weight = numbers(rng, (outputs, inputs, 3, 3), "float32")
    with np.errstate(all="ignore"):  # lanes behind the last tile hold whatever the memory held
        ran = run("nn.conv2d", [data, weight], implementation="winograd", padding=padding, strides=stride)
    expected = convolution(data, weight, {"padding": padding, "strides": stride})
    np.testing.assert_allclose(ran.outputs[0], expected, rtol=0, atol=winograd_bound(data, weight))
    with_filters = [data, weight, filters_of(weight, stride)]
    transformed = run("nn.winograd_conv2d", with_filters, implementation="winograd", padding=padding, strides=stride)
    np.testing.assert_array_equal(transformed.outputs[0], ran.outputs[0])


#: Output and input channels, and data: stretches that end within a row of tiles, over several rows, pictures and channels that
#: are transformed or finished together.
SMALL = [(2, 9, (2, 5, 40)), (26, 2, (1, 33, 7)), (1, 1, (1, 2, 133))]
#: As SMALL; many channels, some tiles behind a stretch or whole lines, multiplied apart, and small pictures of a batch.
LARGE = [(100, 65, (1, 16, 33)), (7, 64, (3, 13, 13)), (49, 70, (5, 7, 7)), (3, 64, (2, 3, 3)), (5, 130, (17, 2, 2))]


@pytest.mark.thinned(2)
@pytest.mark.lengthy
@pytest.mark.split(2)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("jit", "outputs", "inputs", "shape"), [(jit, *c) for jit in (False, True) for c in SMALL + LARGE * jit])
def test_winograd_in_several_stretches(jit: bool, outputs: int, inputs: int, shape: tuple[int, ...], stride: int) -> None:
    rng, attrs = np.random.default_rng(9), {"padding": 1, "strides": stride}
    sizes = (shape[0], inputs, *(n * stride for n in shape[1:]))
    data, weight = numbers(rng, sizes, "float32"), numbers(rng, (outputs, inputs, 3, 3), "float32")
    expected = convolution(data, weight, attrs)
    with np.errstate(all="ignore"):  # lanes behind the last tile hold whatever the memory held
        (result,), *_ = run("nn.conv2d", [data, weight], jit=jit, implementation="winograd", **attrs)
        with_filters = [data, weight, filters_of(weight, stride)]
        (transformed,), *_ = run("nn.winograd_conv2d", with_filters, jit=jit, implementation="winograd", **attrs)
    np.testing.assert_allclose(result, expected, rtol=0, atol=winograd_bound(data, weight))
    np.testing.assert_array_equal(transformed, result)
    if jit and min(shape[1:]) > 2:  # the order of the sums, not only their bound; sums of smaller pictures have few elements
        (plain,), *_ = run("nn.conv2d", [data, weight], implementation="tiles", jit=True, **attrs)
        assert np.sqrt(np.mean((result - expected) ** 2)) < 3 * np.sqrt(np.mean((plain - expected) ** 2))


@pytest.mark.parametrize(("inputs", "rows", "stride", "name"), [
    (24, 5, 1, "winograd"), (24, 40, 2, "winograd"), (16, 39, 2, "winograd"), (24, 24, 2, "another"), (15, 40, 2, "another"),
    (24, 15, 3, "another"), (24, 14, (1, 2), "another"), (24, 38, 2, "winograd on AMD"), (24, 26, 2, "winograd on AMD"),
])  # fmt: skip
@pytest.mark.parametrize("is_of_amd", [False, True])
def test_sizes_with_which_winograd_pays(
    inputs: int, rows: int, stride: int | tuple[int, int], name: str, is_of_amd: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a constant weight.  With stride 2 more positions have to share a read of the filters, which exceed the weight."""
    conv = get("nn.winograd_conv2d")
    attrs = conv.attrs(padding=1, strides=stride)
    counts = [-(-rows // s) for s in (stride if isinstance(stride, tuple) else (stride, stride))]
    shapes = (1, inputs, rows, rows), (24, inputs, 3, 3), (16, 24, inputs), (1, 24, *counts)
    *given, out = (Tensor("float32", tuple(map(dim, shape))) for shape in shapes)
    monkeypatch.setattr(host, "is_of_amd", lambda: is_of_amd)
    # with preferences, of which there are none, the choice is not remembered
    chosen = choose(OpCall(conv, attrs, tuple(given), (out,)), lambda call: ()).names[0]
    assert (chosen == "winograd") is (name == "winograd" or (name == "winograd on AMD" and is_of_amd))


def test_an_infinity_stays_in_its_tiles_with_stride_2() -> None:
    data, weight = np.ones((1, 1, 24, 24), np.float32), np.ones((1, 1, 3, 3), np.float32)
    data[0, 0, 11, 13] = np.inf
    (result,), *_ = run("nn.conv2d", [data, weight], jit=True, implementation="winograd", padding=1, strides=2)
    assert not np.isfinite(result[0, 0, 5:7, 6:8]).any()
    spread = ~np.isfinite(result[0, 0])
    spread[2:10, 3:11] = False  # at most 3 rows and columns away
    assert not spread.any()


def test_an_infinity_stays_in_its_tiles() -> None:
    data, weight = np.ones((1, 1, 12, 12), np.float32), np.ones((1, 1, 3, 3), np.float32)
    data[0, 0, 5, 6] = np.inf
    (result,), *_ = run("nn.conv2d", [data, weight], jit=True, implementation="winograd", padding=1)
    (exact,), *_ = run("nn.conv2d", [data, weight], jit=True, implementation="shifts", padding=1)
    assert np.isinf(exact[0, 0, 4:7, 5:8]).all() and np.isfinite(exact).sum() == exact.size - 9
    assert not np.isfinite(result[0, 0, 4:7, 5:8]).any()
    spread = ~np.isfinite(result[0, 0])
    spread[2:9, 3:10] = False  # at most 3 rows and columns away
    assert not spread.any()


@pytest.mark.parametrize(
    ("groups", "layout", "dtype"), [(2, 0, "float64"), (6, 0, "float32"), (6, 1, "float32")], ids=["groups", "rows", "points"]
)
def test_geometry_as_machine_code(groups: int, layout: int, dtype: str) -> None:
    rng = np.random.default_rng(2)
    attrs = {"strides": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2), "groups": groups}
    names = {"data_layout": data_layouts(2)[layout], "kernel_layout": kernel_layouts(2)[layout]}
    weight = numbers(rng, (12, 6 // groups, 3, 2), dtype)
    for batch, height, width in [(2, 9, 40), (1, 1, 2)]:
        check(numbers(rng, (batch, 6, height, width), dtype), weight, jit=True, **attrs, **names)


@pytest.mark.extensive(dtype=("float32",), groups=(2,))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("inputs", "outputs", "groups"), [(5, 5, 5), (4, 6, 2), (3, 2, 1)], ids=["depthwise", "groups", "few"])
def test_few_channels_as_machine_code(inputs: int, outputs: int, groups: int, dtype: str) -> None:
    """Plane by plane, in one range of sums or several, for every geometry."""
    rng = np.random.default_rng(4)
    for kernel, attrs in [
        ((3, 3), {"padding": 1}),
        ((3, 5), {"strides": (2, 3), "padding": (1, 2, 0, 3)}),
        ((2, 4), {"strides": (3, 2), "dilation": (2, 3), "padding": 2}),
        ((1, 1), {"strides": 2}),
    ]:
        weight = numbers(rng, (outputs, inputs // groups, *kernel), dtype)
        for batch, height, width in [(2, 9, 11), (1, 80, 70), (0, 9, 9)]:
            check(numbers(rng, (batch, inputs, height, width), dtype), weight, jit=True, groups=groups, **attrs)
    data, weight = numbers(rng, (1, inputs, 4, 5, 6), dtype), numbers(rng, (outputs, inputs // groups, 2, 3, 3), dtype)
    check(data, weight, jit=True, groups=groups, strides=(2, 1, 1), padding=(1, 1, 0, 1, 0, 2), dilation=(1, 1, 2))


@pytest.mark.parametrize("groups", [1, 6])
def test_space_then_outputs_as_machine_code(groups: int) -> None:
    rng = np.random.default_rng(3)
    names = {"data_layout": data_layouts(2)[1], "kernel_layout": kernel_layouts(2)[3]}
    for kernel in [(3, 2), (1, 1)]:
        weight = numbers(rng, (12, 6 // groups, *kernel), "float32")
        check(numbers(rng, (2, 6, 9, 8), "float32"), weight, jit=True, groups=groups, **names)


@pytest.mark.parametrize(("dtype", "jit"), [("float16", False), ("bfloat16", False), ("bfloat16", True)])
def test_halves_round_once(dtype: str, jit: bool) -> None:
    """Products of small whole numbers are exact, so the one rounding of the sum is all there is."""
    from relayvm.ops.core.tensor_types import numpy_dtype

    rng = np.random.default_rng(5)
    data = rng.integers(-9, 9, (1, 4, 5, 5)).astype(numpy_dtype(dtype))
    weight = rng.integers(-9, 9, (4, 4, 3, 3)).astype(numpy_dtype(dtype))
    (result,), status, _ = run("nn.conv2d", [data, weight], jit=jit, padding=1)
    expected = convolution(data.astype(np.float64), weight.astype(np.float64), {"padding": 1})
    assert status == 0 and np.array_equal(result, expected.astype(np.float32).astype(numpy_dtype(dtype)))


def test_no_memory_is_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    data, weight = np.ones((1, 4, 3, 3), np.float32), np.ones((4, 4, 3, 3), np.float32)
    monkeypatch.setattr(memory, "alloc", lambda nbytes: 0)
    assert run("nn.conv2d", [data, weight]).status == OUT_OF_MEMORY
    assert run("nn.conv2d", [data, weight], out_dtype="float64").status == OUT_OF_MEMORY


# ---- types -----------------------------------------------------------------------------------------------------------


def result_type(name: str, *shapes: tuple[int | Dim, ...], dtype: str = "float32", **attrs: Any) -> Any:
    op = get(name)
    return relate(op, [TensorType.of(s, dtype) for s in shapes], op.attrs(**attrs))


def test_a_convolution_that_keeps_the_size_keeps_its_name() -> None:
    n, h, w = sym("n"), sym("h"), sym("w")
    out, checks = result_type("nn.conv2d", (n, 3, h, w), (8, 3, 3, 3), padding=1)
    assert out.shape[0] is n and out.shape[2] is h and out.shape[3] is w and not checks
    _, checks = result_type("nn.conv2d", (n, 3, h, w), (8, 3, 3, 3))
    assert [c.message for c in checks] == [
        f"nn.conv2d: along {axis} the window covers {{}} elements, the padded data has {{}}" for axis in "HW"
    ]
    halved, _ = result_type("nn.conv2d", (n, 3, h, w), (8, 3, 3, 3), padding=1, strides=2)
    assert halved.shape[2] is (h + 1) // 2


IMAGE, KERNEL = (1, 4, 8, 8), (6, 4, 3, 3)


@pytest.mark.parametrize(
    ("shapes", "attrs", "message"),
    [
        ([(1, 4, 8), KERNEL], {}, "nn.conv2d: the data must have 4 dimensions, not 3"),
        ([IMAGE, (6, 4, 3)], {}, "nn.conv2d: the weight must have 4 dimensions, not 3"),
        ([IMAGE, (6, 3, 3, 3)], {}, "nn.conv2d: the data has 4 channels, the weight takes 3"),
        ([IMAGE, KERNEL], {"groups": 2}, "nn.conv2d: the data has 4 channels, the weight takes 4 in each of 2 groups"),
        ([IMAGE, (5, 2, 3, 3)], {"groups": 2}, "nn.conv2d: 5 channels of the result do not make 2 groups"),
        ([IMAGE, KERNEL], {"groups": 0}, "nn.conv2d: groups must be at least 1, not 0"),
        ([IMAGE, KERNEL], {"channels": 5}, "nn.conv2d: channels says 5, the weight gives 6"),
        ([IMAGE, KERNEL], {"kernel_size": (3, 2)}, "nn.conv2d: kernel_size says 2, the weight has 3"),
        ([IMAGE, KERNEL], {"strides": (1, 2, 3)}, "nn.conv2d: strides must have 1 or 2 numbers, not 3"),
        ([IMAGE, KERNEL], {"strides": 0}, "nn.conv2d: strides must be at least 1, not 0"),
        ([IMAGE, KERNEL], {"dilation": (1, -1)}, "nn.conv2d: dilation must be at least 1, not -1"),
        ([IMAGE, KERNEL], {"padding": (1, 2, 3)}, "nn.conv2d: padding must have 1, 2 or 4 numbers, not 3"),
        ([IMAGE, KERNEL], {"padding": -1}, "nn.conv2d: padding must be at least 0, not -1"),
        ([IMAGE, KERNEL], {"padding": "same"}, "nn.conv2d: attribute padding must be int or a tuple of int, not 'same'"),
        ([IMAGE, KERNEL], {"data_layout": "CHWN"}, "nn.conv2d: data_layout must be 'NCHW' or 'NHWC', not 'CHWN'"),
        ([IMAGE, KERNEL], {"kernel_layout": "IOHW"}, "nn.conv2d: kernel_layout must be 'OIHW' or 'HWIO' or 'OHWI' or 'HWOI'"),
        ([IMAGE, KERNEL], {"out_layout": "HW"}, "nn.conv2d: out_layout must be 'NCHW' or 'NHWC', not 'HW'"),
        ([IMAGE, KERNEL], {"out_dtype": "int8"}, "nn.conv2d: out_dtype='int8' is not valid; valid: "),
        ([(1, 4, 1, 8), KERNEL], {}, "nn.conv2d: along H the window covers 3 elements, the padded data has 1"),
        ([IMAGE, (6, 4, 3, 0)], {}, "nn.conv2d: the window is empty along W"),
    ],
)  # fmt: skip
def test_what_is_refused(shapes: list[Any], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeRelError) as refused:
        result_type("nn.conv2d", *shapes, **attrs)
    assert refused.value.message.startswith(message)


def test_bools_are_refused() -> None:
    with pytest.raises(TypeRelError, match=r"nn\.conv2d: data is bool; supported: "):
        result_type("nn.conv2d", IMAGE, KERNEL, dtype="bool")


def test_padding_of_three_numbers_along_one_axis_is_refused() -> None:
    with pytest.raises(TypeRelError, match=r"nn\.conv1d: padding must have 1 or 2 numbers, not 3"):
        result_type("nn.conv1d", (1, 4, 8), (6, 4, 3), padding=(1, 1, 1))


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("implementation", ["shifts", "planes"])
def test_long_rows(implementation: str, jit: bool) -> None:
    """Rows that are padded one by one: whole vectors and parts, padding wider than a vector, rows outside the data."""
    rng, of_vectors = np.random.default_rng(0), by_plane.LONG_ROW * panel_width(4)
    for stride in (1, 2):
        for columns in (of_vectors - 1, of_vectors, of_vectors + 5):
            data = numbers(rng, (1, 2, 3, columns * stride), "float32")
            for padding in ((0, 1), (1, 2, 4, 0), (4, 19, 0, 23)):
                attrs = {"padding": padding, "strides": stride, "implementation": implementation}
                check(data, numbers(rng, (4, 2, 3, 3), "float32"), jit, **attrs)
