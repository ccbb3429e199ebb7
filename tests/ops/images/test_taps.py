"""Convolution tap by tap, of a weight stored tap by tap: only the positions that a tap reaches are multiplied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.implementation import OpCall
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.defs.convolution.conv import geometry
from relayvm.ops.kernels.conv import by_taps
from relayvm.ops.kernels.conv.geometry import Convolution, Filters, Window
from relayvm.ops.kernels.spatial.cpu import Spatial
from relayvm.ops.native.object_layout import NO_LIMIT, SHARE
from relayvm.ops.strategy.choice import choose
from relayvm.ops.strategy.convolution.taps import Taps
from relayvm.shape_funcs.defs.convolution.conv import per_axis, sides
from relayvm.shape_funcs.symbolic.dim import Dim, const, dim, sym

from ..opaque.opaque_kernels import run
from .test_conv import check, numbers

#: Batch, channels, size, output channels, window, and attributes.
CASES: list[tuple[int, int, tuple[int, ...], int, tuple[int, ...], dict[str, Any]]] = [
    (1, 130, (14, 14), 70, (3, 3), {"padding": 12, "dilation": 12}),  # corners of 2 x 2, two parts of the channels
    (2, 5, (7, 9), 3, (3, 3), {"padding": 36, "dilation": 36}),  # one tap reaches the data
    (1, 9, (16, 20), 17, (3, 2), {"padding": (4, 0, 1, 4), "dilation": (4, 3)}),  # runs are copied, two regions
    (1, 3, (1, 1), 65, (3, 3), {"padding": 1}),
    (3, 4, (6, 5), 20, (2, 3), {"padding": (0, 2, 1, 0), "dilation": (1, 2), "strides": (2, 1)}),
    (1, 3, (4, 5), 6, (2, 2), {"padding": 9}),  # positions that no tap reaches
    (2, 6, (40,), 18, (3,), {"padding": (32, 0), "dilation": 16}),
    (1, 2, (5, 6, 3), 5, (3, 2, 3), {"padding": 4, "dilation": (4, 1, 2), "strides": (3, 2, 1)}),
    (1, 4, (35, 33), 40, (3, 3), {"padding": 12, "dilation": 12}),  # runs across the ends of regions
]  # fmt: skip


def tap_layout(rank: int) -> str:
    return {1: "WIO", 2: "HWIO", 3: "DHWIO"}[rank]


@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[2]} by {case[4]}")
def test_tap_by_tap(case: tuple[Any, ...], dtype: str) -> None:
    batch, inputs, size, outputs, window, attrs = case
    rng = np.random.default_rng(0)
    data, weight = numbers(rng, (batch, inputs, *size), dtype), numbers(rng, (outputs, inputs, *window), dtype)
    check(data, weight, jit=True, tolerance=1e-4, kernel_layout=tap_layout(len(size)), implementation="taps", **attrs)


@settings(max_examples=40)
@given(st.data())
def test_tap_by_tap_as_plain_python(given: st.DataObject) -> None:
    """Every load and store is inside the arrays, at sizes of 0 and 1, too."""
    draw, rank = given.draw, given.draw(st.sampled_from([1, 2, 2, 3]))
    small, few = st.integers(1, 3), st.integers(0, 3)
    window, dilation = ([draw(small) for _ in range(rank)] for _ in range(2))
    padding = [draw(few) for _ in range(2 * rank)]
    strides = [draw(small) for _ in range(rank - 1)] + [1]
    span = [(k - 1) * d + 1 - a - b for k, d, a, b in zip(window, dilation, padding[:rank], padding[rank:], strict=True)]
    size = [max(n, 0 if n <= 0 else n) + draw(few) for n in span]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    data = numbers(rng, (draw(st.integers(0, 2)), draw(few), *size), "float32")
    weight = numbers(rng, (draw(st.integers(0, 3)), data.shape[1], *window), "float32")
    check(
        data, weight, padding=tuple(padding), strides=tuple(strides), dilation=tuple(dilation), kernel_layout=tap_layout(rank),
        implementation="taps",
    )  # fmt: skip


def test_runs_of_whole_rows_are_one_run() -> None:
    runs = np.full(100, -1, np.int64)

    def placed(tap: tuple[int, int, int], begin: int = 0, end: int = 35) -> list[tuple[int, ...]]:
        images, weight = Spatial(runs, (1, 1, 1, 5, 7), (35, 35, 35, 7, 1)), Filters(runs, (1, 1, 1, 3, 3), (9, 9, 1))
        conv = Convolution(images, weight, images, Window((1, 1, 1), (0, 3, 3), (1, 3, 3)), 1)
        count = by_taps.place_runs(runs, tap, begin, end, conv)
        return [tuple(run) for run in runs[: 3 * count].reshape(-1, 3).tolist()]

    assert placed((0, 1, 1)) == [(0, 0, 35)]
    assert placed((0, 0, 1)) == [(0, 21, 14)]
    assert placed((0, 2, 2)) == [(24, 0, 4), (31, 7, 4)]
    assert placed((0, 2, 2), 9, 20) == [(33, 0, 2)]
    assert placed((0, 2, 2), 14) == []


@pytest.mark.parametrize("shape", [(2, 70, 14, 14), (1, 6, 33, 35)])
def test_the_same_bits_in_any_number_of_parts(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    operands = [numbers(rng, shape, "float32"), numbers(rng, (3, 3, shape[1], 150), "float32")]
    attrs: dict[str, Any] = {"padding": 8, "dilation": 8, "kernel_layout": "HWIO", "implementation": "taps"}
    whole, *others = (
        run("nn.conv2d", operands, jit=True, portions=[np.array([(k, n, NO_LIMIT, 1, 1)], SHARE) for k in range(n)], **attrs)
        for n in (1, 2, 3, 7)
    )
    for in_parts in others:
        np.testing.assert_array_equal(whole.outputs[0], in_parts.outputs[0])


def test_channels_that_are_infinite_leave_the_others() -> None:
    """Elements outside the data are left out: 0 times an infinite weight would be NaN."""
    rng = np.random.default_rng(1)
    data, weight = numbers(rng, (1, 4, 5, 5), "float32"), numbers(rng, (3, 3, 4, 20), "float32")
    weight[0, 0, 2, 7] = np.inf
    (result,), *_ = run("nn.conv2d", [data, weight], jit=True, padding=4, dilation=4, kernel_layout="HWIO", implementation="taps")
    assert np.argwhere(~np.isfinite(result)).tolist() == [[0, 7, 4, 4]]


def call_of(shape: tuple[Any, ...], weight: tuple[int, ...], **attrs: Any) -> OpCall:
    conv, rank = get("nn.conv2d"), 2
    made = conv.attrs(kernel_layout="HWIO", **attrs)
    dilation, strides = per_axis(made.dilation, rank, "dilation"), per_axis(made.strides, rank, "strides")
    before, after = sides(made.padding, rank)
    positions = [
        (n + a + b - (k - 1) * d - 1) // s + 1
        for n, a, b, k, d, s in zip(shape[2:], before, after, weight, dilation, strides, strict=False)
    ]
    *operands, result = (
        Tensor("float32", tuple(n if isinstance(n, Dim) else dim(n) for n in sizes))
        for sizes in (shape, weight, (shape[0], weight[3], *positions))
    )
    return OpCall(conv, made, tuple(operands), (result,))


@settings(max_examples=60)
@given(
    st.tuples(*[st.integers(1, 9)] * 2),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.integers(0, 6),
    st.integers(1, 6),
    st.integers(1, 3),
)
def test_the_pairs_that_are_reached(
    size: tuple[int, int], window: tuple[int, int], padding: int, dilation: int, stride: int
) -> None:
    """The sum of a convolution of ones is the number of pairs of a tap and a position inside the data."""
    if any(n + 2 * padding <= (k - 1) * dilation for n, k in zip(size, window, strict=True)):
        return
    attrs: dict[str, Any] = {"padding": padding, "dilation": dilation, "strides": stride}
    (result,), *_ = run("nn.conv2d", [np.ones((1, 1, *size), "f4"), np.ones((1, 1, *window), "f4")], **attrs)
    taps = Taps(2, lambda attrs: geometry(attrs, 2))
    assert const(taps.reached(call_of((1, 1, *size), (*window, 1, 1), **attrs))) == result.sum()


@pytest.mark.parametrize(
    ("size", "attrs", "worth"),
    [
        ((14, 14), {"padding": 12, "dilation": 12}, True),
        ((14, 14), {"padding": 2, "dilation": 2}, True),
        ((64, 64), {"padding": 2, "dilation": 2}, False),
        ((14, 14), {"padding": 1}, False),
        ((1, 1), {"padding": 1}, True),
        ((sym("h"), sym("w")), {"padding": 4, "dilation": 4}, True),
        ((sym("h"), sym("w")), {"padding": 2, "dilation": 2}, False),
        ((sym("h"), sym("w")), {"padding": 1}, False),
    ],
)  # fmt: skip
def test_sizes_with_which_a_weight_is_worth_storing_tap_by_tap(size: tuple[Any, ...], attrs: dict[str, Any], worth: bool) -> None:
    made = call_of((1, 64, *size), (3, 3, 64, 16), **attrs)
    assert choose(made).names == ("taps",)
    assert Taps(2, lambda attrs: geometry(attrs, 2)).reaches_few(made) == worth


@pytest.mark.parametrize(
    ("weight", "attrs", "name"),
    [
        ((3, 3, 63, 16), {}, "im2col"), ((3, 3, 64, 15), {}, "im2col"), ((1, 1, 64, 16), {}, "pointwise"),
        ((3, 3, 64, 16), {"strides": 2}, "im2col"),
    ],
)  # fmt: skip
def test_other_calls_by_other_implementations(weight: tuple[int, ...], attrs: dict[str, Any], name: str) -> None:
    assert choose(call_of((1, weight[2], 9, 9), weight, **attrs)).names[0] == name
