"""Convolution of one tap whose images are small: the columns of several images as one matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.kernels.conv.by_images import FEW_POSITIONS, MOST_INPUTS
from relayvm.ops.native.object_layout import NO_LIMIT, SHARE

from ..fused.test_epilogue import made, same
from ..opaque.opaque_kernels import run
from .test_conv import check, numbers


@pytest.mark.split(2)
@pytest.mark.extensive(dtype=("float32",))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_images_are_multiplied_together(dtype: str) -> None:
    """As many positions as fill vectors, fewer and more; a last matrix of fewer images; terms with and without room."""
    rng = np.random.default_rng(0)
    for batch, inputs, outputs, height, width in [
        (2, 96, 60, 5, 4),
        (3, 7, 13, 4, 5),
        (5, MOST_INPUTS + 1, 5, 3, 3),
        (7, 33, 1, 1, 1),
        (4, 600, 49, 2, FEW_POSITIONS // 2),
        (2, 5, 9, 1, FEW_POSITIONS + 1),
        (3, 1, 4, 4, 4),
    ]:
        data, weight = numbers(rng, (batch, inputs, height, width), dtype), numbers(rng, (outputs, inputs, 1, 1), dtype)
        check(data, weight, jit=True, tolerance=1e-4, implementation="tiles")


@settings(max_examples=40)
@given(st.data())
def test_images_as_plain_python(drawn: st.DataObject) -> None:
    """Every load and store is inside the arrays, at sizes of 0 and 1, too."""
    draw, few = drawn.draw, st.integers(0, 9)
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    inputs, outputs = draw(few), draw(st.sampled_from([0, 1, 6, 26]))
    data = numbers(rng, (draw(st.integers(0, 4)), inputs, draw(st.integers(0, 5)), draw(st.integers(0, 5))), "float32")
    check(data, numbers(rng, (outputs, inputs, 1, 1), "float32"), implementation="tiles")


def test_parts_have_the_bits_of_the_whole() -> None:
    """Parts begin at any image and band: the images of a matrix follow from the batch."""
    rng = np.random.default_rng(1)
    data, weight = numbers(rng, (5, 70, 5, 4), "float32"), numbers(rng, (130, 70, 1, 1), "float32")
    whole, *parted = (
        run(
            "nn.conv2d", [data, weight], portions=[np.array([(k, n, NO_LIMIT, 1, 1)], SHARE) for k in range(n)], jit=True,
            implementation="tiles",
        )
        for n in (1, 2, 3, 7)
    )  # fmt: skip
    for parts in parted:
        np.testing.assert_array_equal(whole.outputs[0], parts.outputs[0])


@pytest.mark.parametrize("tail", [["nn.relu"], [("nn.bias_add", "channel"), ("add", "result"), "tanh"], [("multiply", "image")]])
def test_epilogues_of_images(tail: list[object]) -> None:
    """Sums in the result, and apart from a result that is an operand; sums that are limited; NaN stays NaN."""
    for sizes in [(2, 30, 5, 4), (5, 9, 3, 3), (3, 600, 1, 7)]:
        case = {"data": sizes, "weight": (50, sizes[1], 1, 1), "attrs": {}, "tail": tail, "dtype": "float32", "is_known": False}
        group, arrays = made({**case, "seed": 3})
        arrays[0].flat[0] = np.nan
        same(replace(group, implementation="tiles"), arrays, jit=True)


def test_images_do_not_mix() -> None:
    """An infinite number reaches the results of its own position and image alone."""
    data, weight = np.zeros((3, 8, 2, 3), np.float32), np.ones((10, 8, 1, 1), np.float32)
    data[1, 3, 1, 0] = np.inf
    (result,), *_ = run("nn.conv2d", [data, weight], jit=True, implementation="tiles")
    found = np.zeros_like(result, bool)
    found[1, :, 1, 0] = True
    np.testing.assert_array_equal(np.isinf(result), found)
