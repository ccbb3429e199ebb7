"""Scattering on the emulated GPU: updates of one place are applied in order, for every schedule of threads."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.kernels.scatter import last_cuda
from relayvm.ops.native.status import BAD_VALUE, INDEX_OUT_OF_RANGE, OK

from ..opaque import opaque_kernels
from .on_gpu import run, run_over_rows, source_of


def same(name, inputs, known=(), schedules=(0, 1), **attributes):
    """GPU and CPU results are equal bit for bit."""
    wanted, status, _ = opaque_kernels.run(name, inputs, jit=True, known=known, **attributes)
    assert status == OK
    for schedule in schedules:
        ran = run(name, inputs, static=bool(known), schedule=schedule, **attributes)
        assert ran.status == OK
        np.testing.assert_array_equal(ran.outputs[0], wanted[0], strict=True)


@pytest.mark.parametrize("reduction", ["update", "add", "mul", "min", "max", "mean"])
def test_scatter_elements(reduction):
    rng = np.random.default_rng(1)
    data = rng.standard_normal((4, 3)).astype("float32")
    indices = rng.integers(-3, 3, (2, 40))
    updates = rng.standard_normal(indices.shape).astype("float32")
    same("scatter_elements", [data, indices, updates], axis=1, reduction=reduction)


def test_updates_that_are_sorted_and_those_of_which_the_last_is_found(monkeypatch):
    rng = np.random.default_rng(5)
    data, indices, updates = rng.standard_normal((40, 8)), rng.integers(-40, 40, (1, 90)), rng.standard_normal((90, 8))
    wanted = data.copy()
    for at, update in zip(indices[0], updates, strict=True):
        wanted[at] = update
    for positions, name in ((last_cuda._POSITIONS, "write_last"), (-1, "write")):
        monkeypatch.setattr(last_cuda, "_POSITIONS", positions)
        monkeypatch.setattr(last_cuda, "_POSITIONS_OF_UPDATE", max(positions, 0))
        given = [data, indices, updates]
        entries = {step.entry for step in source_of("scatter_nd", given, static=True).steps}
        assert ("write_last" in entries, "write" in entries) == (name == "write_last", name == "write")
        np.testing.assert_array_equal(run("scatter_nd", given, static=True).outputs[0], wanted)


def test_more_updates_than_a_tile():
    rng = np.random.default_rng(2)
    data, indices = np.zeros(100, "float32"), rng.integers(0, 100, 5000).astype("int32")
    updates = rng.standard_normal(5000).astype("float32")
    for reduction in ("update", "add"):
        same("scatter_elements", [data, indices, updates], schedules=(3,), reduction=reduction)


@pytest.mark.extensive(dtype=("int8", "float16"))
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "bool"])
def test_other_dtypes(dtype):
    rng = np.random.default_rng(3)
    data, updates = (rng.integers(0, 2 if dtype == "bool" else 100, n).astype(dtype) for n in (5, 30))
    indices = rng.integers(0, 5, 30)
    for reduction in ("update",) if dtype == "bool" else ("update", "add", "max"):
        same("scatter_elements", [data, indices, updates], schedules=(0,), reduction=reduction)


def test_empty_sizes():
    for n, m in [(0, 0), (3, 0), (1, 1)]:
        given = [np.ones(n, "float32"), np.zeros(m, "int64"), np.full(m, 5, "float32")]
        same("scatter_elements", given, schedules=(0,))
        same("invert_permutation", [np.arange(m)], schedules=(0,))


@pytest.mark.parametrize("mode", ["update", "add"])
def test_scatter_nd(mode):
    rng = np.random.default_rng(4)
    data, updates = rng.standard_normal((3, 4, 2)).astype("float32"), rng.standard_normal((5, 3, 2)).astype("float32")
    indices = np.stack([rng.integers(-3, 3, (5, 3)), rng.integers(-4, 4, (5, 3))])
    same("scatter_nd", [data, indices, updates], known=(0, 1, 2), mode=mode)
    same("scatter_nd", [data, np.zeros((0, 2), int), np.stack([data, -data])], known=(0, 1, 2), mode=mode)


@pytest.mark.parametrize("mode", ["update", "add"])
def test_rows_written_in_place_are_the_only_ones_accessed(mode):
    cache, row = np.ones((3, 5), "float32"), np.full((1, 5), 2, "float32")
    wanted = cache + (row if mode == "add" else row - 1) * np.array([[0], [0], [1]], "float32")
    np.testing.assert_array_equal(run_over_rows("scatter_nd", [cache, np.array([[2]]), row], 1000, mode=mode), wanted)


def test_points():
    points, values = np.array([[0, 1], [2, 0], [0, 1]], "int32"), np.array([7, 8, 9], "float32")
    same("sparse_to_dense", [points, values, np.float32(-1)], known=(0, 1), output_shape=(3, 2))
    same("dyn.sparse_to_dense", [points, values, np.float32(-1), np.array([3, 2])], known=(0, 1))
    same("sparse_to_dense", [np.array([3, 1]), np.int8(5), np.int8(0)], known=(0,), output_shape=(4,))
    same("sparse_to_dense", [np.array(3), np.int8(5), np.int8(0)], known=(0,), output_shape=(4,))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_invert_permutation(dtype):
    same("invert_permutation", [np.random.default_rng(5).permutation(700).astype(dtype)])


def test_bad_indices_are_reported_and_write_nothing():
    data = np.zeros(3, "float32")
    for at in (3, -4, 2**40):
        given = [data, np.array([0, at]), np.ones(2, "float32")]
        assert run("scatter_elements", given).status == INDEX_OUT_OF_RANGE
        assert run("scatter_nd", [data, np.array([[0, at]]), given[2]], static=True).status == INDEX_OUT_OF_RANGE
    given = [np.array([0, -1]), np.ones(2, "float32"), np.float32(0)]
    assert run("sparse_to_dense", given, output_shape=(3,)).status == INDEX_OUT_OF_RANGE
    assert run("invert_permutation", [np.array([0, 3, 1])]).status == INDEX_OUT_OF_RANGE
    assert run("invert_permutation", [np.array([0, 1, 1])]).status == BAD_VALUE


@pytest.mark.parametrize("exclusive", [False, True])
def test_cumprod(exclusive):
    rng = np.random.default_rng(6)
    for shape, axis in [((2, 5000), 1), ((50, 3), 0), ((0, 3), 0), ((1,), None)]:
        data = rng.choice([1, -1, 3], shape).astype("int32")
        same("cumprod", [data], schedules=(0,), axis=axis, exclusive=exclusive)
