"""sort, argsort, topk and cumsum on the emulated GPU, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.dtype_rules import NUMBERS
from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.ops.kernels.sort import merge_cuda
from relayvm.ops.native.status import SIZE_OVERFLOW

from ....emulator import emulator
from ...opaque.test_opaque_sort import order
from ..on_gpu import run, source_of
from .sorting import no_ranks, numbers, wide  # noqa: F401  the fixture is used by every test

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

TILE = merge_cuda.TILE
#: The rows here are few and short enough to be sorted by ranks (see ``sorting``).
pytestmark = pytest.mark.usefixtures("no_ranks")


@settings(max_examples=25)
@given(st.data())
def test_topk_is_the_head_of_the_stable_order(data: st.DataObject) -> None:
    edges = [0, 1, 2, 31, 32, 33, 100, TILE - 1, TILE, TILE + 1, 2 * TILE, 3 * TILE + 5, 9 * TILE]
    n, inner = data.draw(st.sampled_from(edges)), data.draw(st.integers(1, 2))
    k = min(n, data.draw(st.sampled_from([0, 1, 2, 7, 32, merge_cuda.SELECTED, merge_cuda.SELECTED + 1, 2**20])))
    dtype, is_ascend = data.draw(st.sampled_from([("float32", False), ("int64", True)]))
    x = numbers(np.random.default_rng(n + k), (2, n, inner), dtype)
    kept, attrs = k or n, {"axis": 1, "is_ascend": is_ascend, "dtype": "int64", "schedule": data.draw(st.integers(0, 3))}
    expected = order(wide(x), 1, is_ascend)[:, :kept]
    for name, inputs, more in (("topk", [x], {"k": k}), ("dyn.topk", [x, np.array(k)], {})):
        (values, positions), status, _ = run(name, inputs, **attrs, **more)
        assert status == 0
        np.testing.assert_array_equal(positions, expected)
        np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))


def test_sorted_and_reversed_rows_and_rows_of_one_value() -> None:
    n = 3 * TILE + 17
    for row in (np.arange(n), np.arange(n)[::-1], np.zeros(n, np.int64)):
        x = np.ascontiguousarray(row).astype(np.int32)
        np.testing.assert_array_equal(run("sort", [x]).outputs[0], np.sort(x))
        (values, positions), _, _ = run("topk", [x], k=5, is_ascend=True)
        np.testing.assert_array_equal(positions, np.argsort(x, kind="stable")[:5])
        np.testing.assert_array_equal(values, np.sort(x)[:5])


@pytest.mark.parametrize("ret_type", ["values", "indices"])
def test_topk_gives_one_of_its_results(ret_type: str) -> None:
    x = np.array([[3, 1, 2], [5, 5, 9]], np.float32)
    (result,), _, _ = run("topk", [x], k=2, ret_type=ret_type, dtype="float32")
    assert result.tolist() == ([[3, 2], [9, 5]] if ret_type == "values" else [[0, 2], [2, 0]])


def test_known_sizes_take_only_the_launches_that_they_need() -> None:
    def launches(n: int, k: int) -> list[str]:
        return [step.entry for step in source_of("topk", [np.empty((4, n), np.float32)], static=True, k=k).steps]

    assert launches(10, 3) == ["sort_short"] and launches(1000, 3) == ["sort_tiles"]
    assert launches(3000, 3) == ["few_of_sections"]
    assert launches(10_000, 3) == ["few_of_sections", "few_of_rows"]
    assert launches(10_000, 300) == ["select_sections", "select_rows"]
    assert launches(10_000, 5000) == ["clear_digits"] * 2 + ["count_digits"] + ["move_by_digit"] * 4
    x = np.arange(5000, dtype=np.float32)[::-1].copy()
    np.testing.assert_array_equal(run("sort", [x], static=True).outputs[0], x[::-1])


def test_a_row_longer_than_positions_reach_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_cuda, "MAX_BITS", 12)
    assert run("sort", [np.zeros(4094, np.int8)]).status == 0
    assert run("sort", [np.zeros(4095, np.int8)]).status == SIZE_OVERFLOW


# ---- cumsum --------------------------------------------------------------------------------------------------------


@pytest.mark.thinned(2)
@pytest.mark.split(2)
@pytest.mark.extensive(dtype=("float32", "int8"), exclusive=(False,))
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(
    ("dtype", "out"),
    [("float32", ""), ("int8", ""), ("int8", "int64"), ("bool", "int32"), ("int32", "float64"), ("uint16", "float16")],
)
def test_cumsum(dtype: str, out: str, exclusive: bool) -> None:
    rng = np.random.default_rng(0)
    result_dtype = numpy_dtype(out or dtype)
    for shape in [(0,), (1,), (9,), (2049,), (3, 4), (0, 3), (3, 0), (2, 3, 4), (2, 5000), (700, 3)]:
        data = rng.integers(0, 5, shape).astype(dtype)
        for axis in (None, *range(len(shape))):
            sums = np.cumsum(data, axis, dtype=np.int64)
            expected = sums - (data.reshape(sums.shape) if exclusive else 0)
            (result,), status, _ = run("cumsum", [data], axis=axis, dtype=out, exclusive=exclusive)
            assert status == 0 and result.dtype == result_dtype
            np.testing.assert_array_equal(result, expected.astype(result_dtype))


@pytest.mark.extensive(dtype=("float32", "bfloat16"))
@pytest.mark.parametrize("dtype", [d for d in NUMBERS if "float" in d])
def test_sums_of_floats_are_near_and_what_is_not_finite_stays_behind(dtype: str) -> None:
    data = np.random.default_rng(1).random((2, 4500)).astype(numpy_dtype(dtype))
    tolerance = {"float32": 1e-5, "float64": 1e-12, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    expected = np.cumsum(data.astype(np.float64), 1)
    (result,), _, _ = run("cumsum", [data], axis=1)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=tolerance)
    data[0, 3000] = np.inf
    (result,), _, _ = run("cumsum", [data], axis=1, exclusive=True)
    assert np.isfinite(result[0, :3001].astype(np.float32)).all() and np.isinf(result[0, 3001:].astype(np.float32)).all()


def test_a_constant_has_one_sum() -> None:
    assert run("cumsum", [np.float32(3)], literals=(0,), dtype="int32").outputs[0].tolist() == [3]
