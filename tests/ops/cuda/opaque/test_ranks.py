"""The sort of a few rows by ranks on the emulated GPU, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.kernels.sort import merge_cuda, rank_cuda, select_cuda

from ....emulator import emulator
from ...opaque.test_opaque_sort import order
from ..on_gpu import run, source_of
from .sorting import check, numbers

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

#: Entries that a block compares at a time.
TURN = 4 * rank_cuda.THREADS


@settings(max_examples=10)
@given(st.data())
def test_topk_is_the_head_of_the_stable_order(data: st.DataObject) -> None:
    n, k = data.draw(st.sampled_from([33, 900, TURN + 1])), data.draw(st.sampled_from([1, 32, 33]))
    x = numbers(np.random.default_rng(n + k), (2, n), "float32")
    (values, positions), status, _ = run("topk", [x], k=k, axis=1, schedule=data.draw(st.integers(0, 3)))
    expected = order(x, 1, False)[:, :k]
    assert status == 0
    np.testing.assert_array_equal(positions, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))


def test_keys_of_all_bits_keep_their_order() -> None:
    x = np.full((1, 2 * TURN + 7), np.iinfo(np.uint32).max, np.uint32)
    x[0, ::3] = 5
    check(x, 1, True)
    check(np.full((2, TURN + 9), np.nan, np.float32), 1, True)


def test_ranks_are_for_few_comparisons_in_blocks_that_a_gpu_has_room_for() -> None:
    def launches(rows: int, n: int, k: int) -> list[str]:
        return [step.entry for step in source_of("topk", [np.empty((rows, n), np.float32)], static=True, k=k).steps]

    for rows, n, k in ((1, 33, 3), (4, 1000, 3), (1, 2049, 2049), (1, 8000, 300), (1, 11_000, 11_000)):
        assert launches(rows, n, k) == ["sort_by_ranks"], (rows, n)
    assert launches(1, merge_cuda.SHORT, 3) == ["sort_short"] and launches(5, 1000, 3) == ["sort_tiles"]
    assert launches(1, 3000, select_cuda.FEW) == ["few_of_sections"] and launches(1, 12_000, 300)[0] == "select_sections"
    assert launches(1, 12_000, 12_000)[0] == launches(4, 10_000, 10_000)[0] == "clear_digits"
