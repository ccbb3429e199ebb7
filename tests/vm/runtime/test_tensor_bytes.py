"""The bytes of a tensor, as machine code computes them from its sizes and dtype."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from relayvm.ops.core.tensor_types import DTYPES, ITEMSIZE
from relayvm.vm.runtime.objects.heap import checked_bytes, itemsize

#: The most bytes of a tensor, and of a tensor without elements as if it had some.
MOST, MOST_EMPTY = 1 << 46, 1 << 36
SIZES = st.integers(0, 9) | st.integers(0, 48).map(lambda k: 1 << k) | st.integers(-(2**63), 2**63 - 1)


def test_the_size_of_an_element() -> None:
    assert [itemsize(k) for k in range(len(DTYPES))] == [ITEMSIZE[name] for name in DTYPES]


@given(st.lists(SIZES, max_size=6), st.sampled_from(DTYPES))
@example([1 << 31, 1 << 15], "int8")
@example([1 << 31, (1 << 15) + 1], "int8")
@example([0, 1 << 36], "int8")
@example([0, (1 << 36) + 1], "int8")
@example([1 << 62, -1], "int8")
def test_bytes_or_the_refusal_of_a_size(sizes: list[int], dtype: str) -> None:
    shape = np.array([*sizes, 0], np.int64)
    as_if_not_empty = ITEMSIZE[dtype] * math.prod(max(n, 1) for n in sizes)
    total = ITEMSIZE[dtype] * math.prod(sizes)
    fits = min(sizes, default=0) >= 0 and as_if_not_empty <= (MOST if total else MOST_EMPTY)
    assert checked_bytes(shape.ctypes.data, len(sizes), DTYPES.index(dtype)) == (total if fits else -1)
