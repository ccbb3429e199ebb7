"""Resizing and grid sampling on the emulated GPU: the CPU's expressions as CUDA C."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import numpy_dtype

from ...emulator import emulator
from ..fused.run_group import call, one_call
from .groups_on_gpu import evaluate

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)


def same_as_on_the_cpu(name: str, arrays: list[np.ndarray], **attributes: Any) -> None:
    attrs = get(name).attrs(**attributes)
    status, (result,) = evaluate(one_call(name, arrays, attrs), arrays)
    expected = call(name, arrays, attrs)
    assert status == 0 and result.shape == expected.shape and result.dtype == expected.dtype
    tolerance = 1e-5 if result.dtype.itemsize > 2 else 1e-2
    np.testing.assert_allclose(result.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("method", "mode", "dtype"),
    [
        ("cubic", "half_pixel", "float32"),
        ("linear", "tf_crop_and_resize", "float16"),
        ("nearest_neighbor", "align_corners", "int8"),
    ],
)
def test_resize(method: str, mode: str, dtype: str) -> None:
    data = (np.random.default_rng(1).standard_normal((2, 3, 5, 4)) * 9).astype(numpy_dtype(dtype))
    how = {"method": method, "coordinate_transformation_mode": mode, "cubic_exclude": 1}
    for size in ((7, 3), (1, 1), (0, 2)):
        same_as_on_the_cpu("image.resize2d", [data], size=size, roi=(0.1, 0.0, 0.9, 1.5), **how)
    roi = np.array([0.1, np.nan, 0.9, 1.5], np.float32)
    same_as_on_the_cpu("dyn.image.resize2d", [data, np.array([3, 5]), roi], **how)


def test_upsampling_by_a_factor_known_at_run_time() -> None:
    data = np.random.default_rng(2).standard_normal((1, 2, 3, 4)).astype(np.float32)
    same_as_on_the_cpu("dyn.nn.upsampling", [data, np.array(1.5, np.float32), np.array(2)], method="bilinear")


@pytest.mark.parametrize(("method", "padding"), [("bilinear", "zeros"), ("bicubic", "reflection"), ("nearest", "border")])
def test_grids(method: str, padding: str) -> None:
    rng = np.random.default_rng(3)
    data, grid = rng.standard_normal((2, 3, 5, 4)).astype(np.float32), (rng.standard_normal((2, 2, 3, 7)) * 2).astype(np.float32)
    grid[0, 0, 0, :2] = np.nan, np.inf
    same_as_on_the_cpu("image.grid_sample", [data, grid], method=method, padding_mode=padding)
    same_as_on_the_cpu("image.affine_grid", [rng.standard_normal((2, 2, 3)).astype(np.float32)], target_shape=(3, 1))
