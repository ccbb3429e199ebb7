"""Convolution of groups of a few channels: tiles of positions whose operands are anywhere, by vectors of output channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.kernels.grouped_conv.cpu import BAND
from relayvm.ops.native.jit.convolution.gathered_tile import POSITIONS, tile_lanes
from relayvm.ops.native.object_layout import NO_LIMIT, SHARE

from ..opaque.opaque_kernels import run
from .test_conv import check, convolution, numbers

GEOMETRIES: list[dict[str, Any]] = [
    {"padding": 1},
    {"padding": 1, "strides": 2},
    {"padding": (4, 3, 0, 5), "dilation": 2, "strides": (1, 3)},
    {"padding": 9},  # positions that no tap reaches
]


@pytest.mark.split(2)
@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("attrs", GEOMETRIES, ids=["plain", "strides", "mixed", "outside"])
def test_groups(attrs: dict[str, Any], dtype: str) -> None:
    """Whole vectors of channels and parts, tiles that end with the positions or have fewer, several bands."""
    rng = np.random.default_rng(0)
    for groups, inputs, outputs in [(3, 8, 8), (1, 16, 24), (2, 13, 9), (3, 1, 2), (2, 4, 16)]:
        weight = numbers(rng, (groups * outputs, inputs, 3, 2), dtype)
        for batch, height, width in [(2, 5, 4), (1, 3, 3), (1, 4, BAND + 5), (3, 40, 17)]:
            data = numbers(rng, (batch, groups * inputs, height, width), dtype)
            check(data, weight, jit=True, tolerance=1e-4, groups=groups, implementation="groups", **attrs)


@settings(max_examples=60)
@given(st.data())
def test_groups_as_plain_python(drawn: st.DataObject) -> None:
    """Every load and store is inside the arrays, at sizes of 0 and 1, too."""
    draw, axis = drawn.draw, st.integers(1, 3)
    padding, strides, dilation = (
        draw(st.tuples(*[st.integers(0, 3)] * 4)),
        draw(st.tuples(axis, axis)),
        draw(st.tuples(axis, axis)),
    )
    window, groups = draw(st.tuples(axis, axis)), draw(axis)
    spans = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    size = [max(draw(st.integers(0, 7)), spans[n] - padding[n] - padding[n + 2]) for n in (0, 1)]
    inputs, outputs = draw(st.integers(0, 9)), draw(st.sampled_from([0, 1, 8, 11]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    data = numbers(rng, (draw(st.integers(0, 2)), groups * inputs, *size), "float32")
    weight = numbers(rng, (groups * outputs, inputs, *window), "float32")
    attrs = {"padding": padding, "strides": strides, "dilation": dilation, "groups": groups}
    check(data, weight, implementation="groups", **attrs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_have_the_bits_of_the_whole(dtype: str) -> None:
    """Parts begin at any group, element of the batch and band; the sums of a channel do not depend on its neighbours."""
    rng = np.random.default_rng(1)
    data, weight = numbers(rng, (3, 40, 30, 21), dtype), numbers(rng, (45, 8, 3, 3), dtype)
    given = {"jit": True, "groups": 5, "padding": 1, "implementation": "groups"}
    whole, *parted = (
        run("nn.conv2d", [data, weight], portions=[np.array([(k, n, NO_LIMIT, 1, 1)], SHARE) for k in range(n)], **given)
        for n in (1, 2, 7)
    )
    for parts in parted:
        np.testing.assert_array_equal(whole.outputs[0], parts.outputs[0])
    (alone,), *_ = run("nn.conv2d", [data[1:2, 8:16], weight[9:17]], **{**given, "groups": 1})
    np.testing.assert_array_equal(alone[0], whole.outputs[0][1, 9:17])


def test_a_number_reaches_the_results_of_its_taps_alone() -> None:
    """The zeros outside the data are no neighbour's numbers, nor are the lanes of missing channels."""
    data, weight = np.zeros((1, 8, 9, 7), np.float32), np.ones((10, 4, 3, 3), np.float32)
    data[0, 1, 4, 0], data[0, 6, 8, 6] = np.inf, np.nan
    (result,), *_ = run("nn.conv2d", [data, weight], jit=True, groups=2, padding=1, implementation="groups")
    expected = convolution(np.nan_to_num(data, nan=1, posinf=1), weight, {"groups": 2, "padding": 1})
    np.testing.assert_array_equal(np.isfinite(result), expected == 0)
    assert np.isinf(result[0, :5]).sum() == 5 * 6 and np.isnan(result[0, 5:]).sum() == 5 * 4


def test_a_tile_is_some_vectors() -> None:
    assert all(POSITIONS % tile_lanes(itemsize) == 0 for itemsize in (4, 8))
