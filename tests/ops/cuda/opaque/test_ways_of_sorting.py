"""sort and argsort on the emulated GPU by each way, in tiles, by ranks, by digits, against numpy."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.tensor_types import DTYPES
from relayvm.ops.kernels.sort import merge_cuda, radix_cuda, rank_cuda

from ....emulator import emulator
from ..on_gpu import source_of
from .sorting import check, numbers, of_bits, without_ranks

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

TILE, PART = merge_cuda.TILE, radix_cuda.part("float32")
#: Entries that a block compares at a time.
TURN = 4 * rank_cuda.THREADS
#: For each way, a kernel of it and the lengths of rows that are sorted so.
WAYS = {
    "tiles": ("sort_tiles", [1, 2, 7, 32, 33, 100, TILE - 1, TILE]),
    "ranks": ("sort_by_ranks", [33, 63, 64, 65, 500, TURN - 1, TURN, TURN + 1, 2 * TURN, 2 * TURN + 45]),
    "digits": ("move_by_digit", [TILE + 1, PART - 1, PART, PART + 1, 8191, 8193, 3 * PART + 5]),
}
#: The length of the rows of every dtype.
LENGTHS = {"tiles": 100, "ranks": 100, "digits": PART + 1000}


def only(way: str) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if way == "ranks" else without_ranks()


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_these_lengths_are_sorted_this_way(way: str) -> None:
    kernel, lengths = WAYS[way]
    with only(way):
        for n in (LENGTHS[way], max(lengths)):
            assert kernel in [step.entry for step in source_of("sort", [np.empty((1, n), np.float32)], static=True).steps], n


@pytest.mark.thinned(4)
@pytest.mark.extensive(dtype=("float32", "int64"))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", WAYS)
def test_every_dtype_is_sorted_stably_both_ways(way: str, dtype: str) -> None:
    rng, n = np.random.default_rng(0), LENGTHS[way]
    rows = np.stack([numbers(rng, (n,), dtype), of_bits(rng, n, dtype)])
    with only(way):
        check(rows, 1, is_ascend=True)
        check(np.ascontiguousarray(rows.T), 0, is_ascend=False)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=15)
@given(st.data())
def test_rows_of_any_length_between_other_axes(way: str, data: st.DataObject) -> None:
    n, outer, inner = data.draw(st.sampled_from(WAYS[way][1])), data.draw(st.integers(0, 2)), data.draw(st.integers(1, 2))
    x = numbers(np.random.default_rng(n), (outer, n, inner), data.draw(st.sampled_from(["float32", "int64"])))
    with only(way):
        check(x, 1, x.dtype == np.int64, data.draw(st.integers(0, 5)))
