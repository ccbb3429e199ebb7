"""Instructions that order lanes by values: machine code computes what Python computes over numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.ops.kernels.byte_conv.words import permutes_bytes

from .test_vectors import both


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_set_lanes_side_by_side(lanes: int) -> None:
    body = """
for i in range(6):
    v = load(x, i * lanes, lanes)
    store(y, i * lanes, compress(v, v > 0))
"""
    data = np.random.default_rng(0).integers(-5, 6, 6 * lanes).astype(np.int32)
    data[:lanes], data[lanes : 2 * lanes] = 1, -1
    found = both(body, data, 6 * lanes, lanes=lanes)
    for row, given in zip(found.reshape(6, lanes), data.reshape(6, lanes), strict=True):
        kept = given[given > 0]
        np.testing.assert_array_equal(row, np.pad(kept, (0, lanes - len(kept))))


@pytest.mark.skipif(not permutes_bytes(), reason="needs AVX-512 VBMI")
@pytest.mark.parametrize("read", [32, 64])
def test_bytes_in_an_order(read: int) -> None:
    body = "store(y, 0, permute(load(x, 64, read), load(x, 0, 64)))"
    rng: Any = np.random.default_rng(1)
    data = np.concatenate([rng.integers(0, read, 64), rng.integers(0, 256, 64)]).astype(np.uint8)
    found = both(body, data, 128, read=read)
    np.testing.assert_array_equal(found[:64], data[64:][data[:64]])
