"""Softmax of rows with masked elements: no result is subnormal, since processors compute with such numbers slowly."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.core.tensor_types import numpy_dtype

from .opaque_kernels import run

#: By dtype, the least normal number of the compute dtype.
TINY = {"float16": 2.0**-126, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}
#: Masks of exporters, and distances around the one at which exponentials are subnormal.
MASKS = (-np.inf, -3.3e38, -6e4, -1e4, -100.0, -95.0, -88.0, -87.0, -85.0, -80.0, -745.0, -709.0, -707.0, -700.0)
RTOL = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6, "float64": 1e-14}


def masked(dtype, fill):
    x = np.random.default_rng(0).normal(size=(3, 40, 40)).astype(numpy_dtype(dtype))
    x[:, np.triu(np.ones((40, 40), bool), 1)] = fill
    return x


def check(dtype, axis, fill, jit, log=False):
    x = masked(dtype, fill)
    with np.errstate(all="ignore"):
        (ours,), status, _ = run("nn.log_softmax" if log else "nn.softmax", [x], jit=jit, axis=axis)
        shifted = x.astype(np.longdouble) - x.astype(np.longdouble).max(axis, keepdims=True)
        exact = np.exp(shifted) / np.exp(shifted).sum(axis, keepdims=True)
    assert status == 0
    if log:
        total = np.log(np.exp(shifted).sum(axis, keepdims=True))
        np.testing.assert_allclose(ours.astype(np.float64), (shifted - total).astype(np.float64), RTOL[dtype], RTOL[dtype])
        return
    least = TINY[dtype]
    wide = ours.astype(np.float64)
    # a result below the least normal number is 0
    np.testing.assert_allclose(wide, exact.astype(np.float64), RTOL[dtype], 1.01 * max(least, 2.0**-24 * (dtype == "float16")))
    if dtype != "float16":  # whose own subnormal numbers are normal ones of float32
        assert ((wide == 0) | (wide >= least)).all(), wide[(wide != 0) & (wide < least)]


@pytest.mark.parametrize("dtype", TINY)
@pytest.mark.parametrize("axis", [2, 1])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_results_are_not_subnormal(dtype, axis):
    for fill in MASKS if dtype != "float16" else MASKS[2:]:
        check(dtype, axis, fill, jit=True)
    check(dtype, axis, -86.0, jit=False)


@pytest.mark.parametrize("axis", [2, 1])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_logarithms_stay(axis):
    for fill in MASKS[2:]:
        check("float32", axis, fill, jit=True, log=True)


@pytest.mark.parametrize("axis", [2, 1])
def test_a_whole_row_of_masks_is_even(axis):
    (ours,), status, _ = run("nn.softmax", [np.full((2, 8, 8), -3.3e38, "float32")], jit=True, axis=axis)
    assert status == 0
    np.testing.assert_array_equal(ours, np.float32(0.125))
