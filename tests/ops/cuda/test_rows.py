"""Groups that use the results of their reductions, on the emulated GPU."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.ops.native.status import EMPTY_REDUCTION

from ..fused.reductions.row_groups import CASES, needs_elements
from .groups_on_gpu import evaluate


@pytest.mark.split(2)
@pytest.mark.parametrize("name", CASES)
def test_each_is_one_kernel_and_right(name):
    case = CASES[name]
    group, names = case.group()
    for n, m in [(3, 5), (1, 1), (2, 300), (0, 3)]:
        arrays = case.arrays((n, 2, m) if case.rank == 3 else (n, m))
        status, (ours,) = evaluate(group, [arrays[k] for k in names])
        expected = case.numpy(arrays)
        assert status == 0 and ours.shape == expected.shape
        np.testing.assert_allclose(ours, expected, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("name", CASES)
def test_rows_without_elements(name):
    case = CASES[name]
    group, names = case.group()
    arrays = case.arrays((2, 2, 0) if case.rank == 3 else (2, 0))
    status, (ours,) = evaluate(group, [arrays[k] for k in names])
    if needs_elements(group):
        assert status == EMPTY_REDUCTION
    else:
        assert status == 0 and (ours.size == 0 or (ours == case.numpy(arrays)).all())


def test_an_operand_that_is_repeated():
    case = CASES["layer norm of gelu"]
    group, names = case.group(apart=True)
    arrays = case.arrays((3, 4))
    for other in ({}, {"o0": arrays["o0"][:1]}, {"o0": arrays["o0"][:, :1]}, {"v0": arrays["v0"][:1]}):
        given = arrays | other
        status, (ours,) = evaluate(group, [given[k] for k in names])
        assert status == 0
        np.testing.assert_allclose(ours, case.numpy(given), rtol=3e-5, atol=3e-5)
