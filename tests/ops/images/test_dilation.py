"""Dilation against plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType, numpy_dtype
from relayvm.ops.core.type_relation import relate
from relayvm.shape_funcs.defs.convolution.conv import data_layouts, per_axis, sides
from relayvm.shape_funcs.defs.sampling.image import dilation_layouts

from ..opaque.opaque_kernels import run
from .test_conv import in_layout


def dilated(data: np.ndarray, weight: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    """By the definition, in float64: channels before space."""
    stride, step = (per_axis(attrs.get(name, 1), 2, name) for name in ("strides", "dilations"))
    before, after = sides(attrs.get("padding", 0), 2)
    wide = np.pad(data.astype(np.float64), [(0, 0), (0, 0), *zip(before, after, strict=True)], constant_values=-np.inf)
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(wide.shape[2:], weight.shape[1:], step, stride, strict=True)]
    out = np.full((*data.shape[:2], *counts), -np.inf)
    for at in np.ndindex(*weight.shape[1:]):
        taken = tuple(slice(a * d, a * d + (n - 1) * s + 1, s) for a, d, n, s in zip(at, step, counts, stride, strict=True))
        out = np.maximum(
            out, wide[(slice(None), slice(None), *taken)] + weight[(slice(None), *at)].astype(np.float64)[:, None, None]
        )
    return out


def check(data: np.ndarray, weight: np.ndarray, jit: bool = False, **attrs: Any) -> None:
    plain, kernels = data_layouts(2)[0], dilation_layouts()
    layout = attrs.get("data_layout", plain)
    given_weight = in_layout(weight, attrs.get("kernel_layout", kernels[0]), kernels[0])
    (result,), status, _ = run("image.dilation2d", [in_layout(data, layout, plain), given_weight], jit=jit, **attrs)
    expected = in_layout(dilated(data, weight, attrs), layout, plain).astype(result.dtype)
    assert status == 0 and result.dtype == (attrs.get("out_dtype") or data.dtype)
    np.testing.assert_array_equal(result, expected)


@settings(max_examples=60)
@given(st.data(), st.integers(0, 10**6))
def test_dilation(draw: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def each(low: int, high: int, count: int = 2) -> tuple[int, ...]:
        return tuple(draw.draw(st.integers(low, high)) for _ in range(count))

    window, step, padding = each(1, 3), each(1, 2), each(0, 3, 4)
    least = [max(0, (window[k] - 1) * step[k] + 1 - padding[k] - padding[2 + k]) for k in range(2)]
    shape = (*each(0, 3), *(n + m for n, m in zip(least, each(0, 4), strict=True)))
    data = rng.standard_normal(shape).astype(draw.draw(st.sampled_from(["float32", "float64"])))
    data[rng.random(shape) < 0.05] = np.nan
    weight = rng.standard_normal((shape[1], *window)).astype(data.dtype)
    names = {"data_layout": draw.draw(st.sampled_from(data_layouts(2)))}
    names["kernel_layout"] = draw.draw(st.sampled_from(dilation_layouts()))
    check(data, weight, strides=each(1, 3), padding=padding, dilations=step, **names)


@pytest.mark.parametrize(("dtype", "layout"), [("float32", 0), ("bfloat16", 1)])
def test_dilation_as_machine_code(dtype: str, layout: int) -> None:
    rng = np.random.default_rng(2)
    names = {"data_layout": data_layouts(2)[layout], "kernel_layout": dilation_layouts()[layout]}
    for shape in [(2, 3, 9, 12), (1, 1, 1, 1), (0, 2, 3, 3)]:
        data, weight = (rng.integers(-9, 9, s).astype(numpy_dtype(dtype)) for s in (shape, (shape[1], 2, 3)))
        check(data, weight, jit=True, padding=(1, 2), out_dtype="float32", **names)


@pytest.mark.parametrize(
    ("shapes", "attrs", "message"),
    [
        ([(1, 4, 8), (4, 2, 2)], {}, "the data must have 4 dimensions, not 3"),
        ([(1, 4, 8, 8), (1, 4, 2, 2)], {}, "the weight must have 3 dimensions, not 4"),
        ([(1, 4, 8, 8), (3, 2, 2)], {}, "the data has 4 channels, the weight 3"),
        ([(1, 4, 0, 8), (4, 2, 2)], {}, "along H the window covers 2 elements, the padded data has 0"),
        ([(1, 4, 8, 8), (4, 2, 2)], {"strides": 0}, "strides must be at least 1, not 0"),
        ([(1, 4, 8, 8), (4, 2, 2)], {"dilations": (1, 2, 3)}, "dilations must have 1 or 2 numbers, not 3"),
        ([(1, 4, 8, 8), (4, 2, 2)], {"kernel_layout": "OIHW"}, "kernel_layout must be 'IHW' or 'HWI', not 'OIHW'"),
    ],
)
def test_what_is_refused(shapes: list[Any], attrs: dict[str, Any], message: str) -> None:
    op = get("image.dilation2d")
    with pytest.raises(TypeRelError) as refused:
        relate(op, [TensorType.of(s) for s in shapes], op.attrs(**attrs))
    assert refused.value.message.startswith(f"image.dilation2d: {message}")
