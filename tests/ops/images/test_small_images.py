"""Convolutions of small pictures: each channel by itself with channels in vectors, and one tap with input channels in vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.implementation import OpCall
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.kernels.conv import by_channels, by_rows
from relayvm.ops.native.jit.convolution.tap_vectors import has_mask_registers
from relayvm.ops.native.jit.convolution.window_taps import WINDOW
from relayvm.ops.native.object_layout import NO_LIMIT, SHARE
from relayvm.ops.strategy.choice import choose
from relayvm.ops.strategy.convolution.rows import MOST_POSITIONS
from relayvm.shape_funcs.symbolic.dim import dim

from ..opaque.opaque_kernels import run
from .test_conv import check, numbers

#: Channels around a whole group of vectors, and several groups.
CHANNELS = (1, by_channels.LANES, 2 * by_channels.LANES + 5)
GEOMETRIES: list[dict[str, Any]] = [
    {"padding": 2},
    {"padding": 2, "strides": 2},
    {"padding": (4, 3, 4, 5), "dilation": 2},
    {"padding": (1, 12, 4, 9), "strides": (2, 1), "dilation": (1, 3)},
]


@pytest.mark.split(2)
@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("attrs", GEOMETRIES, ids=["plain", "strides", "dilation", "mixed"])
def test_each_channel_by_itself(attrs: dict[str, Any], dtype: str) -> None:
    rng = np.random.default_rng(0)
    for channels in CHANNELS:
        for kernel, batch, height, width in [
            ((5, 5), 1, 6, 6), ((5, 5), 2, 3, 3), ((5, 5), 0, 6, 6), ((3, 3), 2, 2, 9), ((1, 7), 1, 5, 12), ((5, 5), 1, 11, 24),
        ]:  # fmt: skip
            data, weight = numbers(rng, (batch, channels, height, width), dtype), numbers(rng, (channels, 1, *kernel), dtype)
            check(data, weight, jit=True, groups=channels, tolerance=1e-4, **attrs)


@settings(max_examples=15)
@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 4), st.integers(1, 2), st.sampled_from([3, 5]), st.integers(0, 10**6))
def test_windows_as_plain_python(height: int, width: int, padding: int, stride: int, size: int, seed: int) -> None:
    """The plain code, whose loads and stores are all inside the arrays, has the bits of the machine code."""
    if min(height, width) + 2 * padding < size:
        return
    rng = np.random.default_rng(seed)
    given = [numbers(rng, (2, 3, height, width), "float32"), numbers(rng, (3, 1, size, size), "float32")]
    plain, code = (run("nn.conv2d", given, jit=jit, groups=3, padding=padding, strides=stride) for jit in (False, True))
    if size == WINDOW or has_mask_registers():  # else vectors may hold channels, and plain code rounds products and sums
        np.testing.assert_array_equal(plain.outputs[0], code.outputs[0])
    check(*given, groups=3, padding=padding, strides=stride)


@settings(max_examples=15)
@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.integers(0, 10**6))
def test_each_channel_as_plain_python(height: int, width: int, stride: int, dilation: int, seed: int) -> None:
    """Every load and store is inside the arrays; taps outside the data are left out."""
    rng = np.random.default_rng(seed)
    data, weight = numbers(rng, (2, 2, height, width), "float32"), numbers(rng, (2, 1, 3, 2), "float32")
    check(data, weight, groups=2, padding=2 * dilation, strides=stride, dilation=dilation)


@pytest.mark.parametrize("layout", ["OIHW", "HWIO"])
def test_channels_that_are_infinite_leave_the_others(layout: str) -> None:
    """Channels share vectors, not sums; the lanes without a channel hold numbers that no channel meets."""
    rng, channels = np.random.default_rng(1), by_channels.LANES + 3
    data, weight = numbers(rng, (2, channels, 4, 4), "float32"), numbers(rng, (channels, 1, 4, 5), "float32")
    data[:, 5], data[:, 66] = np.inf, np.nan
    given = np.ascontiguousarray(weight.transpose(2, 3, 1, 0)) if layout == "HWIO" else weight
    (result,), *_ = run("nn.conv2d", [data, given], jit=True, groups=channels, padding=2, kernel_layout=layout)
    finite = np.isfinite(result).all((0, 2, 3))
    assert np.flatnonzero(~finite).tolist() == [5, 66]


@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_by_columns(dtype: str) -> None:
    """Blocks of rows and columns, some left over, several parts of the input channels, pictures together."""
    rng = np.random.default_rng(2)
    for inputs, outputs in [(1, 1), (5, 4), (40, 9), (70, 27), (by_rows.INNER + 60, 13)]:
        weight = numbers(rng, (outputs, inputs, 1, 1), dtype)
        for batch, height, width in [(1, 1, 1), (2, 3, 3), (11, 2, 4), (1, 1, MOST_POSITIONS), (0, 3, 3), (3, 5, 5)]:
            data = numbers(rng, (batch, inputs, height, width), dtype)
            check(data, weight, jit=True, tolerance=1e-3, implementation="rows")


@pytest.mark.parametrize(
    ("kernel", "attrs"),
    [
        ((3, 3), {"padding": 1}),
        ((3, 1), {"padding": (2, 0, 1, 3), "strides": (1, 2)}),
        ((2, 3), {"padding": 2, "strides": 2, "dilation": (2, 1)}),
        ((1, 1), {"strides": 2}),
    ],
)
def test_rows_by_columns_of_several_taps(kernel: tuple[int, int], attrs: dict[str, Any]) -> None:
    """Operands outside the data, pictures smaller than the window, several parts of the terms."""
    rng = np.random.default_rng(4)
    for inputs, outputs in [(5, 4), (300, 9)]:
        weight = numbers(rng, (outputs, inputs, *kernel), "float32")
        for batch, height, width in [(1, 2, 2), (11, 3, 4), (2, 5, 7), (0, 3, 3)]:
            data = numbers(rng, (batch, inputs, height, width), "float32")
            check(data, weight, jit=True, tolerance=1e-3, implementation="rows", **attrs)
            if inputs < 9:
                check(data, weight, implementation="rows", **attrs)


@settings(max_examples=15)
@given(st.integers(0, 3), st.integers(0, 9), st.integers(0, 10), st.integers(1, 5))
def test_rows_by_columns_as_plain_python(batch: int, inputs: int, outputs: int, width: int) -> None:
    rng = np.random.default_rng(width)
    data, weight = numbers(rng, (batch, inputs, 2, width), "float32"), numbers(rng, (outputs, inputs, 1, 1), "float32")
    check(data, weight, implementation="rows")


@pytest.mark.parametrize(
    ("data", "weight", "attrs"),
    [
        ((3, 150, 6, 6), (150, 1, 5, 3), {"groups": 150, "padding": 2}),
        ((3, 150, 6, 6), (150, 1, 5, 5), {"groups": 150, "padding": 2}),
        ((19, 30, 3, 3), (50, 30, 1, 1), {"implementation": "rows"}),
        ((19, 30, 3, 3), (50, 30, 3, 2), {"implementation": "rows", "padding": 1}),
    ],
    ids=["channels", "windows", "rows", "rows of several taps"],
)  # fmt: skip
def test_the_same_bits_in_any_number_of_parts(data: tuple[int, ...], weight: tuple[int, ...], attrs: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    given = [numbers(rng, data, "float32"), numbers(rng, weight, "float32")]
    whole, *others = (
        run("nn.conv2d", given, jit=True, portions=[np.array([(k, n, NO_LIMIT, 1, 1)], SHARE) for k in range(n)], **attrs)
        for n in (1, 2, 3, 7)
    )
    for in_parts in others:
        np.testing.assert_array_equal(whole.outputs[0], in_parts.outputs[0])


@pytest.mark.parametrize(
    ("shape", "outputs", "strides", "name"),
    [
        ((1, 40, 3, 3), 8, 1, "rows"), ((64, 1, 1, 1), 8, 1, "rows"), ((1, 40, 3, 4), 8, 1, "rows"),
        ((1, 40, 1, 13), 8, 1, "tiles"), ((1, 40, 3, 3), 3, 1, "planes"),
    ],
)  # fmt: skip
def test_sizes_with_which_rows_pay(shape: tuple[int, ...], outputs: int, strides: int, name: str) -> None:
    conv = get("nn.conv2d")
    out = (shape[0], outputs, *(-(-n // strides) for n in shape[2:]))
    *given, result = (Tensor("float32", tuple(map(dim, s))) for s in (shape, (outputs, shape[1], 1, 1), out))
    assert choose(OpCall(conv, conv.attrs(strides=strides), tuple(given), (result,))).names[0] == name
