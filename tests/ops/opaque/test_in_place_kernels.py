"""In-place kernels: each declared alias gives the same results, at sizes 0, 1 and larger."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.implementation import HOST
from relayvm.ops.core.tensor_types import numpy_dtype

from ..every_op.recipe import operators
from .opaque_kernels import run

Drawn = tuple[list[np.ndarray], dict[str, Any]]


def _softmax(draw: Any) -> Drawn:
    shape, axis = draw(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 3))), draw(st.integers(-3, 2))
    return [_numbers(draw, shape)], {"axis": axis}


def _numbers(draw: Any, shape: tuple[int, ...]) -> np.ndarray:
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "bfloat16"]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return (rng.integers(-8, 9, shape) / 4).astype(numpy_dtype(dtype))


def _scatter_elements(draw: Any) -> Drawn:
    data = _numbers(draw, draw(st.tuples(st.integers(1, 5), st.integers(1, 4))))
    axis, count = draw(st.integers(0, 1)), draw(st.integers(0, 4))
    shape = tuple(count if k == axis else n for k, n in enumerate(data.shape))
    indices = np.random.default_rng(count).integers(-data.shape[axis], data.shape[axis], shape)
    reduction = draw(st.sampled_from(["update", "add", "mul", "mean", "min", "max"]))
    updates = (indices + 0.5).astype(data.dtype)
    return [data, indices, updates], {"axis": axis, "reduction": reduction}


def _scatter_nd(draw: Any) -> Drawn:
    data = _numbers(draw, draw(st.tuples(st.integers(1, 5), st.integers(1, 4))))
    count = draw(st.integers(1, 4))
    indices = np.random.default_rng(count).integers(-len(data), len(data), (1, count))
    updates = (np.arange(count * data.shape[1]).reshape(count, data.shape[1]) / 2).astype(data.dtype)
    return [data, indices, updates], {"mode": draw(st.sampled_from(["update", "add", "mul", "min", "max"]))}


DRAWN = {
    "nn.softmax": _softmax,
    "nn.log_softmax": _softmax,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
}
DECLARED = [(op.name, k) for op in operators() for k in op.kernels_on(HOST) if k.in_place]


def test_every_such_kernel_is_tested() -> None:
    assert {name for name, _ in DECLARED} == set(DRAWN)


@pytest.mark.parametrize(("name", "implementation"), [(name, k.name) for name, k in DECLARED])
@given(data=st.data())
@settings(max_examples=40)
def test_the_same_memory_gives_the_same_results(name: str, implementation: str, data: st.DataObject) -> None:
    inputs, attrs = DRAWN[name](data.draw)
    (kernel,) = (k for n, k in DECLARED if (n, k.name) == (name, implementation))
    if implementation.endswith("rows") and np.prod(inputs[0].shape[attrs["axis"] % 3 + 1 :]) != 1:
        attrs["axis"] = 2
    if name == "nn.softmax" and implementation.endswith("rows"):  # each for its dtypes
        is_half, of_halves = inputs[0].itemsize == 2, implementation == "half_rows"
        inputs[0] = inputs[0] if is_half == of_halves else inputs[0].astype("float16" if of_halves else "float32")
    with np.errstate(all="ignore"):
        apart, together = (
            # how many coordinates there are must be known
            run(name, inputs, known=range(1, len(inputs)), implementation=implementation, in_place=pairs, **attrs)
            for pairs in ((), kernel.in_place)
        )
    assert apart.status == together.status == 0
    for a, b in zip(apart.outputs, together.outputs, strict=True):
        np.testing.assert_array_equal(a.astype(np.float64), b.astype(np.float64))


@pytest.mark.parametrize(("name", "axis"), [("nn.softmax", -1), ("nn.softmax", 0), ("nn.log_softmax", -1), ("nn.log_softmax", 0)])
def test_as_machine_code_too(name: str, axis: int) -> None:
    x = np.random.default_rng(0).standard_normal((33, 1001)).astype(np.float32)
    apart, together = (run(name, [x], jit=True, in_place=pairs, axis=axis) for pairs in ((), ((0, 0),)))
    # the vectors may differ, and so the order of additions
    np.testing.assert_allclose(apart.outputs[0], together.outputs[0], rtol=1e-5)
