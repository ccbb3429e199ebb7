"""Products of halves, two by two in float32: the product of all in float64, rounded once."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.ops.codegen import kernel_source
from relayvm.ops.core.tensor_types import HALVES, numpy_dtype

from ..run_group import compiled, evaluate, plain
from .row_groups import kernels

#: Rows and columns: none, one, two, odd numbers, more than a vector and more than a block of rows.
SHAPES = [(3, 0), (0, 3), (1, 1), (2, 2), (3, 7), (17, 5), (9, 133)]


def group_of_product(dtype, axis):
    text = f'def @main(%x: Tensor[(?n, ?m), {dtype}]) {{ prod(cast(%x, dtype="float32"), axis=[{axis}]) }}'
    ((group, _),) = kernels(text)
    return group


def check(x, axis, run=plain):
    status, (ours,) = evaluate(group_of_product(x.dtype.name, axis), [x], run)
    assert status == 0
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        expected = x.astype("float64").prod(axis).astype("float32")
    np.testing.assert_allclose(ours, expected, rtol=2**-23, strict=True)


def drawn(shape, dtype):
    return np.random.default_rng(3).uniform(-2, 2, shape).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", HALVES)
def test_any_number_of_elements(dtype, axis):
    assert "first * " in kernel_source(group_of_product(dtype, axis)).text
    for shape in SHAPES:
        check(drawn(shape, dtype), axis)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", HALVES)
def test_machine_code(dtype, axis):
    for shape in SHAPES:
        check(drawn(shape, dtype), axis, compiled)


@pytest.mark.parametrize("axis", [0, 1])
def test_no_two_float16_leave_the_range(axis):
    least, largest = 2.0**-24, 65504.0
    row = np.array([least, largest, least, least, largest, largest, least, largest] * 4, "float16")
    check(np.stack([row, row[::-1], np.full_like(row, least), np.full_like(row, -largest)] * 8), axis, compiled)
    check(np.array([[np.inf, 0, 1], [np.nan, 1, 2], [0, -1, 3]], "float16"), axis, compiled)
