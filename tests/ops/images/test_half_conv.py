"""Convolution of halves by planes: the numbers of float32, of any window, for planes in parts and in whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.ops.core.tensor_types import HALVES, numpy_dtype

from ...programs import HEADER
from ..opaque.opaque_kernels import run
from .test_conv import convolution


def halves(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return rng.standard_normal(shape).astype(numpy_dtype(dtype))


def check(data: np.ndarray, weight: np.ndarray, jit: bool, **attrs: Any) -> None:
    """Compare sums with the definition, and with those of widened data bit by bit."""
    name, given = f"nn.conv{data.ndim - 2}d", {"jit": jit, "out_dtype": "float32", **attrs}
    (found,), status, _ = run(name, [data, weight], implementation="half_planes", **given)
    assert status == 0 and found.dtype == np.float32
    wide, wide_weight = (a.astype(np.float32) for a in (data, weight))
    np.testing.assert_allclose(found, convolution(wide, wide_weight, attrs), rtol=1e-5, atol=1e-5)
    (same,), *_ = run(name, [wide, wide_weight], implementation="planes", **given)
    np.testing.assert_array_equal(found, same)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    rank, small = draw(st.sampled_from([1, 2, 2, 3])), st.integers(1, 3)
    groups, inputs, outputs = draw(small), draw(st.sampled_from([0, 1, 1, 2])), draw(st.sampled_from([0, 1, 1, 3]))
    kernel, dilation, strides = (tuple(draw(small) for _ in range(rank)) for _ in range(3))
    padding = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    sizes = [max(0, s - padding[i] - padding[rank + i] + draw(st.integers(0, 5))) for i, s in enumerate(span)]
    rng, dtype = np.random.default_rng(draw(st.integers(0, 10**6))), draw(st.sampled_from(HALVES))
    return {
        "data": halves(rng, (draw(st.integers(0, 2)), inputs * groups, *sizes), dtype),
        "weight": halves(rng, (outputs * groups, inputs, *kernel), dtype),
        "groups": groups if inputs else 1,
        "strides": strides,
        "padding": tuple(padding),
        "dilation": dilation,
    }


@settings(max_examples=40)
@given(cases())
def test_as_plain_python(case: dict[str, Any]) -> None:
    check(case.pop("data"), case.pop("weight"), False, **case)


@pytest.mark.parametrize("dtype", HALVES)
def test_machine_code(dtype: str) -> None:
    """Windows, other taps, planes of few positions; several planes at a time, and planes in bands of rows."""
    rng = np.random.default_rng(5)
    for window, attrs in [
        ((3, 3), {"padding": 1}),
        ((3, 3), {"padding": (0, 1, 2, 1), "strides": 2}),
        ((5, 4), {"padding": 2, "strides": (2, 1), "dilation": (1, 2)}),
    ]:
        for batch, channels, rows, columns in [(2, 70, 9, 7), (1, 3, 90, 61), (2, 2, 17, 300), (0, 2, 9, 9)]:
            data = halves(rng, (batch, channels, rows, columns), dtype)
            check(data, halves(rng, (channels, 1, *window), dtype), True, groups=channels, **attrs)
            check(data, halves(rng, (channels * 2, 1, *window), dtype), True, groups=channels, **attrs)


@pytest.mark.parametrize("dtype", HALVES)
def test_one_kernel_reads_halves_and_stores_halves(dtype: str) -> None:
    """A convolution of each channel by itself takes no cast, with what follows and without."""
    types = f"%x: Tensor[(?n, 40, 20, 20), {dtype}], %w: Tensor[(40, 1, 3, 3), {dtype}], %b: Tensor[(40,), {dtype}]"
    call = "nn.conv2d(%x, %w, padding=[1, 1], groups=40)"
    rng = np.random.default_rng(6)
    weight, bias = halves(rng, (40, 1, 3, 3), dtype), halves(rng, (40,), dtype)
    # a pool reads float32, and its result is cast
    programs = {call: 1, f"nn.relu({call})": 1, f"nn.relu(nn.bias_add({call}, %b))": 1, f"nn.max_pool2d({call})": 3}
    for result, kernels in programs.items():
        exe = relay.compile(relay.parse(f"{HEADER}def @main({types}) {{ {result} }}"))
        assert len(exe.packed) == kernels, result
        for n in (0, 1, 3):
            data = halves(rng, (n, 40, 20, 20), dtype)
            found = relay.VirtualMachine(exe).run(data, weight, bias).numpy()
            want = convolution(data.astype("f"), weight.astype("f"), {"padding": 1, "groups": 40})
            if "bias" in result:
                want = want + bias.astype("f")[:, None, None]
            want = np.maximum(want, 0) if "relu" in result else want
            unit = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
            assert found.dtype == data.dtype and found.shape == want.shape
            np.testing.assert_allclose(found.astype("f"), want, rtol=unit, atol=1e-5)
